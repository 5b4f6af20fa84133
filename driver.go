package cronce

import (
	"context"
	"time"
)

// Claim asks a store to decide a tick.
type Claim struct {
	RunID      string // from NewRunID; the same claim again gets the same answer
	Job        string
	Definition Definition // zero: no definition is looked at or kept
	Tick       time.Time  // whole seconds; zero: a run by hand, which has no tick
	Slots      int        // how many runs the tick may have (identical crontab lines); 0 is 1
	Attempt    int        // 0 is 1; 2 is a re-run of a tick whose first run was lost
	Overlap    Overlap
	// StartDeadline is how old the tick may be when it is first offered,
	// by the store's clock; 0: as old as it likes.
	StartDeadline time.Duration
	// Offered is the store's time when this claim was first offered, as
	// *HeldError gave it; zero the first time, which is then now.
	Offered time.Time
	// CatchUp marks a tick offered after a later one is due: a live holder
	// leaves it undecided whatever Overlap says.
	CatchUp bool
	// TTL of the lease, for a store whose leases expire; 0: DefaultTTL.
	TTL    time.Duration
	Holder Holder
}

// The bounds of a lease's TTL. A store may have a higher floor of its own.
const (
	MinTTL     = 5 * time.Second
	DefaultTTL = 15 * time.Second
	MaxTTL     = time.Minute
)

// MaxSkew is how far a tick may lie ahead of the store's clock: a nearer one
// is waited for, a farther one refused.
const MaxSkew = 30 * time.Second

// RunQuery selects runs. Zero fields select all.
type RunQuery struct {
	Job   string
	ID    string
	Since time.Time // decided at or after it
	Limit int       // the newest so many
}

