// Package storetest is the conformance suite of stores: each subtest defends
// one promise of the contract of [cronce.Driver], which docs/store-contract.md
// explains. A store's own test is a few lines that call [Run].
package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// Harness is one store under test: the means to use it and to hurt it. Open
// must be set; what does not apply to a store stays nil, and the promises that
// need it are left out. Open, Kill, Advance and DropReply are called from many
// goroutines at once.
type Harness struct {
	// Open opens another client of the store, as another process would, and
	// closes it at the test's end.
	Open func(t *testing.T) *cronce.Store

	// Kill ends a client as the death of its process would: nothing is
	// released, nothing renewed. The suite calls its methods afterwards only to
	// see what a process does that was merely out of reach. Nil where leases
	// expire by themselves and there is nothing to do.
	Kill func(t *testing.T, s *cronce.Store)

	// TTL is for the leases of the suite: the shortest that the store gives.
	// 0: leases end with their holder, and a killed one is noticed at once.
	TTL time.Duration

	// Advance moves the store's clock, on which leases end, for all clients:
	// forward, or back where d is less than 0. Nil: it cannot, and the suite
	// waits instead.
	Advance func(t *testing.T, d time.Duration)

	// Conflicts is set for a store that refuses another definition of a job
	// with a *cronce.ConflictError. Others adopt it.
	Conflicts bool

	// DropReply makes the next operation of a client that reaches the server
	// fail: the server does it, and the reply is lost.
	DropReply func(t *testing.T, s *cronce.Store)

	// Partition keeps a client from the server until heal is called: its
	// operations fail, within a few seconds, and are never done.
	Partition func(t *testing.T, s *cronce.Store) (heal func())

	// Restart stops the server as a crash would and starts it again with all
	// that it had acknowledged. It returns when new clients can be opened;
	// earlier ones are not used any more.
	Restart func(t *testing.T)

	// Forget leaves a store that may have lost its decisions and is not known:
	// an empty one that nobody called Init for, a server that came back
	// without its data, a replica promoted in its place. Earlier clients are
	// not used any more.
	Forget func(t *testing.T)

	// Quarantine is for how long such a store gives no lease. 0 is
	// cronce.MaxTTL; without Advance the suite waits for it.
	Quarantine time.Duration

	// Ticks is for how many ticks the 64 claimers compete, and Clients how many
	// clients they share. 0 is 1,000, and 8.
	Ticks, Clients int
}

// atOnce is how many subtests go on at a time where they have to wait for
// leases to end.
const atOnce = 12

// Run tests the promises. new makes an empty store for each subtest, whose
// stores must not disturb each other; it is called once more for its fields
// alone. The suite calls Init.
func Run(t *testing.T, new func(t *testing.T) Harness) {
	h := new(t)
	run := func(p promise) {
		t.Run(p.name, func(t *testing.T) {
			e := &env{Harness: new(t), t: t}
			e.store = e.Open(t)
			if err := e.store.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.base = e.now().Truncate(time.Minute)
			p.test(e)
			if t.Failed() {
				t.Logf("the promise of rule %s in docs/store-contract.md is not kept", p.rule)
			}
		})
	}
	together, alone := promises(h)
	if h.TTL == 0 || h.Advance != nil {
		for _, p := range together {
			run(p)
		}
	} else {
		places := make(chan struct{}, atOnce)
		var wg sync.WaitGroup
		for _, p := range together {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				run(p)
			})
		}
		wg.Wait()
	}
	for _, p := range alone {
		run(p)
	}
}

// promises are those that apply to such a store: those that bear to be tested
// together, and those that load or hurt the server, and must be alone.
func promises(h Harness) (together, alone []promise) {
	together = slices.Concat(claimPromises, overlapPromises, leasePromises, rerunPromises, recordPromises, requestPromises)
	if h.TTL > 0 {
		together = slices.Concat(expiryPromises, together)
	}
	if h.DropReply != nil {
		together = append(together, dropPromises...)
	}
	if h.Partition != nil {
		together = append(together, partitionPromises...)
	}
	if h.Advance != nil && h.TTL > 0 {
		together = append(together, clockPromises...)
	}
	alone = stormPromises
	if h.Restart != nil {
		alone = slices.Concat(alone, restartPromises)
	}
	if h.Forget != nil {
		alone = slices.Concat(alone, forgetPromises)
	}
	return together, alone
}

