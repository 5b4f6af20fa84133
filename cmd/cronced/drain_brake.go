package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cronce/cronce/internal/cli"
)

// brake stops a drain, or a pass of one that follows, where row after row meets the same refusal: the others would fare no
// better, and use up their attempts, fail for good or be in doubt.
type brake struct {
	most int

	mu    sync.Mutex
	kind  string
	times int
	stop  context.CancelCauseFunc
}

// newBrake is that of so many workers: what was at work already when the first one failed says nothing new.
func newBrake(workers int) *brake { return &brake{most: max(10, 2*workers)} }

// begin has a pass stopped from now on.
func (b *brake) begin(stop context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kind, b.times, b.stop = "", 0, stop
}

// met takes in what a row came to: the kind of a refusal that may be everybody's, else "".
func (b *brake) met(kind string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kind != b.kind {
		b.kind, b.times = kind, 0
	}
	if b.times++; kind != "" && b.times == b.most {
		b.stop(&stopError{&cli.ExitError{Code: cli.Failure, Err: &brakeError{b.times, err}}})
	}
}

// brakeError is why the brake was pulled.
type brakeError struct {
	rows int
	last error
}

func (e *brakeError) Error() string {
	return fmt.Sprintf("%d rows one after the other came to the same end, the last to %v: no more are started, and these keep their attempts", e.rows, e.last)
}

// braked reports whether the brake has ended a pass, and by what.
func braked(pass context.Context) (*stopError, bool) {
	var stopped *stopError
	cause := context.Cause(pass)
	return stopped, errors.As(cause, &stopped) && errors.As(cause, new(*brakeError))
}
