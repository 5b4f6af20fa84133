package rows

import "time"

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
	After time.Duration // from now; less than the backoff would be is the backoff, more than Options.MaxBackoff is that
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap is what went wrong.
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter marks an error as clean, and says for how long to wait at least. nil stays nil.
func RetryAfter(after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &RetryError{after, err}
}

// UntriedError is a handler's word that the work could not even begin, for certain, and by no fault of the row: nobody was
// there to send it to. It is no attempt: the row is tried again after the first backoff, however often.
type UntriedError struct{ Err error }

func (e *UntriedError) Error() string { return e.Err.Error() }

// Unwrap is what went wrong.
func (e *UntriedError) Unwrap() error { return e.Err }

// Untried marks an error as one before anything was done. nil stays nil.
func Untried(err error) error {
	if err == nil {
		return nil
	}
	return &UntriedError{err}
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
