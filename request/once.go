package request

import (
	"context"
	"time"
)

// Answer is what came of one attempt, for who decides himself what follows from it.
type Answer struct {
	Status int           // of the whole answer; 0: there was none
	After  time.Duration // the wait that a Retry-After asks for; 0: none
	// Doubt says that the request may have been received, and that no whole answer tells what came of it. With
	// neither a status nor doubt it was not sent.
	Doubt   bool
	Message string // for people
	Output  []byte // the end of the answer
}

// Once sends the request as the nth attempt, and never again by itself.
func (t Task) Once(ctx context.Context, n int) Answer {
	a := t.attempt(ctx, n)
	if a.doubt {
		a.status = 0
	}
	return Answer{Status: a.status, After: a.after, Doubt: a.doubt, Message: a.Message, Output: a.Output}
}
