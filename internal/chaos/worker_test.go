package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/all"
)

// orderVariable has an order: then this program is a worker, and no test.
const orderVariable = "CRONCE_CHAOS_ORDER"

// An order is what a worker is to do.
type order struct {
	Store   string   `json:"store"` // its URL, through the worker's own proxy
	Witness string   `json:"witness"`
	Who     string   `json:"who"`
	Jobs    []string `json:"jobs"`
}

// The kinds of jobs, each of which begins its names.
const (
	quick   = "quick"   // done before the next tick
	lengthy = "lengthy" // goes on for longer than its lease, which is renewed
	bare    = "bare"    // as lengthy, with the store's answers for its only guard
	command = "command" // a command under cronced serve
)

// kind is the kind of a job.
func kind(job string) string {
	k, _, _ := strings.Cut(job, "-")
	return k
}

// define is the job of that name: how they differ is in the name's number.
func define(name string) cronce.Job {
	j := cronce.Job{Name: name, Schedule: "@every 1s", Zone: "UTC", StartDeadline: 5 * time.Second}
	switch hash(name, 0) % 6 {
	case 0:
		j.Overlap = cronce.Overlap{Policy: cronce.OverlapWait, Wait: 3 * time.Second}
	case 1:
		j.Catchup, j.CatchupWindow = cronce.CatchupAll, 10*time.Second
	}
	return j
}

// takes is how long a run of the job works.
func takes(job string, tick time.Time) time.Duration {
	h := time.Duration(hash(job, tick.Unix()))
	switch kind(job) {
	case quick:
		return (20 + h%200) * time.Millisecond
	default:
		return (2000 + h%6000) * time.Millisecond
	}
}

func hash(name string, n int64) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, name, "|", n)
	return h.Sum32()
}

// work is the worker: it runs its jobs until TERM, and returns its exit code.
func (o order) work() int {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w, err := dial(o.Witness, o.Who)
	if err != nil {
		log.Print(err)
		return 1
	}
	store, err := o.open(ctx)
	if err != nil {
		log.Print(err)
		return 0 // it was told to end before it could begin
	}
	defer store.Close()
	mine := cronce.NewStore(client{store, w})
	s := &cronce.Scheduler{Store: mine, Via: o.Who, Report: report}
	var own sync.WaitGroup
	for _, name := range o.Jobs {
		if kind(name) == bare {
			own.Go(func() { bareJob(ctx, mine, w, name, o.Who) })
			continue
		}
		if err := s.Add(define(name), func(ctx context.Context, r cronce.Run) error { return labour(ctx, w, r) }); err != nil {
			log.Print(err)
			return 1
		}
	}
	err = s.Run(ctx)
	own.Wait()
	log.Print("ends: ", err)
	return 0
}

