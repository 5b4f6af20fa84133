package cronce

import (
	"fmt"
	"time"
)

// sinceBoot is the clock that leases are kept by; tests with a clock of their
// own replace it.
var sinceBoot = bootClock

// SinceBoot is the clock that leases are kept by: CLOCK_BOOTTIME on Linux, which
// also goes on while the machine sleeps, and which nobody can set.
func SinceBoot() time.Duration { return sinceBoot() }

// A lease that expires is counted from when the request was *sent* that the store
// granted it for, as the store began to count later than that. Its last part, the
// margin, belongs to nobody: work has ended when it begins, although clocks go at
// different speeds and a process may have to wait for a processor.
//
//	Sent           +TTL/3                      StopAt       EndAt         +TTL
//	 |--------------|----- renewals retried ----|-- TTL/6 ---|-- margin ---|
//	                 the first renewal           work is      work has      the store
//	                                             to end       ended         may let others in

// margin is the time between the end of all work and the end of the lease.
func (l Lease) margin() time.Duration { return max(500*time.Millisecond, l.TTL/10) }

// EndAt is when, on [SinceBoot], work under this lease must have ended if it is not
// renewed. For a lease that does not expire it has no meaning.
func (l Lease) EndAt() time.Duration { return l.Sent + l.TTL - l.margin() }

// StopAt is when, on [SinceBoot], work under this lease is to be told to end if it is
// not renewed: a sixth of the TTL before [Lease.EndAt].
func (l Lease) StopAt() time.Duration { return l.EndAt() - l.TTL/6 }

// inTime reports whether the store's answer came early enough for work to begin.
func (l Lease) inTime() bool { return l.TTL == 0 || sinceBoot()-l.Sent <= l.TTL/3 }

// expiring says that work under the lease is to end already, or not to begin: this
// process had to wait for long.
func (l Lease) expiring() error {
	if now := sinceBoot(); l.TTL > 0 && now >= l.StopAt() {
		return &NotRenewedError{For: now - l.Sent}
	}
	return nil
}

// LateAnswerError says that a claim was won by an answer that came too late for
// work to begin under it. The run was not started, and is on record as cancelled,
// if that could be recorded.
type LateAnswerError struct {
	Run   Run
	After time.Duration // how long after the claim was sent
	Err   error         // why it is not on record
}

func (e *LateAnswerError) Error() string {
	text := fmt.Sprintf("job %q: the store's answer took %s, which leaves too little of the lease: run %s is not started",
		e.Run.Job, e.After.Round(time.Millisecond), e.Run.ID)
	if e.Err != nil {
		text += ", and that is not on record: " + e.Err.Error()
	}
	return text
}

// Unwrap is why it is not on record.
func (e *LateAnswerError) Unwrap() error { return e.Err }

// NotRenewedError says that work had to end because its lease could not be renewed:
// soon the store may let another run in. It is an [ErrLost].
type NotRenewedError struct {
	For time.Duration // since the last renewal that the store answered was sent
	Err error         // what came of the attempts since; nil: no answer
}

func (e *NotRenewedError) Error() string {
	text := fmt.Sprintf("the lease could not be renewed for %s", e.For.Round(100*time.Millisecond))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes it an [ErrLost].
func (e *NotRenewedError) Is(target error) bool { return target == ErrLost }

// Unwrap is what came of the last attempt.
func (e *NotRenewedError) Unwrap() error { return e.Err }

// DriftError says that between two renewals the store's clock advanced otherwise
// than this host's: how long the lease still lasts is not known. It is an
// [ErrLost].
type DriftError struct{ Store, Host time.Duration }

func (e *DriftError) Error() string {
	return fmt.Sprintf("skew: the store's clock advanced by %s while this host's advanced by %s: how long the lease lasts is not known",
		e.Store.Round(time.Millisecond), e.Host.Round(time.Millisecond))
}

// Is makes it an [ErrLost].
func (e *DriftError) Is(target error) bool { return target == ErrLost }
