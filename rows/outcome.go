package rows

import (
	"fmt"
	"time"
)

// PermanentError is a handler's word that the row will never do: it is failed.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap is what went wrong.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent marks an error as one that another attempt would not change. nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// RetryError is a handler's word on when the row may be tried again, as a server says it by Retry-After. It
// counts as an attempt.
type RetryError struct {
	After time.Duration // from now; less than the backoff would be is the backoff
	Err   error
}

func (e *RetryError) Error() string {
	if e.After <= 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (to be tried again after %s)", e.Err, e.After)
}

// Unwrap is what went wrong.
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter marks an error as clean, and says for how long to wait at least. nil stays nil.
func RetryAfter(after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &RetryError{after, err}
}

// DoubtError is a handler's word that it does not know whether the work was done, as after a request
// that got no answer. The row is unknown; where the job is idempotent it is tried again.
type DoubtError struct{ Err error }

func (e *DoubtError) Error() string { return e.Err.Error() }

// Unwrap is what went wrong.
func (e *DoubtError) Unwrap() error { return e.Err }

// InDoubt marks an error as one after which the work may have been done. nil stays nil.
func InDoubt(err error) error {
	if err == nil {
		return nil
	}
	return &DoubtError{err}
}
