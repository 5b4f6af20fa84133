package rows

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"
)

// ErrLost is the cause of a handler's context that ended because the row is no longer ours.
var ErrLost = errors.New("the row's claim has ended, and others may have it")

// errTime and errStop are the causes of contexts that end otherwise.
var (
	errTime = errors.New("the handler's time-out has passed")
	errStop = errors.New("the drain was stopped, and the grace has passed")
)

// work calls the handler and says what became of the row. A handler that ends its goroutine
// (runtime.Goexit, as a test's FailNow does) has said nothing.
func (d *Drainer) work(ctx context.Context, handle Handler, it *item, ended chan<- result) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.options.Timeout, errTime)
	defer cancel()
	err := InDoubt(errors.New("the handler ended its goroutine"))
	defer func() { ended <- d.judge(ctx, it, err) }()
	err = d.call(ctx, handle, it.row)
}

// judge says what becomes of a row by what its handler said.
func (d *Drainer) judge(ctx context.Context, it *item, err error) result {
	r := result{it: it, err: err}
	var (
		permanent *PermanentError
		retry     *RetryError
		doubt     *DoubtError
		untried   *UntriedError
		after     time.Duration
	)
	switch {
	case err == nil:
		r.to = sent
		return r
	case errors.As(err, &permanent):
		r.to = failed
		return r
	case errors.As(err, &doubt):
		r.to = unknown
	case errors.As(err, &untried):
		r.to, r.free = pending, true
		r.wait = d.backoff(1)
		return r
	case errors.As(err, &retry):
		r.to, after = pending, min(retry.After, d.options.MaxBackoff)
	case ctx.Err() != nil:
		// It was interrupted: what it was doing may have been done.
		r.to = unknown
		if cause := context.Cause(ctx); !strings.Contains(err.Error(), cause.Error()) {
			r.err = fmt.Errorf("%w: %w", cause, err)
		}
	default:
		r.to = pending
	}
	if r.to == unknown && !d.options.Idempotent {
		return r
	}
	r.to = pending
	tries := it.row.Attempt - it.row.Crashes
	if tries >= d.options.Attempts {
		r.to = dead
		return r
	}
	r.wait = max(after, d.backoff(tries))
	return r
}

// call is the handler, with a panic as doubt.
func (d *Drainer) call(ctx context.Context, handle Handler, row Row) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.options.Log.Error("the handler panicked", "job", d.options.Job, "row", row.String(), "panic", p, "stack", string(debug.Stack()))
			err = InDoubt(fmt.Errorf("the handler panicked: %v", p))
		}
	}()
	return handle(ctx, row)
}

// backoff is the wait after so many failures, from 1.
func (d *Drainer) backoff(failures int) time.Duration {
	wait := d.options.Backoff
	for range failures - 1 {
		if wait *= 2; wait >= d.options.MaxBackoff {
			break
		}
	}
	wait = min(wait, d.options.MaxBackoff)
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}
