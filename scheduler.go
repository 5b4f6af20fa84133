package cronce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Scheduler runs jobs at their ticks, each tick once among all programs that
// share its store. Add jobs, then Run.
type Scheduler struct {
	// Store decides. It must be set.
	Store *Store
	// Report, if set, is told what happens. It is called from many goroutines
	// and must return soon.
	Report func(Event)
	// Via names the program in the records; empty is "scheduler".
	Via string
	// BaseContext, if set, is what the contexts of runs derive from, so that
	// runs can outlive Run's context; Run waits for them all the same. Nil is
	// Run's own context: runs are asked to end when Run is.
	BaseContext context.Context

	mu        sync.Mutex
	timetable Timetable
	jobs      map[string]bool
	runs      sync.WaitGroup
	ctx       context.Context // Run's, once it is called
}

// Work is what a job does, as [Scheduler.AddWork] takes it. Its context ends
// with the job's timeout, with a request to stop (the cause is a *StopError)
// or with the lease (the cause is ErrLost); it must then end its work at once.
// The zero Outcome of its result is filled in from the context.
type Work func(ctx context.Context, l Lease) Result

// EventKind says what an [Event] is about.
type EventKind int

// The kinds of events.
const (
	EventStarted EventKind = iota // a run started
	EventEnded                    // a run ended; Err is set if its end could not be recorded
	EventSkipped                  // this program decided a tick as a skip
	EventTaken                    // a tick was decided by another
	EventMissed                   // ticks passed unseen, Tick to Until
	EventRefused                  // a tick could not be decided; it was not run
)

// Event is something that happened to a job.
type Event struct {
	Kind  EventKind
	Job   string
	Tick  time.Time
	Until time.Time // for EventMissed: the last tick that passed
	Run   Run       // for a run or a skip
	Err   error
}

// StopError is the cause of a run's context when a person, or a run that
// replaces it, asked for its end.
type StopError struct{ Request Request }

func (e *StopError) Error() string {
	s := "asked to stop"
	if e.Request.By != "" {
		s += " by " + e.Request.By
	}
	if e.Request.Why != "" {
		s += ": " + e.Request.Why
	}
	return s
}

// errTimeout is the cause of a run's context at the job's timeout.
var errTimeout = errors.New("the job's timeout has passed")

// Add adds a job whose work is a Go function. A nil error is a success, any
// other a failure, and so is a panic. ctx is as for [Work].
func (s *Scheduler) Add(job Job, f func(ctx context.Context, run Run) error) error {
	return s.AddWork(job, nil, func(ctx context.Context, l Lease) (r Result) {
		defer func() {
			if p := recover(); p != nil {
				r = Result{Outcome: Failed, Message: fmt.Sprintf("panic: %v", p), Output: debug.Stack()}
			}
		}()
		if err := f(ctx, l.Run); err != nil {
			return Result{Message: err.Error()}
		}
		return Result{Outcome: Succeeded}
	})
}

// AddWork adds a job whose work deals with its lease and result itself. slots,
// if not nil, tells how many runs a tick is to have; nil is one.
func (s *Scheduler) AddWork(job Job, slots func(tick time.Time) int, work Work) error {
	sched, err := job.Parse()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[job.Name] {
		return fmt.Errorf("job %q was added already", job.Name)
	}
	if s.jobs == nil {
		s.jobs = map[string]bool{}
	}
	s.jobs[job.Name] = true
	if slots == nil {
		slots = func(time.Time) int { return 1 }
	}
	def, holder := job.Definition(), s.holder()
	e := s.timetable.Add(sched, func(tick time.Time) {
		n := slots(tick)
		for range n {
			s.runs.Go(func() {
				s.offer(Claim{
					RunID: NewRunID(), Job: job.Name, Definition: def, Tick: tick, Slots: n,
					Overlap: job.Overlap, StartDeadline: job.Deadline(sched, tick), Holder: holder,
				}, job, work)
			})
		}
	})
	e.Job = job.Name
	return nil
}

