package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
)

// allowance is for how long a process that was stopped may still do something under a
// lease that has ended in the meantime: until it has noticed. No program can do better,
// and that is what fences are for. It is long as machines are busy.
const allowance = 2 * time.Second

// A history is what happened, as all sides have it.
type history struct {
	jobs    []string
	saw     []seen // by job in the order of events
	records []cronce.Run
	pauses  []span
	deaths  map[string]time.Duration
}

// A launch is a tick of a job.
type launch struct {
	job  string
	tick int64
}

// life is a run as the witness saw it.
type life struct {
	seen        // its start
	begun, done bool
	over        bool // it has said that it does no more
	stale       bool // something it did was refused
}

// A result is what a check found.
type result struct {
	rows  []*row
	wrong []string
}

// row is the numbers of one kind of job.
type row struct {
	kind                                              string
	ticks, succeeded, cancelled, lost, failed, missed int
	skips                                             map[cronce.SkipReason]int
	starts, refused, unrecorded                       int
}

func (r *result) fault(format string, args ...any) {
	if len(r.wrong) < 30 {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

func (r *result) row(kind string) *row {
	for _, have := range r.rows {
		if have.kind == kind {
			return have
		}
	}
	r.rows = append(r.rows, &row{kind: kind, skips: map[cronce.SkipReason]int{}})
	return r.rows[len(r.rows)-1]
}

// check holds what was seen against the rules, and against the records.
func (h *history) check() *result {
	r := &result{}
	runs := map[string]*life{}
	for _, job := range h.jobs {
		h.follow(job, r, runs)
	}
	h.compare(r, runs)
	for _, job := range h.jobs {
		h.account(job, r)
	}
	return r
}

// excused reports whether the process was stopped then, or had been a moment before.
func (h *history) excused(s seen) bool {
	return slices.ContainsFunc(h.pauses, func(p span) bool {
		return p.who == s.Who && s.At >= p.from && (p.to == 0 || s.At <= p.to+allowance)
	})
}

// follow goes through what the runs of a job did. Once a run has started, no earlier one
// may do anything.
func (h *history) follow(job string, r *result, runs map[string]*life) {
	var owner *life // the run that started last
	ran := map[int64]string{}
	for _, s := range h.saw {
		if s.Job != job {
			continue
		}
		this := runs[s.Run]
		if this == nil {
			this = &life{seen: s}
			runs[s.Run] = this
		}
		this.stale = this.stale || s.Stale
		switch s.What {
		case overlap:
			r.fault("overlap: run %s of %s found work of an earlier one at work", s.Run, job)
			continue
		case started:
			this.seen, this.begun = s, true
			r.row(kind(job)).starts++
			if other, did := ran[s.Tick]; did {
				r.fault("twice: tick %d of %s was run by %s and by %s", s.Tick, job, other, s.Run)
			}
			ran[s.Tick] = s.Run
		case ended:
			this.done, this.over = true, true
		case stopped:
			this.over = true
			if kind(job) == bare { // it has waited for the store to say so, and done nothing
				continue
			}
		}
		switch {
		case owner == nil || s.Run == owner.Run:
			if s.What == started {
				owner = this
			}
		case s.What == renewed:
			// It may have been asked before the other one started, and be heard of after.
			if s.Fence < owner.Fence && s.Asked > owner.At {
				r.fault("lease: the store renewed run %s of %s after run %s had started", s.Run, job, owner.Run)
			}
		case s.What == started && s.Fence > owner.Fence:
			h.succeed(owner, this, r)
			owner = this
		case h.excused(s):
			r.row(kind(job)).refused++
			if !s.Stale {
				r.fault("fence: run %s of %s was stopped and did %q beside %s, and its fence did not tell", s.Run, job, s.What, owner.Run)
			}
		case s.What == started:
			r.fault("fence: run %s of %s started with %d after run %s with %d", s.Run, job, s.Fence, owner.Run, owner.Fence)
		default:
			r.fault("overlap: run %s of %s (%s) did %q, %s after run %s (%s) had started", s.Run, job, s.Who, s.What, s.At-owner.At, owner.Run, owner.Who)
		}
	}
	if owner != nil && !owner.over && kind(job) != command {
		if _, died := h.deaths[owner.Who]; !died {
			r.fault("end: run %s of %s (%s) was never seen to end", owner.Run, job, owner.Who)
		}
	}
}

// succeed looks whether a run was over when the next one started. That of a command the
// next one asks the kernel, and a bare one does nothing while it does not know; what
// others do from then on is seen by itself.
func (h *history) succeed(last, next *life, r *result) {
	if k := kind(next.Job); last.over || k == command || k == bare {
		return
	}
	at := next.seen
	at.Who = last.Who
	died, did := h.deaths[last.Who]
	if did && died > next.At && !h.excused(at) {
		r.fault("overlap: run %s of %s (%s) went on until it was killed, %s after run %s (%s) had started",
			last.Run, next.Job, last.Who, died-next.At, next.Run, next.Who)
	}
}

// compare compares records with what was seen.
func (h *history) compare(r *result, runs map[string]*life) {
	records := map[string]cronce.Run{}
	decided := map[launch]string{}
	for _, rec := range h.records {
		records[rec.ID] = rec
		l := launch{rec.Job, rec.Tick.Unix()}
		if other, did := decided[l]; did {
			r.fault("twice: tick %d of %s was decided by %s and by %s", l.tick, l.job, other, rec.ID)
		}
		decided[l] = rec.ID
		life := runs[rec.ID]
		switch {
		case rec.Skip != "" && life != nil && life.begun:
			r.fault("record: run %s of %s is on record as skipped, and ran", rec.ID, rec.Job)
		case rec.Outcome == cronce.Succeeded && (life == nil || !life.begun || !life.done):
			r.fault("record: run %s of %s is on record as succeeded, and was not seen to be", rec.ID, rec.Job)
		case (rec.Outcome == cronce.Failed || rec.Outcome == cronce.TimedOut) && (life == nil || !life.stale):
			r.fault("record: run %s of %s is on record as %s: %s", rec.ID, rec.Job, rec.Outcome, rec.Message)
		case rec.Live() && life != nil && life.begun:
			r.fault("record: run %s of %s is on record as if it went on", rec.ID, rec.Job)
		}
	}
	for id, life := range runs {
		if !life.begun {
			continue
		}
		rec, known := records[id]
		switch {
		case !known:
			r.fault("record: run %s of %s was seen, and is not on record", id, life.Job)
		case rec.Job != life.Job || rec.Tick.Unix() != life.Tick || rec.Fence != life.Fence:
			r.fault("record: run %s was seen as %s, tick %d, fence %d and is on record as %s, tick %d, fence %d",
				id, life.Job, life.Tick, life.Fence, rec.Job, rec.Tick.Unix(), rec.Fence)
		case life.done && rec.Outcome != cronce.Succeeded:
			r.row(kind(life.Job)).unrecorded++
		}
	}
}

// account says of every tick of a job, from the first that was decided to the last, what
// became of it.
func (h *history) account(job string, r *result) {
	var first, last int64
	by := map[int64]cronce.Run{}
	for _, rec := range h.records {
		if tick := rec.Tick.Unix(); rec.Job == job {
			by[tick] = rec
			if first == 0 || tick < first {
				first = tick
			}
			last = max(last, tick)
		}
	}
	n := r.row(kind(job))
	for tick := first; tick <= last && first > 0; tick++ { // @every 1s
		rec, decided := by[tick]
		n.ticks++
		switch {
		case !decided:
			n.missed++
		case rec.Skip != "":
			n.skips[rec.Skip]++
		case rec.Outcome == cronce.Succeeded:
			n.succeeded++
		case rec.Outcome == cronce.Cancelled:
			n.cancelled++
		case rec.Outcome == cronce.Failed, rec.Outcome == cronce.TimedOut:
			n.failed++
		default: // lost, or about to be
			n.lost++
		}
	}
}

// ticks is how many there were in all.
func (r *result) ticks() (n int) {
	for _, k := range r.rows {
		n += k.ticks
	}
	return n
}

// table is the numbers, a line for each kind of job and one for all.
func (r *result) table(title string) string {
	all := &row{kind: "all", skips: map[cronce.SkipReason]int{}}
	slices.SortFunc(r.rows, func(a, b *row) int { return strings.Compare(a.kind, b.kind) })
	for _, n := range r.rows {
		all.add(n)
	}
	reasons := slices.Sorted(maps.Keys(all.skips))
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tticks\tsucceeded\tcancelled\tlost\tfailed\t", title)
	for _, reason := range reasons {
		fmt.Fprintf(w, "%s\t", reason)
	}
	fmt.Fprint(w, "missed\tstarts seen\tdone, not on record\tstale, refused\t\n")
	for _, n := range append(r.rows, all) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t", n.kind, n.ticks, n.succeeded, n.cancelled, n.lost, n.failed)
		for _, reason := range reasons {
			fmt.Fprintf(w, "%d\t", n.skips[reason])
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t\n", n.missed, n.starts, n.unrecorded, n.refused)
	}
	w.Flush()
	return b.String()
}

func (r *row) add(n *row) {
	r.ticks += n.ticks
	r.succeeded += n.succeeded
	r.cancelled += n.cancelled
	r.lost += n.lost
	r.failed += n.failed
	r.missed += n.missed
	r.starts += n.starts
	r.unrecorded += n.unrecorded
	r.refused += n.refused
	for reason, count := range n.skips {
		r.skips[reason] += count
	}
}
