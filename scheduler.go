package cronce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronce/cronce/schedule"
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
	// MaxRunning bounds how many runs this scheduler has at once, if it is
	// above 0. Ticks beyond it are offered when their turn comes, oldest first;
	// meanwhile other programs may take them.
	MaxRunning int
	// Gate, if set, bounds them in place of MaxRunning: several schedulers may
	// have one.
	Gate Gate
	// NotBefore, if set, is for whom others ran the jobs until then: what was
	// due by then is not caught up, now or ever, but put on record as late.
	NotBefore time.Time

	mu        sync.Mutex
	timetable Timetable
	planned   map[string]*planned
	offers    []func() // made before Run
	runs      sync.WaitGroup
	ctx       context.Context // Run's, once it is called
	began     time.Time       // when it was
	starts    *Turnstile      // from the claim until the work has begun
	begins    *Turnstile      // within it, from the lease on
	running   Gate
	link      *link                // to a store that hosts share; nil: it is local
	passed    map[string]time.Time // by job, the first tick that came due while nothing could be started
	watched   map[watched]bool     // ticks whose run may be lost, see watchOver
}

// startsAtOnce bounds how many ticks are being claimed, or wait for their work
// to begin: a claim may be an fsync, that is a thread. beginsAtOnce bounds how
// many works begin, each of which may be a new process: not a thousand that
// all are about to, and not so many that they keep the next claims from the
// processors.
var (
	startsAtOnce = 32
	beginsAtOnce = 2 * runtime.NumCPU()
)

// Plan is a job with its work.
type Plan struct {
	Job  Job // without a schedule it is run by Offer only
	Work Work
	// Slots, if not nil, tells how many runs a tick is to have; nil is one.
	Slots func(tick time.Time) int
}

// planned is a plan in the scheduler.
type planned struct {
	Plan
	schedule   *schedule.Schedule // nil: none
	definition Definition
	entry      *Entry // nil: none
	conflicts  bool   // the store keeps another definition: the job is not offered
}

// Work is what a job does, as [Scheduler.AddWork] takes it. It sees the lease
// to its end, [Store.Finish] included, and returns the result. The error is
// for a result that could not be recorded. Its context ends when Run's (or
// BaseContext) does; it must then end soon. It calls begun when the start is
// behind it: until then, or until its return, it counts among the few that are
// started at once.
type Work func(ctx context.Context, l Lease, begun func()) (Result, error)

// EventKind says what an [Event] is about.
type EventKind int

// The kinds of events.
const (
	EventStarted  EventKind = iota // a run started
	EventEnded                     // a run ended; Err is set if its end could not be recorded
	EventSkipped                   // this program decided a tick as a skip
	EventTaken                     // a tick was decided by another
	EventMissed                    // ticks passed unseen, Tick to Until
	EventRefused                   // a tick could not be decided; it was not run
	EventLive                      // at the start of Run: a run that another program started goes on
	EventLeft                      // a tick was not decided before Run was to end; others may
	EventDraining                  // Run was to end: nothing is started any more, what goes on is waited for

	// With a store that hosts share:
	EventAway     // the store cannot be reached: nothing is started, what goes on does so until its lease ends
	EventBack     // it can be reached again; what passed meanwhile is caught up
	EventSkew     // this host's clock is off, see *ClockError, or, without Err, no longer
	EventConflict // the store keeps another definition of the job: this program stops offering it
	EventAgreed   // it keeps this program's again: the job is offered again
)

// String is the kind in a word, as "started".
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventKinds) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return eventKinds[k]
}

var eventKinds = [...]string{
	EventStarted: "started", EventEnded: "ended", EventSkipped: "skipped", EventTaken: "taken", EventMissed: "missed", EventRefused: "refused",
	EventLive: "live", EventLeft: "left", EventDraining: "draining",
	EventAway: "away", EventBack: "back", EventSkew: "skew", EventConflict: "conflict", EventAgreed: "agreed",
}

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
	return s.AddWork(job, nil, func(ctx context.Context, l Lease, begun func()) (Result, error) {
		begun()
		return s.Store.Hold(ctx, l, job.Timeout, func(ctx context.Context) Result { return call(ctx, f, l.Run) })
	})
}