// Run offers ticks until ctx ends, then waits for the runs that it started.
// It returns ctx's error.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.Store == nil {
		return errors.New("a Scheduler needs a Store")
	}
	s.mu.Lock()
	s.ctx = ctx
	s.timetable.Missed = s.missed
	s.mu.Unlock()
	s.timetable.Run(ctx)
	s.runs.Wait()
	return context.Cause(ctx)
}

// offer takes one tick through its life.
func (s *Scheduler) offer(c Claim, job Job, work Work) {
	// A tick that is not decided when Run is asked to end is left to others.
	l, err := s.Store.Decide(s.ctx, c)
	var taken *TakenError
	var skipped *SkippedError
	switch {
	case err == nil:
		s.work(job, work, l)
	case errors.As(err, &taken):
		s.report(Event{Kind: EventTaken, Job: c.Job, Tick: c.Tick, Run: taken.Run, Err: err})
	case errors.As(err, &skipped):
		s.report(Event{Kind: EventSkipped, Job: c.Job, Tick: c.Tick, Run: skipped.Run, Err: err})
	default:
		s.report(Event{Kind: EventRefused, Job: c.Job, Tick: c.Tick, Err: err})
	}
}

// work does the work under its lease and finishes it.
func (s *Scheduler) work(job Job, work Work, l Lease) {
	base := s.BaseContext
	if base == nil {
		base = s.ctx
	}
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	if job.Timeout > 0 {
		timer := time.AfterFunc(job.Timeout, func() { cancel(errTimeout) })
		defer timer.Stop()
	}
	s.report(Event{Kind: EventStarted, Job: job.Name, Tick: l.Run.Tick, Run: l.Run})
	kept := keep(ctx, cancel, s.Store, l)
	r := work(ctx, l)
	if r.Outcome == "" {
		r.Outcome = outcome(ctx)
	}
	cause := context.Cause(ctx)
	cancel(nil)
	<-kept

	err := s.Store.Finish(context.WithoutCancel(ctx), l, r)
	run := l.Run
	run.Result, run.End = r, time.Now()
	if err == nil && errors.Is(cause, ErrLost) {
		err = ErrLost
	}
	s.report(Event{Kind: EventEnded, Job: job.Name, Tick: run.Tick, Run: run, Err: err})
}

// outcome names the end of work that did not succeed, by why its context ended.
func outcome(ctx context.Context) Outcome {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return TimedOut
	case ctx.Err() != nil:
		return Cancelled
	}
	return Failed
}

// watchLease is how often a lease that does not expire is looked after.
const watchLease = time.Second

// keep looks after a lease while its work goes on: it cancels the work when
// the lease is lost or a stop is asked for. The channel closes when it has
// ended, which it does with ctx.
func keep(ctx context.Context, cancel context.CancelCauseFunc, store *Store, l Lease) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(watchLease)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			renewed, err := store.Renew(ctx, l)
			switch {
			case errors.Is(err, ErrLost):
				cancel(ErrLost)
				return
			case err != nil: // such a lease does not end by itself: try again
			case renewed.Stop != nil:
				cancel(&StopError{*renewed.Stop})
				return
			default:
				l = renewed
			}
		}
	}()
	return done
}

func (s *Scheduler) missed(e *Entry, first, last time.Time) {
	s.report(Event{Kind: EventMissed, Job: e.Job, Tick: first, Until: last})
}

func (s *Scheduler) report(e Event) {
	if s.Report != nil {
		s.Report(e)
	}
}

func (s *Scheduler) holder() Holder {
	via := s.Via
	if via == "" {
		via = "scheduler"
	}
	return ThisProcess(via)
}

// ThisProcess describes the calling process as a holder.
func ThisProcess(via string) Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Holder{Host: host, PID: os.Getpid(), User: userName(), Via: via}
}

// userName is for people only; nothing is decided by it.
func userName() string {
	if name := os.Getenv("LOGNAME"); name != "" {
		return name
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