// Driver is what a store implements; programs call it through [Store].
// docs/store-contract.md says why each rule is there, and store/storetest tests
// them all.
//
// Each method is one atomic step by the store's clock: a caller that dies
// anywhere in it, or never hears the answer, leaves it either done or not done.
// A driver neither retries nor logs nor waits for anything but its server.
// Times it returns are the store's. Errors other than those named mean that the
// outcome is unknown: the same call again is always safe, and Runs by ID tells
// what came of a claim, though not that one still under way will not arrive.
type Driver interface {
	// Claim decides a tick and, where it is to be run, takes the lease with a
	// fence: the highest of the job so far plus one, or the microseconds since
	// 1970 if those are more. With OverlapAllow a run has a lease of its own and
	// no fence.
	//
	// First it marks every run of the job whose lease has ended as Lost, each
	// once. Then the first of these that holds is the answer:
	//
	//  1. This run id has been decided: the same answer, with Granted now, as
	//     after a renewal. Once its run has ended, *TakenError with that run;
	//     where its lease may not be renewed, what Renew says.
	//  2. The store keeps another definition: *ConflictError. One that keeps
	//     none, and every local store, takes it over, from now on.
	//  3. As many runs as Slots allows have this tick and attempt: *TakenError.
	//  4. The job's pruning watermark lies ahead of the store's clock:
	//     *ConfigError.
	//  5. The tick is at or below the watermark, or forgotten: *TakenError.
	//  6. The tick lies ahead of the store's clock: *SkewError.
	//  7. It is a re-run, Attempt 2, and of the tick's first runs no more are Lost
	//     than were run again: *HeldError while one of the first lives, whatever
	//     Overlap says, else *TakenError. Or a later tick of the job was decided:
	//     *TakenError.
	//  8. The tick lies at or before the store's first sight of itself, see
	//     Init: skipped as SkipStoreRestarted.
	//  9. The job is paused: skipped as SkipPaused.
	// 10. Offered lies more than StartDeadline after the tick: skipped as SkipLate.
	// 11. OverlapAllow: it runs.
	// 12. The store saw itself first less than MaxTTL ago: *HeldError without a
	//     holder.
	// 13. A run of the job lives. With CatchUp: *HeldError. If its lease was
	//     neither given nor renewed after Offered, and so may be a dead
	//     holder's: *HeldError. With OverlapSkip: skipped as SkipOverlap, or
	//     SkipOrphans where every one that lives is Orphaned. With OverlapWait
	//     and OverlapReplace: *HeldError until Wait has passed since Offered, then
	//     skipped.
	// 14. Another claim has the job's place to wait, for another tick: it goes
	//     first. With CatchUp, or where it has not been repeated after Offered,
	//     and so may be a dead waiter's: *HeldError. Else skipped as SkipOverlap.
	// 15. It runs.
	//
	// Steps 3 to 10 are for claims with a tick only: a person's run is not paused
	// nor late.
	//
	// A job has one place to wait. A claim under OverlapWait or OverlapReplace
	// that finds a live run takes it, also when it cannot yet tell whether that
	// one is dead, and keeps it by claiming again: the place ends a TTL after the
	// last of these, with the claim's decision, or, on a store without TTLs, with
	// its process. While another has it: for the same tick, *HeldError; for
	// another tick, skipped, once the run is known to live. OverlapReplace with
	// the place asks the runs that are known to live to stop, once.
	//
	// *SkippedError, *TakenError: decided, by this claim or earlier.
	// *HeldError, *ConflictError, *SkewError, *ConfigError: nothing is decided.
	Claim(ctx context.Context, c Claim) (Lease, error)

	// Renew makes the lease end its TTL from now, and brings requests to stop.
	// It also records Lease.Orphaned, and a Run.Holder that changed: the lease
	// was handed to another process. It names the run, and renews no other.
	// ErrLost: the lease has ended, by the store's clock, whether or not anybody
	// has noticed, or is not on record; it is not taken again. *RevokedError: it
	// was taken away, and ends when it would have ended.
	Renew(ctx context.Context, l Lease) (Lease, error)

	// Finish records the result and gives up the lease, also a revoked one.
	// Repeating it is harmless and changes nothing. ErrLost: the lease had ended
	// before, and no result is recorded.
	Finish(ctx context.Context, l Lease, r Result) error

	// Request records a person's request. A job that is paused stays paused by
	// whom it was: another Pause changes nothing, and is not recorded. Nor is
	// what finds nothing to resume, stop, revoke or take back. The same
	// definition again changes nothing, Since included.
	Request(ctx context.Context, r Request) error

	// Requests returns what was asked of a job, oldest first: the newest limit
	// of it, or all that is kept where limit is 0. A definition that came with
	// a claim is no request.
	Requests(ctx context.Context, job string, limit int) ([]Request, error)

	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)

	// Jobs returns the state of the named job, or of all, by name. A job that
	// the store has never seen is not in it. It changes nothing: a run whose
	// lease has ended is live until a claim marks it. Expires says when a live
	// one's ends, here and in Runs.
	Jobs(ctx context.Context, job string) ([]JobState, error)

	// Runs returns the runs that q selects, oldest first, Result.Output
	// included where q names one ID.
	Runs(ctx context.Context, q RunQuery) ([]Run, error)

	// Prune forgets runs decided before that time, of the named job or of all,
	// never a live one, and returns how many. A tick it forgot stays decided:
	// the highest of them is the job's watermark. The highest fence, the
	// definition, pause and last success stay.
	Prune(ctx context.Context, job string, before time.Time) (int, error)

	// Init makes a store known: what is not on its record was not decided. A
	// person says so of a new store. Until then one that is empty, or may
	// have lost decisions because its server restarted without them or another
	// took its place, remembers in its first claim when it first saw itself so,
	// and keeps to that. The server's identity is compared in the same atomic
	// step as the claim. On a store that is known it changes nothing; making a
	// local store is its Init.
	Init(ctx context.Context) error

	// Close gives back what the driver holds. Leases are not released. Closing
	// again is harmless.
	Close() error
}

// LocalDriver is a driver of a store of one machine: its clock is the host's, and its
// leases end with their holders' processes.
type LocalDriver interface {
	Driver
	Local() // it does nothing
}