// open opens the store, as soon as it can be reached.
func (o order) open(ctx context.Context) (*cronce.Store, error) {
	for {
		patient, done := context.WithTimeout(ctx, 5*time.Second)
		store, err := all.Open(patient, o.Store)
		done()
		if err == nil {
			return store, nil
		}
		log.Print(err)
		if !pause(ctx, 200*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// report writes what happens into the worker's log, which is shown where the test fails.
func report(e cronce.Event) {
	if e.Kind != cronce.EventTaken && e.Kind != cronce.EventStarted {
		log.Print("event ", int(e.Kind), " ", e.Job, " ", e.Tick.Unix(), " ", e.Run.ID, " ", e.Run.Outcome, e.Run.Skip, " ", e.Err)
	}
}

// client is the store as workers have it: leases are as short as can be, and the
// witness hears of renewals.
type client struct {
	*cronce.Store
	w *teller
}

func (c client) Claim(ctx context.Context, claim cronce.Claim) (cronce.Lease, error) {
	claim.TTL = cronce.MinTTL
	return c.Store.Claim(ctx, claim)
}

func (c client) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	asked := cronce.SinceBoot()
	l, err := c.Store.Renew(ctx, l)
	if err == nil {
		c.w.tell(renewed, l.Run, asked)
	}
	return l, err
}

func (c client) Jobs(ctx context.Context, job string) ([]cronce.JobState, error) {
	if job == "" {
		return c.Store.Jobs(ctx)
	}
	state, known, err := c.Store.Job(ctx, job)
	if err != nil || !known {
		return nil, err
	}
	return []cronce.JobState{state}, nil
}

var errStale = errors.New("refused: its fence is stale")

// step is the time between two things that a run does.
const step = 50 * time.Millisecond

// labour is the work of a run, under a context that ends with its lease.
func labour(ctx context.Context, w *teller, r cronce.Run) error {
	if !w.tell(started, r, 0) {
		return errStale
	}
	for left := takes(r.Job, r.Tick); left > 0; left -= step {
		if !pause(ctx, min(left, step)) {
			w.tell(stopped, r, 0)
			return context.Cause(ctx)
		}
		if !w.tell(worked, r, 0) {
			return errStale
		}
	}
	w.tell(ended, r, 0)
	return nil
}

// bareJob runs a job without the scheduler, and without a deadline that stops it:
// where it cannot know by its clock that it has the lease, it asks the store, and
// goes on only where that says so. A store that takes a lost lease back is
// found out here.
func bareJob(ctx context.Context, s *cronce.Store, w *teller, job, who string) {
	var last time.Time
	for ctx.Err() == nil {
		patient, done := context.WithTimeout(ctx, time.Second)
		now, err := s.Now(patient)
		done()
		if tick := now.Truncate(time.Second); err == nil && tick.After(last) {
			last = tick
			c := cronce.Claim{RunID: cronce.NewRunID(), Job: job, Tick: tick, StartDeadline: 5 * time.Second, Holder: cronce.ThisProcess(who)}
			bareRun(ctx, s, w, c)
		}
		pause(ctx, step)
	}
}

func bareRun(ctx context.Context, s *cronce.Store, w *teller, c cronce.Claim) {
	var l cronce.Lease
	for claimed := false; !claimed; {
		patient, done := context.WithTimeout(ctx, cronce.MinTTL/3)
		var err error
		l, err = s.Claim(patient, c)
		done()
		var held *cronce.HeldError
		switch {
		case err == nil:
			claimed = true
		case errors.As(err, &held):
			c.Offered = held.Offered
			if !pause(ctx, 2*step) {
				return
			}
		case cronce.Answered(err) || !pause(ctx, 2*step):
			return
		}
	}
	outcome := cronce.Cancelled
	defer func() {
		if err := s.Conclude(context.WithoutCancel(ctx), l, cronce.Result{Outcome: outcome}); err != nil {
			log.Print(c.Job, " ", c.Tick.Unix(), " ", c.RunID, " ", err)
		}
	}()
	what := started
	for left := takes(c.Job, c.Tick); ; left -= step {
		if !sure(ctx, s, &l) {
			if what != started {
				w.tell(stopped, l.Run, 0)
			}
			return
		}
		if left <= 0 {
			what = ended
		}
		if !w.tell(what, l.Run, 0) {
			return
		}
		if what == ended {
			outcome = cronce.Succeeded
			return
		}
		what = worked
		pause(ctx, step)
	}
}

// sure renews the lease where it is time, and reports whether it is ours.
func sure(ctx context.Context, s *cronce.Store, l *cronce.Lease) bool {
	for ctx.Err() == nil {
		now := cronce.SinceBoot()
		if now < l.Sent+l.TTL/3 {
			return true
		}
		patient, done := context.WithTimeout(ctx, l.TTL/6)
		next, err := s.Renew(patient, *l)
		done()
		switch {
		case err == nil:
			*l = next
			return true
		case errors.Is(err, cronce.ErrLost):
			return false
		case cronce.SinceBoot() < l.StopAt():
			return true
		}
		pause(ctx, step)
	}
	return false
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