// promise is one subtest; its name says what is promised, its rule why.
type promise struct {
	name string
	rule string // of docs/store-contract.md
	test func(*env)
}

// env is what a subtest works with.
type env struct {
	Harness
	t     *testing.T
	store *cronce.Store
	base  time.Time
}

// tick is the i-th of the ticks that are due already: 0 to 20, a minute apart.
func (e *env) tick(i int) time.Time { return e.base.Add(time.Duration(i-20) * time.Minute) }

// second is the i-th of 3,600 ticks that are due already, a second apart.
func (e *env) second(i int) time.Time {
	return e.base.Add(time.Duration(i-3600) * time.Second)
}

// now is the store's time.
func (e *env) now() time.Time {
	e.t.Helper()
	now, err := e.store.Now(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	return now.UTC()
}

// claim is a claim of the i-th tick.
func (e *env) claim(job string, i int) cronce.Claim {
	return cronce.Claim{
		RunID: cronce.NewRunID(), Job: job, Tick: e.tick(i), TTL: e.TTL,
		Holder: cronce.Holder{Host: "host", PID: 4711, User: "user", Via: "storetest"},
	}
}

// byHand is a claim without a tick.
func (e *env) byHand(job string) cronce.Claim {
	c := e.claim(job, 0)
	c.Tick = time.Time{}
	return c
}

// patience is how long the suite waits for anything beside a lease's end.
const patience = 10 * time.Second

// decide repeats the claim for as long as a holder may live, as cronce.Store's
// Decide does, and renews the leases that do live.
func (e *env) decide(s *cronce.Store, c cronce.Claim, live ...*cronce.Lease) (cronce.Lease, error) {
	e.t.Helper()
	ctx := e.t.Context()
	for waited := time.Duration(0); ; waited += 50 * time.Millisecond {
		l, err := s.Claim(ctx, c)
		var held *cronce.HeldError
		if !errors.As(err, &held) {
			return l, err
		}
		if waited > 2*e.TTL+patience {
			e.t.Fatalf("still undecided: %v", err)
		}
		if held.Offered.IsZero() {
			e.t.Fatalf("HeldError without Offered: %+v", held)
		}
		c.Offered = held.Offered
		for _, l := range live {
			*l = e.renewed(e.store, *l)
		}
		e.pass(50 * time.Millisecond)
	}
}

// pass lets time pass on the store's clock.
func (e *env) pass(d time.Duration) {
	if e.Advance != nil {
		e.Advance(e.t, d)
	} else {
		time.Sleep(d)
	}
}

// lease claims and must get the lease.
func (e *env) lease(s *cronce.Store, c cronce.Claim) cronce.Lease {
	e.t.Helper()
	l, err := e.decide(s, c)
	if err != nil {
		e.t.Fatalf("claim of %s: %v", cronce.Stamp(c.Tick), err)
	}
	if !l.Run.Live() || l.Run.ID != c.RunID || l.Run.Job != c.Job || !l.Run.Tick.Equal(c.Tick) {
		e.t.Fatalf("the lease is for another run: %+v, claimed %+v", l.Run, c)
	}
	return l
}

// taken claims and must find the tick decided.
func (e *env) taken(s *cronce.Store, c cronce.Claim) cronce.Run {
	e.t.Helper()
	_, err := s.Claim(e.t.Context(), c)
	var taken *cronce.TakenError
	if !errors.As(err, &taken) {
		e.t.Fatalf("claim of a decided tick: %v, want *TakenError", err)
	}
	if taken.Job != c.Job || !taken.Tick.Equal(c.Tick) {
		e.t.Fatalf("TakenError for job %q, tick %v; claimed %q, %v", taken.Job, taken.Tick, c.Job, c.Tick)
	}
	return taken.Run
}

// skipped claims and must decide the tick as a skip for that reason.
func (e *env) skipped(s *cronce.Store, c cronce.Claim, reason cronce.SkipReason, live ...*cronce.Lease) *cronce.SkippedError {
	e.t.Helper()
	_, err := e.decide(s, c, live...)
	var skipped *cronce.SkippedError
	if !errors.As(err, &skipped) {
		e.t.Fatalf("claim: %v, want *SkippedError", err)
	}
	if r := skipped.Run; r.Skip != reason || r.ID != c.RunID || r.Job != c.Job || !r.Tick.Equal(c.Tick) || r.Live() {
		e.t.Fatalf("skip is %+v, want reason %q for %+v", r, reason, c)
	}
	return skipped
}

// held claims once and must be told to wait.
func (e *env) held(s *cronce.Store, c cronce.Claim) *cronce.HeldError {
	e.t.Helper()
	_, err := s.Claim(e.t.Context(), c)
	var held *cronce.HeldError
	if !errors.As(err, &held) {
		e.t.Fatalf("claim: %v, want *HeldError", err)
	}
	return held
}

func (e *env) finish(s *cronce.Store, l cronce.Lease, o cronce.Outcome) {
	e.t.Helper()
	if err := s.Finish(e.t.Context(), l, cronce.Result{Outcome: o}); err != nil {
		e.t.Fatalf("finish: %v", err)
	}
}

func (e *env) renewed(s *cronce.Store, l cronce.Lease) cronce.Lease {
	e.t.Helper()
	l, err := s.Renew(e.t.Context(), l)
	if err != nil {
		e.t.Fatalf("renew: %v", err)
	}
	return l
}

// kill ends a client and lets its leases end.
func (e *env) kill(s *cronce.Store) {
	e.t.Helper()
	if e.Kill != nil {
		e.Kill(e.t, s)
	}
	e.expire(e.TTL)
}

// expire lets a lease of that TTL end.
func (e *env) expire(ttl time.Duration) {
	if ttl > 0 {
		e.pass(ttl + 100*time.Millisecond)
	}
}

// runs are all runs of a job, oldest first.
func (e *env) runs(job string) []cronce.Run {
	e.t.Helper()
	runs, err := e.store.Runs(e.t.Context(), cronce.RunQuery{Job: job})
	if err != nil {
		e.t.Fatal(err)
	}
	return runs
}

// run is one run as the store has it.
func (e *env) run(id string) cronce.Run {
	e.t.Helper()
	run, ok, err := e.store.Run(e.t.Context(), id)
	if err != nil || !ok {
		e.t.Fatalf("run %s: found %v, %v", id, ok, err)
	}
	return run
}

// job is the state of a job.
func (e *env) job(name string) cronce.JobState {
	e.t.Helper()
	state, ok, err := e.store.Job(e.t.Context(), name)
	if err != nil || !ok {
		e.t.Fatalf("job %q: found %v, %v", name, ok, err)
	}
	return state
}

func (e *env) request(r cronce.Request) {
	e.t.Helper()
	if err := e.store.Request(e.t.Context(), r); err != nil {
		e.t.Fatalf("request %+v: %v", r, err)
	}
}

// unanswered checks that an operation failed without an answer.
func (e *env) unanswered(err error) {
	e.t.Helper()
	var (
		taken    *cronce.TakenError
		skipped  *cronce.SkippedError
		held     *cronce.HeldError
		conflict *cronce.ConflictError
		skew     *cronce.SkewError
	)
	if err == nil || errors.Is(err, cronce.ErrLost) || errors.As(err, &taken) || errors.As(err, &skipped) || errors.As(err, &held) || errors.As(err, &conflict) || errors.As(err, &skew) {
		e.t.Fatalf("an operation without a reply returned %v, want an error that says nothing of its outcome", err)
	}
}

// cancelled is a context that has ended.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
