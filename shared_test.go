package cronce

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// shared is a store in memory whose leases end by TTL on its own clock, with the
// means to hurt it. The conformance suite has a whole one; this one knows what the
// tests of renewal and of the scheduler need.
type shared struct {
	Driver // what is not here is not called

	mu     sync.Mutex
	offset time.Duration // of its clock to the host's
	jobs   map[string]*sharedJob
	away   bool                                    // nothing reaches it
	rigid  bool                                    // it takes no writes
	lose   func(op string) bool                    // the answer is lost
	takes  func(op string) (to, fro time.Duration) // the way there and back
	ended  map[string]time.Time                    // when runs were finished or lost, by id
}

type sharedJob struct {
	JobState
	runs []*sharedRun
}

type sharedRun struct {
	Run
	granted time.Time
	ttl     time.Duration
	stop    *Request
}

var errAway = &UnavailableError{Store: "memory", Err: errors.New("connection refused")}

func newShared() *shared {
	return &shared{jobs: map[string]*sharedJob{}, ended: map[string]time.Time{}}
}

// onBubbleClock lets leases be kept by the clock of a synctest bubble.
func onBubbleClock(t *testing.T) {
	sinceBoot = func() time.Duration { return time.Duration(time.Now().UnixNano()) }
	t.Cleanup(func() { sinceBoot = bootClock })
}

// travel is a request's way there, the step, and its way back.
func travel[T any](ctx context.Context, d *shared, op string, step func(now time.Time) (T, error)) (answer T, err error) {
	d.mu.Lock()
	takes, lose := d.takes, d.lose
	d.mu.Unlock()
	var to, fro time.Duration
	if takes != nil {
		to, fro = takes(op)
	}
	if !pause(ctx, to) {
		return answer, ctx.Err()
	}
	d.mu.Lock()
	if d.away || d.rigid && op != "now" && op != "jobs" {
		d.mu.Unlock()
		return answer, errAway
	}
	answer, err = step(time.Now().Add(d.offset).UTC())
	d.mu.Unlock()
	if !pause(ctx, fro) {
		var none T
		return none, ctx.Err()
	}
	if lose != nil && lose(op) {
		var none T
		return none, errAway
	}
	return answer, err
}

func (d *shared) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *shared) Now(ctx context.Context) (time.Time, error) {
	return travel(ctx, d, "now", func(now time.Time) (time.Time, error) { return now, nil })
}

func (d *shared) job(name string) *sharedJob {
	j := d.jobs[name]
	if j == nil {
		j = &sharedJob{JobState: JobState{Job: name}}
		d.jobs[name] = j
	}
	return j
}

// expire marks what has ended by that time.
func (d *shared) expire(j *sharedJob, now time.Time) {
	for _, r := range j.runs {
		if r.Live() && !now.Before(r.granted.Add(r.ttl)) {
			r.Outcome, r.End = Lost, now
			d.ended[r.ID] = r.granted.Add(r.ttl)
		}
	}
}

func (d *shared) Claim(ctx context.Context, c Claim) (Lease, error) {
	return travel(ctx, d, "claim", func(now time.Time) (none Lease, err error) {
		j := d.job(c.Job)
		d.expire(j, now)
		for _, r := range j.runs {
			if r.ID != c.RunID {
				continue
			}
			if !r.Live() {
				return none, &TakenError{Job: c.Job, Tick: c.Tick, Run: r.Run}
			}
			r.granted = now
			return Lease{Run: r.Run, Granted: now, TTL: r.ttl}, nil
		}
		if c.Definition != (Definition{}) && c.Definition != j.Definition {
			if !j.Since.IsZero() {
				return none, &ConflictError{Job: c.Job, Kept: j.Definition, Have: c.Definition, Since: j.Since}
			}
			j.Definition, j.Since = c.Definition, now
		}
		var holder *sharedRun
		for _, r := range j.runs {
			if !c.Tick.IsZero() && r.Tick.Equal(c.Tick) && r.Attempt == c.Attempt {
				return none, &TakenError{Job: c.Job, Tick: c.Tick, Run: r.Run}
			}
			if r.Live() {
				holder = r
			}
		}
		if c.Tick.After(now) {
			return none, &SkewError{Job: c.Job, Tick: c.Tick, Now: now}
		}
		if c.Attempt > 1 {
			if err := j.rerun(c, now); err != nil {
				return none, err
			}
		}
		r := &sharedRun{granted: now, ttl: c.TTL, Run: Run{ID: c.RunID, Job: c.Job, Tick: c.Tick, Attempt: c.Attempt, Holder: c.Holder, Start: now}}
		offered := c.Offered
		if offered.IsZero() {
			offered = now
		}
		switch {
		case !c.Tick.IsZero() && c.StartDeadline > 0 && offered.Sub(c.Tick) > c.StartDeadline:
			r.Skip = SkipLate
		case holder != nil && (c.CatchUp || !holder.granted.After(offered)):
			return none, &HeldError{Holder: holder.Run, Offered: offered, Expires: holder.granted.Add(holder.ttl)}
		case holder != nil:
			r.Skip = SkipOverlap
		}
		j.runs = append(j.runs, r)
		if r.Skip != "" {
			return none, &SkippedError{Run: r.Run}
		}
		j.Fence = max(j.Fence+1, now.UnixMicro())
		r.Fence = j.Fence
		return Lease{Run: r.Run, Granted: now, TTL: r.ttl}, nil
	})
}