// call calls the function of a job, and returns also where that panics or ends its
// goroutine (runtime.Goexit, as a test's FailNow does).
func call(ctx context.Context, f func(ctx context.Context, run Run) error, run Run) Result {
	ended := make(chan Result)
	go func() {
		r := Result{Outcome: Failed, Message: "the job ended its goroutine"}
		defer func() {
			if p := recover(); p != nil {
				r = Result{Outcome: Failed, Message: fmt.Sprintf("panic: %v", p), Output: debug.Stack()}
			}
			ended <- r
		}()
		if err := f(ctx, run); err != nil {
			r = Result{Message: err.Error()}
			return
		}
		r = Result{Outcome: Succeeded}
	}()
	return <-ended
}

// AddWork adds a job whose work deals with its lease itself. slots,
// if not nil, tells how many runs a tick is to have; nil is one.
func (s *Scheduler) AddWork(job Job, slots func(tick time.Time) int, work Work) error {
	if _, err := job.Parse(); err != nil {
		return err // also where it has no schedule
	}
	p, err := Plan{Job: job, Slots: slots, Work: work}.check()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.planned[job.Name]; ok {
		return fmt.Errorf("job %q was added already", job.Name)
	}
	s.put(p)
	return nil
}

// Set replaces all jobs. Those that are no longer there are offered no more;
// those that stay go on with their new work and schedule, and no tick is lost
// or offered twice over the change. Runs that have started go on. On an error
// nothing is changed.
func (s *Scheduler) Set(plans []Plan) error {
	next := map[string]*planned{}
	for _, plan := range plans {
		p, err := plan.check()
		if err != nil {
			return err
		}
		if next[plan.Job.Name] != nil {
			return fmt.Errorf("job %q is there twice", plan.Job.Name)
		}
		next[plan.Job.Name] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.planned {
		if next[name] == nil {
			if old.entry != nil {
				s.timetable.Remove(old.entry)
			}
			delete(s.planned, name)
		}
	}
	var changed []*planned
	for _, p := range next {
		old := s.planned[p.Job.Name]
		s.put(p)
		if old == nil || old.definition != p.definition {
			changed = append(changed, p)
		}
	}
	if s.ctx != nil {
		s.runs.Go(func() { s.begin(s.ctx, changed, false) })
	}
	return nil
}

// check makes a plan ready to be put in.
func (plan Plan) check() (*planned, error) {
	p := &planned{Plan: plan, definition: plan.Job.Definition()}
	if p.Slots == nil {
		p.Slots = func(time.Time) int { return 1 }
	}
	if plan.Job.Schedule == "" {
		return p, CheckName(plan.Job.Name)
	}
	var err error
	p.schedule, err = plan.Job.Parse()
	return p, err
}

// put puts a plan in, or in the place of the one of that name.
func (s *Scheduler) put(p *planned) {
	if s.planned == nil {
		s.planned = map[string]*planned{}
	}
	name := p.Job.Name
	old := s.planned[name]
	if old == nil {
		old = &planned{}
	}
	p.entry = old.entry
	switch {
	case p.schedule == nil && old.entry != nil:
		s.timetable.Remove(old.entry)
		p.entry = nil
	case p.schedule == nil:
	case old.entry == nil:
		p.entry = &Entry{Job: name, schedule: p.schedule, fire: func(tick time.Time) { s.due(name, tick) }}
		s.timetable.insert(p.entry)
	case old.definition.Schedule != p.definition.Schedule || old.definition.Zone != p.definition.Zone:
		s.timetable.Reschedule(old.entry, p.schedule)
	}
	p.conflicts = old.conflicts && old.definition == p.definition
	s.planned[name] = p
}

// plan returns the plan of that name as it is now, nil if there is none.
func (s *Scheduler) plan(name string) *planned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planned[name]
}

