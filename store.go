package cronce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrLost says that a lease has ended: by expiry, revocation, or because the
// store marked its run as lost.
var ErrLost = errors.New("the lease has ended")

// RevokedError says that a lease was taken away, and by whom. It is an [ErrLost].
type RevokedError struct{ Request Request }

func (e *RevokedError) Error() string {
	return ErrLost.Error() + ": revoked" + e.Request.byWhom()
}

// Is makes it an [ErrLost].
func (e *RevokedError) Is(target error) bool { return target == ErrLost }

// TakenError says that a tick was decided earlier.
type TakenError struct {
	Job  string
	Tick time.Time
	Run  Run // the decision; only its Job and Tick where it has been pruned
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("job %q: tick %s is decided already", e.Job, Stamp(e.Tick))
}

// SkippedError says that this claim decided the tick as a skip.
type SkippedError struct {
	Run    Run  // the skip
	Holder *Run // the live run, for SkipOverlap and SkipOrphans
	Paused *Request
}

func (e *SkippedError) Error() string {
	if e.Run.Tick.IsZero() {
		return fmt.Sprintf("job %q: not run: %s", e.Run.Job, e.Why())
	}
	return fmt.Sprintf("job %q: tick %s is skipped: %s", e.Run.Job, Stamp(e.Run.Tick), e.Why())
}

// Why is the reason with what is known of it: who holds the job, who paused it.
func (e *SkippedError) Why() string {
	s := string(e.Run.Skip)
	if e.Run.Skip == SkipLate {
		s += fmt.Sprintf(": offered %s after its tick", e.Run.Start.Sub(e.Run.Tick).Round(time.Second))
	}
	if e.Run.Skip == SkipStoreRestarted {
		s += ": the store is new, or may have lost what was decided by then; nothing starts for a minute from when that was first seen; a new store is made known by 'cronce store init'"
	}
	if e.Holder != nil {
		s += ": " + describeHolder(*e.Holder)
	}
	if e.Paused != nil && e.Paused.By != "" {
		s += fmt.Sprintf(" by %s at %s", e.Paused.By, Stamp(e.Paused.At))
		if e.Paused.Why != "" {
			s += ": " + e.Paused.Why
		}
	}
	return s
}

// HeldError says that a holder lives, or may live, and that nothing is decided.
type HeldError struct {
	// Holder has the lease, or the place to wait. It has an ID or a PID, but
	// where the store may have forgotten who has the lease it is only a Job.
	Holder  Run
	Offered time.Time // for the next claim
	// Expires is when the lease ends unless it is renewed, zero where leases do
	// not expire.
	Expires time.Time
}

// forgotten reports whether the store knows of no holder, and only cannot tell that
// there is none.
func (e *HeldError) forgotten() bool { return e.Holder.ID == "" && e.Holder.Holder.PID == 0 }

func (e *HeldError) Error() string {
	if e.forgotten() {
		return fmt.Sprintf("job %q: the store is new or may have lost records: a run that it knows nothing of may go on until %s", e.Holder.Job, Stamp(e.Expires))
	}
	return fmt.Sprintf("job %q is held: %s", e.Holder.Job, describeHolder(e.Holder))
}

// ConflictError says that the store keeps another definition of the job.
type ConflictError struct {
	Job        string
	Kept, Have Definition
	Since      time.Time
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("job %q has another definition in the store since %s: the store has %q, this program has %q",
		e.Job, Stamp(e.Since), e.Kept, e.Have)
}

// SkewError says that a tick lies ahead of the store's clock.
type SkewError struct {
	Job       string
	Tick, Now time.Time
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("job %q: tick %s is %s ahead of the store's clock", e.Job, Stamp(e.Tick), e.Tick.Sub(e.Now).Round(time.Millisecond))
}

// ConfigError is a store, or a setting of it, that cannot keep the promise.
type ConfigError struct {
	Store string // its place
	What  string
	Cure  string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("store %s: %s: %s", e.Store, e.What, e.Cure)
}

// UnavailableError is a store that cannot be reached or cannot write now.
type UnavailableError struct {
	Store string
	Err   error
}