// rerun says why a tick is not to be run again.
func (j *sharedJob) rerun(c Claim, now time.Time) error {
	taken := &TakenError{Job: c.Job, Tick: c.Tick}
	for _, r := range j.runs {
		switch {
		case r.Tick.After(c.Tick):
			return taken
		case !r.Tick.Equal(c.Tick):
		case r.Live():
			return &HeldError{Holder: r.Run, Offered: now, Expires: r.granted.Add(r.ttl)}
		default:
			taken.Run = r.Run
		}
	}
	if taken.Run.Outcome != Lost {
		return taken
	}
	return nil
}

// leased is the run of a lease that has not ended.
func (d *shared) leased(l Lease, now time.Time) (*sharedRun, error) {
	j := d.job(l.Run.Job)
	d.expire(j, now)
	for _, r := range j.runs {
		if r.ID == l.Run.ID && r.Live() {
			return r, nil
		}
	}
	return nil, ErrLost
}

func (d *shared) Renew(ctx context.Context, l Lease) (Lease, error) {
	return travel(ctx, d, "renew", func(now time.Time) (Lease, error) {
		r, err := d.leased(l, now)
		if err == nil {
			r.granted = now
			l.Granted, l.Stop = now, r.stop
		}
		return l, err
	})
}

func (d *shared) Finish(ctx context.Context, l Lease, result Result) error {
	_, err := travel(ctx, d, "finish", func(now time.Time) (none any, err error) {
		r, err := d.leased(l, now)
		if err == nil {
			r.Result, r.End = result, now
			d.ended[r.ID] = now
		}
		return nil, err
	})
	return err
}

func (d *shared) Request(ctx context.Context, q Request) error {
	_, err := travel(ctx, d, "request", func(now time.Time) (none any, err error) {
		j := d.job(q.Job)
		switch q.Kind {
		case Define:
			if j.Definition != q.Definition {
				j.Definition, j.Since = q.Definition, now
			}
		case Stop:
			for _, r := range j.runs {
				if r.Live() {
					r.stop = &q
				}
			}
		}
		return nil, nil
	})
	return err
}

func (d *shared) Jobs(ctx context.Context, name string) ([]JobState, error) {
	return travel(ctx, d, "jobs", func(now time.Time) (states []JobState, err error) {
		for _, j := range d.jobs {
			if name != "" && j.Job != name || j.Since.IsZero() {
				continue
			}
			state := j.JobState
			for _, r := range j.runs {
				if r.Live() {
					state.Live = append(state.Live, r.Run)
				}
			}
			states = append(states, state)
		}
		return states, nil
	})
}

func (d *shared) Runs(ctx context.Context, q RunQuery) ([]Run, error) {
	return travel(ctx, d, "runs", func(now time.Time) (runs []Run, err error) {
		for _, j := range d.jobs {
			for _, r := range j.runs {
				if (q.Job == "" || q.Job == j.Job) && (q.ID == "" || q.ID == r.ID) {
					runs = append(runs, r.Run)
				}
			}
		}
		slices.SortFunc(runs, func(a, b Run) int { return a.Start.Compare(b.Start) })
		return runs, nil
	})
}
