// Package cronce runs scheduled jobs once: a job never runs twice for the
// same scheduled time, never overlaps itself, and leaves a record of every
// run, over any number of processes that share a [Store].
//
// The words. A [Job] is a named piece of work with a schedule. A tick is one
// scheduled time of a job: an instant that names a launch, whatever the
// moment a process noticed it. A [Claim] is the decision of a tick, run or
// skip, made once, in the store; it outlives the run. A [Lease] is the
// exclusive right to run the job now. A [Run] is one execution, kept on
// record. The fence is a number that grows with every lease of a job, so that
// stale work can be refused.
//
// The promise. For every job and tick at most one run starts, anywhere, and
// while a run lives no other run of that job starts unless the job allows it.
// Where cronce cannot know, it does not start: a missed run can be run by
// hand, a double one cannot be undone.
package cronce