func (e *UnavailableError) Error() string {
	// What a client library says of a deadline tells people nothing.
	why := strings.ReplaceAll(fmt.Sprint(e.Err), context.DeadlineExceeded.Error(), "no answer in time")
	return fmt.Sprintf("store %s: %s", e.Store, why)
}
func (e *UnavailableError) Unwrap() error { return e.Err }

func describeHolder(r Run) string {
	if r.ID == "" {
		return fmt.Sprintf("pid %d on %s, a run that is not on record", r.Holder.PID, r.Holder.Host)
	}
	return fmt.Sprintf("run %s, pid %d on %s, since %s", r.ID, r.Holder.PID, r.Holder.Host, Stamp(r.Start))
}

// Stamp writes an instant as cronce does everywhere: RFC 3339 in UTC, to the second.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Store is a store as programs use it: a driver, with the checks and the
// waiting that are the same for all. Its methods may be called from many
// goroutines.
type Store struct {
	// Overrun, if set, is told of work in Go that goes on although its context has
	// ended and its lease is about to: another run may then start beside it, which
	// is outside the promise. Nil: the process ends, with exit code 70. It is for
	// stores whose leases expire. Set it before the store is used.
	Overrun func(Run)

	d Driver
}

// NewStore returns the store on that driver.
func NewStore(d Driver) *Store { return &Store{d: d} }

// Shared reports whether hosts can share the store: its clock is its own, and its
// leases expire.
func (s *Store) Shared() bool {
	_, local := s.d.(LocalDriver)
	return !local
}

// Claim is [Driver.Claim], once the claim has been checked.
func (s *Store) Claim(ctx context.Context, c Claim) (Lease, error) {
	c, err := c.checked()
	if err != nil {
		return Lease{}, err
	}
	sent := sinceBoot()
	l, err := s.d.Claim(ctx, c)
	l.Sent = sent
	return l, err
}

// checked fills in the defaults of a claim and says what is wrong with it.
func (c Claim) checked() (Claim, error) {
	if err := CheckName(c.Job); err != nil {
		return c, err
	}
	if c.RunID == "" {
		return c, fmt.Errorf("job %q: a claim needs a run id", c.Job)
	}
	if !c.Tick.IsZero() && c.Tick.Nanosecond() != 0 {
		return c, fmt.Errorf("job %q: tick %v is not a whole second", c.Job, c.Tick)
	}
	c.Slots, c.Attempt = max(c.Slots, 1), max(c.Attempt, 1)
	if c.Attempt > 2 || c.Attempt == 2 && c.Tick.IsZero() {
		return c, fmt.Errorf("job %q: attempt %d: a tick is run again once, and a run without a tick never", c.Job, c.Attempt)
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.TTL < MinTTL || c.TTL > MaxTTL {
		return c, fmt.Errorf("job %q: a lease of %s: %s to %s are allowed", c.Job, c.TTL, MinTTL, MaxTTL)
	}
	if c.StartDeadline < 0 || c.Overlap.Wait < 0 {
		return c, fmt.Errorf("job %q: a negative duration in its claim", c.Job)
	}
	return c, nil
}

// pollHeld is how often a held job is looked at again; pollForgotten is that where the
// store may have forgotten who holds it. Then all jobs of a fleet wait at once, each
// tick of them, for a server that has just come back.
const (
	pollHeld      = 100 * time.Millisecond
	pollForgotten = 5 * time.Second
)

// Decide claims until the tick is decided: it waits for a tick that lies at
// most MaxSkew ahead, and while a holder lives or may live under a policy that
// waits. A catch-up tick is not waited for. The errors are those of
// [Driver.Claim], ctx's, and *LateAnswerError.
func (s *Store) Decide(ctx context.Context, c Claim) (Lease, error) {
	claim := s.ClaimInTime
	if s.Shared() {
		claim = s.claimToTheEnd
	}
	return decide(ctx, c, claim)
}

// claimToTheEnd is [Store.ClaimInTime] that is waited for also when ctx ends, as long as it
// may be won: its run would be lost.
func (s *Store) claimToTheEnd(ctx context.Context, c Claim) (Lease, error) {
	ttl := c.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		pause(whole, ttl/3)
		cancel()
	})()
	return s.ClaimInTime(whole, c)
}