// Run offers ticks until ctx ends, then waits for the runs that it started.
// It returns ctx's error.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.Store == nil {
		return errors.New("a Scheduler needs a Store")
	}
	s.mu.Lock()
	s.ctx, s.began = ctx, time.Now()
	s.timetable.Missed = s.missed
	s.starts, s.begins, s.running = NewTurnstile(startsAtOnce), NewTurnstile(beginsAtOnce), s.Gate
	if s.running == nil {
		s.running = NewTurnstile(s.MaxRunning)
	}
	if s.Store.Shared() {
		s.link = newLink(s.Store, s.report, s.catchUpAfterwards, s.makeUpOne)
		s.runs.Go(func() { s.link.run(ctx) })
		s.runs.Go(func() { s.lookAtConflicts(ctx) })
	}
	for _, offer := range s.offers {
		s.runs.Go(offer)
	}
	s.offers = nil
	s.mu.Unlock()
	if s.link == nil || s.meet(ctx) {
		s.mu.Lock()
		all := slices.Collect(maps.Values(s.planned))
		s.mu.Unlock()
		s.runs.Go(func() { s.begin(ctx, all, true) })
		s.timetable.Run(ctx)
	}
	s.starts.shut()
	s.report(Event{Kind: EventDraining})
	s.runs.Wait()
	return context.Cause(ctx)
}

// Behind tells how many ticks are due and wait for their turn, because others
// are being started or MaxRunning are going on, and for how long the first of
// them has waited.
func (s *Scheduler) Behind() (ticks int, waited time.Duration) {
	s.mu.Lock()
	starts, running := s.starts, s.running
	s.mu.Unlock()
	if starts == nil {
		return 0, 0
	}
	now := time.Now()
	for _, gate := range []Gate{starts, running} {
		t, ours := gate.(*Turnstile)
		if !ours {
			continue // a gate elsewhere knows its own queue
		}
		n, since := t.queue()
		if ticks += n; n > 0 {
			waited = max(waited, now.Sub(since))
		}
	}
	return ticks, waited
}

// begin tells the store of jobs, so that they are known before their first
// tick, and offers what passed while nobody was there. A claim tells a local store
// the same, so that an error here loses nothing; with a shared store it is tried
// until it can be reached. first: Run has just begun, so that what goes on is not
// its own.
func (s *Scheduler) begin(ctx context.Context, jobs []*planned, first bool) {
	slices.SortFunc(jobs, func(a, b *planned) int { return strings.Compare(a.Job.Name, b.Job.Name) })
	for _, p := range jobs {
		err := s.introduce(ctx, p, first)
		for s.link != nil && err != nil && !Answered(err) && ctx.Err() == nil {
			s.link.lost(err, true)
			if s.link.waitToTry(ctx, time.Time{}) {
				err = s.introduce(ctx, p, first)
			}
		}
		if s.link != nil && Answered(err) {
			s.link.answered()
		}
		if err != nil && ctx.Err() == nil {
			s.report(Event{Kind: EventRefused, Job: p.Job.Name, Err: fmt.Errorf("the store was not told of the job: %w", err)})
		}
	}
}

// introduce tells the store of a job.
func (s *Scheduler) introduce(ctx context.Context, p *planned, first bool) error {
	if s.link != nil {
		if !s.link.wait(ctx, time.Time{}) {
			return ctx.Err()
		}
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, lookPatience)
		defer cancel()
	}
	state, known, err := s.Store.Job(ctx, p.Job.Name)
	if err != nil {
		return err
	}
	if first {
		s.reportLive(state)
	}
	switch {
	case !known || state.Definition != p.definition:
		err = s.Store.Request(ctx, Request{Kind: Define, Job: p.Job.Name, Definition: p.definition, By: s.holder().String()})
	case state.Paused == nil:
		s.catchUp(p, state)
	}
	if err == nil && known && state.Paused == nil {
		s.watchNewest(p)
	}
	return err
}

// reportLive tells of the runs of a job that go on, but for those that this
// program has started by now.
func (s *Scheduler) reportLive(state JobState) {
	for _, r := range state.Live {
		if r.Start.Before(s.storeTime(s.began)) {
			s.report(Event{Kind: EventLive, Job: state.Job, Tick: r.Tick, Run: r})
		}
	}
}

// claim is what to ask of the store for a tick.
func (p *planned) claim(tick time.Time, holder Holder) Claim {
	return Claim{
		RunID: NewRunID(), Job: p.Job.Name, Definition: p.definition, Tick: tick, Slots: p.Slots(tick),
		Overlap: p.Job.Overlap, StartDeadline: p.Job.Deadline(p.schedule, tick) + p.Job.Jitter, TTL: p.Job.Lease, Holder: holder,
	}
}

