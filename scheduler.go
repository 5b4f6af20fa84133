package cronce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
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
	jobs      map[string]Definition
	runs      sync.WaitGroup
	ctx       context.Context // Run's, once it is called
}

// Work is what a job does, as [Scheduler.AddWork] takes it. It sees the lease
// to its end, [Store.Finish] included, and returns the result. The error is
// for a result that could not be recorded. Its context ends when Run's (or
// BaseContext) does; it must then end soon.
type Work func(ctx context.Context, l Lease) (Result, error)

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

// Add adds a job whose work is a Go function. A nil error is a success, any
// other a failure, and so is a panic. Its context ends as [Store.Hold] says;
// it must then end its work at once.
func (s *Scheduler) Add(job Job, f func(ctx context.Context, run Run) error) error {
	return s.AddWork(job, nil, func(ctx context.Context, l Lease) (Result, error) {
		return s.Store.Hold(ctx, l, job.Timeout, func(ctx context.Context) (r Result) {
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
	})
}

// AddWork adds a job whose work deals with its lease itself. slots,
// if not nil, tells how many runs a tick is to have; nil is one.
func (s *Scheduler) AddWork(job Job, slots func(tick time.Time) int, work Work) error {
	sched, err := job.Parse()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.jobs[job.Name]; ok {
		return fmt.Errorf("job %q was added already", job.Name)
	}
	if s.jobs == nil {
		s.jobs = map[string]Definition{}
	}
	def, holder := job.Definition(), s.holder()
	s.jobs[job.Name] = def
	if slots == nil {
		slots = func(time.Time) int { return 1 }
	}
	e := s.timetable.Add(sched, func(tick time.Time) {
		n := slots(tick)
		for range n {
			s.runs.Go(func() {
				s.offer(Claim{
					RunID: NewRunID(), Job: job.Name, Definition: def, Tick: tick, Slots: n,
					Overlap: job.Overlap, StartDeadline: job.Deadline(sched, tick), Holder: holder,
				}, work)
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
	jobs := maps.Clone(s.jobs)
	s.mu.Unlock()
	s.runs.Go(func() { s.register(ctx, jobs) })
	s.timetable.Run(ctx)
	s.runs.Wait()
	return context.Cause(ctx)
}

// register tells the store of the jobs, so that they are known before their
// first tick. A claim tells it the same, so an error here loses nothing.
func (s *Scheduler) register(ctx context.Context, jobs map[string]Definition) {
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		state, known, err := s.Store.Job(ctx, name)
		if err == nil && (!known || state.Definition != jobs[name]) {
			err = s.Store.Request(ctx, Request{Kind: Define, Job: name, Definition: jobs[name], By: s.holder().String()})
		}
		if err != nil && ctx.Err() == nil {
			s.report(Event{Kind: EventRefused, Job: name, Err: fmt.Errorf("the store was not told of the job: %w", err)})
		}
	}
}

// offer takes one tick through its life.
func (s *Scheduler) offer(c Claim, work Work) {
	// A tick that is not decided when Run is asked to end is left to others.
	l, err := s.Store.Decide(s.ctx, c)
	var taken *TakenError
	var skipped *SkippedError
	switch {
	case err == nil:
		ctx := s.BaseContext
		if ctx == nil {
			ctx = s.ctx
		}
		s.report(Event{Kind: EventStarted, Job: c.Job, Tick: c.Tick, Run: l.Run})
		l.Run.Result, err = work(ctx, l)
		l.Run.End = time.Now()
		s.report(Event{Kind: EventEnded, Job: c.Job, Tick: c.Tick, Run: l.Run, Err: err})
	case errors.As(err, &taken):
		s.report(Event{Kind: EventTaken, Job: c.Job, Tick: c.Tick, Run: taken.Run, Err: err})
	case errors.As(err, &skipped):
		s.report(Event{Kind: EventSkipped, Job: c.Job, Tick: c.Tick, Run: skipped.Run, Err: err})
	case s.ctx.Err() != nil:
		s.report(Event{Kind: EventRefused, Job: c.Job, Tick: c.Tick, Err: errors.New("asked to end before it was decided")})
	default:
		s.report(Event{Kind: EventRefused, Job: c.Job, Tick: c.Tick, Err: err})
	}
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