// ClaimInTime is [Store.Claim], and gives up a lease that comes too late for work to
// begin: *LateAnswerError.
func (s *Store) ClaimInTime(ctx context.Context, c Claim) (Lease, error) {
	l, err := s.Claim(ctx, c)
	if err != nil || l.inTime() {
		return l, err
	}
	late := &LateAnswerError{Run: l.Run, After: sinceBoot() - l.Sent}
	late.Err = s.Conclude(context.WithoutCancel(ctx), l, Result{Outcome: Cancelled, Message: "not started: the store's answer came too late"})
	return Lease{}, late
}

// decide is Decide with that claim.
func decide(ctx context.Context, c Claim, claim func(context.Context, Claim) (Lease, error)) (Lease, error) {
	began := time.Now()
	for {
		l, err := claim(ctx, c)
		pause := pollHeld
		var held *HeldError
		var skew *SkewError
		switch {
		case errors.As(err, &held) && !c.CatchUp:
			c.Offered = held.Offered
			if held.forgotten() {
				left := held.Expires.Sub(held.Offered) - time.Since(began)
				pause = max(pollHeld, min(pollForgotten, left))
			}
		case errors.As(err, &skew) && skew.Tick.Sub(skew.Now) <= MaxSkew:
			pause = skew.Tick.Sub(skew.Now)
		default:
			return l, err
		}
		select {
		case <-ctx.Done():
			return Lease{}, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Renew is [Driver.Renew].
func (s *Store) Renew(ctx context.Context, l Lease) (Lease, error) {
	sent := sinceBoot()
	l, err := s.d.Renew(ctx, l)
	if err == nil {
		l.Sent = sent
	}
	return l, err
}

// Finish is [Driver.Finish].
func (s *Store) Finish(ctx context.Context, l Lease, r Result) error {
	if r.Outcome == "" || r.Outcome == Lost {
		return fmt.Errorf("job %q: a run cannot finish as %q", l.Run.Job, r.Outcome)
	}
	return s.d.Finish(ctx, l, r)
}

// Request is [Driver.Request], once the request has been checked.
func (s *Store) Request(ctx context.Context, r Request) error {
	if err := CheckName(r.Job); err != nil {
		return err
	}
	switch r.Kind {
	case Define, Pause, Resume, Stop, Revoke, ResetWatermark, Prune:
		r.Runs = nil
		return s.d.Request(ctx, r)
	case Ended:
		return s.d.Request(ctx, r)
	}
	return fmt.Errorf("job %q: no such request: %q", r.Job, r.Kind)
}

// Now is the store's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.d.Now(ctx) }

// Jobs returns the state of every job, by name.
func (s *Store) Jobs(ctx context.Context) ([]JobState, error) { return s.d.Jobs(ctx, "") }

// Job returns the state of one job, and whether the store has seen it.
func (s *Store) Job(ctx context.Context, job string) (JobState, bool, error) {
	states, err := s.d.Jobs(ctx, job)
	if err != nil || len(states) == 0 {
		return JobState{}, false, err
	}
	return states[0], true, nil
}

// Runs is [Driver.Runs].
func (s *Store) Runs(ctx context.Context, q RunQuery) ([]Run, error) { return s.d.Runs(ctx, q) }

// Run returns one run with its output, and whether the store has it.
func (s *Store) Run(ctx context.Context, id string) (Run, bool, error) {
	runs, err := s.d.Runs(ctx, RunQuery{ID: id})
	if err != nil || len(runs) == 0 {
		return Run{}, false, err
	}
	return runs[0], true, nil
}

// Requests is [Driver.Requests].
func (s *Store) Requests(ctx context.Context, job string, limit int) ([]Request, error) {
	return s.d.Requests(ctx, job, limit)
}

// Prune is [Driver.Prune].
func (s *Store) Prune(ctx context.Context, job string, before time.Time) (int, error) {
	return s.d.Prune(ctx, job, before)
}

// Init is [Driver.Init].
func (s *Store) Init(ctx context.Context) error { return s.d.Init(ctx) }

// Close is [Driver.Close].
func (s *Store) Close() error { return s.d.Close() }