// due offers a tick that is due now.
func (s *Scheduler) due(name string, tick time.Time) {
	p := s.plan(name)
	if p == nil {
		return // taken out in this moment
	}
	if s.link != nil && s.park(p, tick) {
		return
	}
	for range p.Slots(tick) {
		s.runs.Go(func() {
			if pause(s.ctx, p.Job.delay(tick)+s.stagger(name, tick)) {
				s.offer(p.claim(tick, s.holder()), p.Work)
			} else {
				s.left(name, tick)
			}
		})
	}
}

// Offer offers one tick of a job besides those of its schedule, under that run
// id: the same id is never run twice. It returns at once; before Run it is kept
// for then.
func (s *Scheduler) Offer(job string, tick time.Time, runID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.planned[job]
	if p == nil {
		return fmt.Errorf("there is no job %q", job)
	}
	offer := func() {
		s.offer(Claim{RunID: runID, Job: job, Definition: p.definition, Tick: tick, Overlap: p.Job.Overlap, TTL: p.Job.Lease, Holder: s.holder()}, p.Work)
	}
	if s.ctx == nil {
		s.offers = append(s.offers, offer)
	} else {
		s.runs.Go(offer)
	}
	return nil
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (s *Scheduler) left(job string, tick time.Time) {
	s.report(Event{Kind: EventLeft, Job: job, Tick: tick})
}

// offer takes one tick through its life. It returns who holds a catch-up tick, which
// then was left undecided.
func (s *Scheduler) offer(c Claim, work Work) *HeldError {
	if s.running.Enter(s.ctx, c.Tick) != nil {
		s.left(c.Job, c.Tick)
		return nil
	}
	defer s.running.Leave()
	l, err := decide(s.ctx, c, func(ctx context.Context, c Claim) (Lease, error) {
		if err := s.starts.Enter(ctx, c.Tick); err != nil {
			return Lease{}, err
		}
		claim := s.Store.ClaimInTime
		if s.link != nil {
			claim = func(ctx context.Context, c Claim) (Lease, error) { return s.link.claim(ctx, c, s.repeatUntil(c)) }
		}
		l, err := claim(ctx, c)
		if err != nil {
			s.starts.Leave()
		}
		return l, err
	})
	if err == nil && s.link != nil && l.Run.Holder.elsewhere(c.Holder) {
		// The id is known to others: they were answered first, and are at work.
		err = &TakenError{Job: c.Job, Tick: c.Tick, Run: l.Run}
		s.starts.Leave()
	}
	var taken *TakenError
	var skipped *SkippedError
	var held *HeldError
	var conflict *ConflictError
	var skew *SkewError
	switch {
	case err == nil:
		ctx := s.BaseContext
		if ctx == nil {
			ctx = s.ctx
		}
		s.report(Event{Kind: EventStarted, Job: c.Job, Tick: c.Tick, Run: l.Run})
		s.begins.Enter(context.Background(), c.Tick) // there is no way back
		begun := sync.OnceFunc(func() {
			s.begins.Leave()
			s.starts.Leave()
		})
		l.Run.Result, err = work(ctx, l, begun)
		begun()
		l.Run.End = s.now()
		s.report(Event{Kind: EventEnded, Job: c.Job, Tick: c.Tick, Run: l.Run, Err: err})
		if err != nil {
			s.watchOver(c.Job, c.Tick)
			s.afterword(l.Run)
		}
	case errors.As(err, &taken):
		if c.Attempt > 1 {
			break // there is nothing to run again
		}
		s.report(Event{Kind: EventTaken, Job: c.Job, Tick: c.Tick, Run: taken.Run, Err: err})
		if r := taken.Run; r.Live() || r.Outcome == Lost || c.Slots > 1 {
			s.watchOver(c.Job, c.Tick)
		}
	case errors.As(err, &skipped):
		if s.link != nil {
			s.link.heard(skipped.Run.Start)
		}
		s.report(Event{Kind: EventSkipped, Job: c.Job, Tick: c.Tick, Run: skipped.Run, Err: err})
	case errors.As(err, &held):
		return held
	case errors.As(err, &conflict) && s.link != nil:
		s.conflict(c.Job, conflict)
	case s.ctx.Err() != nil:
		s.left(c.Job, c.Tick)
	case s.link != nil && !Answered(err) && (c.Attempt > 1 || s.parkAgain(c)):
	case s.link != nil && errors.As(err, &skew) && s.skewed(c, skew):
	default:
		s.report(Event{Kind: EventRefused, Job: c.Job, Tick: c.Tick, Err: err})
	}
	return nil
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
