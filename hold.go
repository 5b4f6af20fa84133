package cronce

import (
	"context"
	"errors"
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
// end at once. An empty Outcome is filled in from why the context ended. The
// error is for a result that could not be recorded.
func (s *Store) Hold(ctx context.Context, l Lease, timeout time.Duration, work func(context.Context) Result) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() { cancel(ErrTimeout) })
		defer timer.Stop()
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := s.Keep(ctx, l); err != nil {
			cancel(err)
		}
	}()
	r := work(ctx)
	if r.Outcome == "" {
		r.Outcome = outcomeOf(ctx)
	}
	cancel(nil)
	<-kept
	return r, s.Finish(context.WithoutCancel(ctx), l, r)
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

// watchLease is how often a lease that does not expire is looked after.
const watchLease = time.Second

// Keep looks after a lease, every second, until ctx ends or the work must: then
// it returns why, an [ErrLost] or a *[StopError]. [Store.Hold] does it for work
// in Go; it is for who begins with it only where the work takes long.
func (s *Store) Keep(ctx context.Context, l Lease) error {
	ticker := time.NewTicker(watchLease)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		renewed, err := s.Renew(ctx, l)
		switch {
		case errors.Is(err, ErrLost):
			return err
		case err != nil: // such a lease does not end by itself: try again
		case renewed.Stop != nil:
			return &StopError{*renewed.Stop}
		default:
			l = renewed
		}
	}
}
