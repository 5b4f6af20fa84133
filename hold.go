package cronce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// StopError is the cause of a run's context when a person, or a run that
// replaces it, asked for its end.
type StopError struct{ Request Request }

func (e *StopError) Error() string { return "asked to stop" + e.Request.byWhom() }

// ErrTimeout is the cause of a run's context at the job's timeout.
var ErrTimeout = errors.New("longer than the job's timeout")

// Hold looks after a lease while its work goes on, and finishes it with the
// work's result. The work's context ends with ctx, with the timeout (0: none;
// the cause is [ErrTimeout]), with a request to stop (the cause is a
// *[StopError]) and with the lease (the cause is an [ErrLost]). The work must then
// end at once: where leases expire, work that goes on at [Lease.EndAt] ends the
// process, see [Store.Overrun]. An empty Outcome is filled in from why the context
// ended. The error is for a result that could not be recorded.
func (s *Store) Hold(ctx context.Context, l Lease, timeout time.Duration, work func(context.Context) Result) (Result, error) {
	if err := l.expiring(); err != nil {
		r := Result{Outcome: Cancelled, Message: "not started: " + err.Error()}
		return r, s.Conclude(context.WithoutCancel(ctx), l, r)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() { cancel(ErrTimeout) })
		defer timer.Stop()
	}
	worked, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	tended := make(chan struct{})
	var latest atomic.Pointer[Lease]
	latest.Store(&l)
	go func() {
		defer close(tended)
		s.Tend(worked, l, func(l Lease, why error) {
			latest.Store(&l)
			if why != nil {
				cancel(why)
			}
		})
		// After a sleep of the machine both times are over: work that obeys gets a
		// moment to say so.
		last := latest.Load()
		if l.TTL > 0 && !endsBefore(worked, max(last.EndAt(), sinceBoot()+last.margin())) {
			s.overrun(last.Run)
		}
	}()
	r := work(ctx)
	if r.Outcome == "" {
		r.Outcome = outcomeOf(ctx)
	}
	ended()
	<-tended
	return r, s.Conclude(context.WithoutCancel(ctx), *latest.Load(), r)
}

// outcomeOf names the end of work that did not succeed, by why its context ended.
func outcomeOf(ctx context.Context) Outcome {
	switch {
	case errors.Is(context.Cause(ctx), ErrTimeout):
		return TimedOut
	case ctx.Err() != nil:
		return Cancelled
	}
	return Failed
}

// endsBefore waits for the end of ctx, until that time on SinceBoot, and reports
// whether it came.
func endsBefore(ctx context.Context, end time.Duration) bool {
	for ctx.Err() == nil {
		left := end - sinceBoot()
		if left <= 0 {
			return false
		}
		pause(ctx, min(left, watchLease))
	}
	return true
}

// overrun deals with work in Go that goes on past the end of its lease. There is no
// other means to end it than with its process.
func (s *Store) overrun(r Run) {
	if s.Overrun != nil {
		s.Overrun(r)
		return
	}
	fmt.Fprintf(os.Stderr, "cronce: job %q: run %s does not end although its lease does: this process ends, so that the run does not go on beside another\n", r.Job, r.ID)
	os.Exit(exitLeaseLost)
}

// exitLeaseLost is EX_SOFTWARE of sysexits.h, which cronce exits with when a lease
// was lost.
const exitLeaseLost = 70

// Keep looks after a lease until ctx ends or the work must: then it returns why,
// an [ErrLost] or a *[StopError]. [Store.Hold] does it for work in Go; it is for
// who begins with it only where the work takes long, and whose lease does not
// expire: for one that does, [Store.Tend] renews it while the work winds down.
func (s *Store) Keep(ctx context.Context, l Lease) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first error
	s.Tend(ctx, l, func(_ Lease, why error) {
		if first == nil && why != nil {
			first = why
			cancel(why)
		}
	})
	return first
}

// Conclude is [Store.Finish], repeated while the store cannot be reached and the
// lease, where it expires, may not have ended.
func (s *Store) Conclude(ctx context.Context, l Lease, r Result) error {
	if l.TTL == 0 {
		return s.Finish(ctx, l, r)
	}
	// A store that is slow rather than away answers an attempt that has more time.
	for patience := l.TTL / 6; ; patience *= 2 {
		left := l.Sent + l.TTL - sinceBoot()
		attempt, cancel := context.WithTimeout(ctx, max(l.TTL/6, min(patience, left)))
		err := s.Finish(attempt, l, r)
		cancel()
		if err == nil || errors.Is(err, ErrLost) || sinceBoot()+l.TTL/30 >= l.Sent+l.TTL || !pause(ctx, l.TTL/30) {
			return err
		}
	}
}
