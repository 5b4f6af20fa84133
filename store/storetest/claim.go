package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cronce/cronce"
)

var claimPromises = []promise{
	{"TickIsDecidedOnce", "3.3", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		if r := e.taken(e.Open(e.t), e.claim("job", 0)); r.ID != l.Run.ID || !r.Live() {
			e.t.Errorf("taken by %+v, want the live run %s", r, l.Run.ID)
		}
		if n := len(e.runs("job")); n != 1 {
			e.t.Errorf("%d runs on record, want 1", n)
		}
	}},

	{"TickIsDecidedOnceAmongManyAtOnce", "5.1", func(e *env) {
		clients := []*cronce.Store{e.store, e.Open(e.t), e.Open(e.t), e.Open(e.t)}
		for i := range 5 {
			answers := e.race(clients, 64, func() cronce.Claim { return e.claim("job", i) })
			if len(answers.leases) != 1 || answers.taken != 63 {
				e.t.Fatalf("tick %d: %d leases, %d taken, %d skipped; want 1, 63, 0", i, len(answers.leases), answers.taken, answers.skipped)
			}
			e.finish(answers.winner, answers.leases[0], cronce.Succeeded)
		}
		if n := len(e.runs("job")); n != 5 {
			e.t.Errorf("%d runs on record, want 5", n)
		}
	}},

	{"DecisionOutlivesTheRun", "3.3", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.finish(e.store, l, cronce.Failed)
		if r := e.taken(e.Open(e.t), e.claim("job", 0)); r.ID != l.Run.ID || r.Outcome != cronce.Failed {
			e.t.Errorf("taken by %+v, want the failed run %s", r, l.Run.ID)
		}
	}},

	{"EarlierTickCanBeDecidedAfterALaterOne", "3.3", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 5)), cronce.Succeeded)
		e.finish(e.store, e.lease(e.store, e.claim("job", 2)), cronce.Succeeded)
		e.taken(e.store, e.claim("job", 2))
		e.taken(e.store, e.claim("job", 5))
	}},

	{"SameRunIDGetsTheSameAnswer", "5.5", func(e *env) {
		c := e.claim("job", 0)
		l := e.lease(e.store, c)
		again := e.lease(e.store, c)
		if again.Run.Fence != l.Run.Fence || !again.Run.Start.Equal(l.Run.Start) {
			e.t.Errorf("the lease is %+v the second time, was %+v", again.Run, l.Run)
		}
		skip := e.claim("job", 1)
		e.skipped(e.store, skip, cronce.SkipOverlap, &l)
		e.skipped(e.store, skip, cronce.SkipOverlap)
		e.finish(e.store, l, cronce.Succeeded)
		if r := e.taken(e.store, c); r.ID != c.RunID || r.Outcome != cronce.Succeeded {
			e.t.Errorf("after its end the claim is answered with %+v", r)
		}
		if n := len(e.runs("job")); n != 2 {
			e.t.Errorf("%d runs on record, want 2", n)
		}
	}},

	{"RunsByHandHaveNoTick", "3.1", func(e *env) {
		for range 2 {
			c := e.byHand("job")
			e.finish(e.store, e.lease(e.store, c), cronce.Succeeded)
			// It is one claim, and runs once, however often it is repeated.
			if r := e.taken(e.store, c); r.ID != c.RunID {
				e.t.Errorf("the claim is answered with %+v", r)
			}
		}
		if n := len(e.runs("job")); n != 2 {
			e.t.Errorf("%d runs on record, want 2", n)
		}
	}},

	{"FencesGrow", "5.2", func(e *env) {
		last := int64(0)
		grown := func(l cronce.Lease) {
			e.t.Helper()
			if l.Run.Fence <= last {
				e.t.Errorf("fence %d after %d", l.Run.Fence, last)
			}
			last = l.Run.Fence
		}
		for i := range 3 {
			l := e.lease(e.store, e.claim("job", i))
			grown(l)
			e.finish(e.store, l, cronce.Succeeded)
		}
		if _, err := e.store.Prune(e.t.Context(), "", e.base.Add(time.Hour)); err != nil {
			e.t.Fatal(err)
		}
		dying := e.Open(e.t)
		grown(e.lease(dying, e.claim("job", 3)))
		e.kill(dying)
		grown(e.lease(e.store, e.claim("job", 4)))
		if f := e.job("job").Fence; f != last {
			e.t.Errorf("the job's fence is %d, the last one given was %d", f, last)
		}
	}},

	{"FenceIsAtLeastTheTimeInMicroseconds", "3.4", func(e *env) {
		before, err := e.store.Now(e.t.Context())
		if err != nil {
			e.t.Fatal(err)
		}
		if l := e.lease(e.store, e.claim("job", 0)); l.Run.Fence < before.Truncate(time.Millisecond).UnixMicro() {
			e.t.Errorf("fence %d at %d µs: one from before a loss of data could be higher", l.Run.Fence, before.UnixMicro())
		}
	}},

	{"SlotsOfATickAreRunsOfItsOwn", "3.3", func(e *env) {
		slot := func(i int) cronce.Claim {
			c := e.claim("job", i)
			c.Slots, c.Overlap.Policy = 3, cronce.OverlapAllow
			return c
		}
		seen := map[int]bool{}
		for range 3 {
			seen[e.lease(e.store, slot(0)).Run.Slot] = true
		}
		e.taken(e.store, slot(0))
		if !seen[1] || !seen[2] || !seen[3] {
			e.t.Errorf("slots %v, want 1, 2 and 3", seen)
		}
		answers := e.race([]*cronce.Store{e.store, e.Open(e.t)}, 16, func() cronce.Claim { return slot(1) })
		if len(answers.leases) != 3 || answers.taken != 13 {
			e.t.Errorf("of 16 at once, %d got a slot and %d found all taken; want 3, 13", len(answers.leases), answers.taken)
		}
	}},

	{"LateTickIsSkipped", "3.1", func(e *env) {
		c := e.claim("job", 0) // 20 minutes old
		c.StartDeadline = 10 * time.Minute
		e.skipped(e.store, c, cronce.SkipLate)
		if r := e.taken(e.store, e.claim("job", 0)); r.Skip != cronce.SkipLate {
			e.t.Errorf("taken by %+v, want the skip", r)
		}
		c = e.claim("job", 1)
		c.StartDeadline = 30 * time.Minute
		e.lease(e.store, c)
	}},

	{"TickThatWaitedIsNotLate", "3.1", func(e *env) {
		// The deadline is tested against the time of the first offer.
		c := e.claim("job", 0)
		c.StartDeadline = time.Minute
		c.Offered = c.Tick.Add(30 * time.Second)
		e.lease(e.store, c)
	}},

	{"TickAheadIsRefusedAndNotDecided", "3.1", func(e *env) {
		now, err := e.store.Now(e.t.Context())
		if err != nil {
			e.t.Fatal(err)
		}
		c := e.claim("job", 0)
		c.Tick = now.UTC().Truncate(time.Second).Add(time.Hour)
		_, err = e.store.Claim(e.t.Context(), c)
		var skew *cronce.SkewError
		if !errors.As(err, &skew) {
			e.t.Fatalf("claim of a tick an hour ahead: %v, want *SkewError", err)
		}
		if !skew.Tick.Equal(c.Tick) || skew.Now.Before(now) {
			e.t.Errorf("%+v, claimed %v at %v", skew, c.Tick, now)
		}
		if runs := e.runs("job"); len(runs) != 0 {
			e.t.Errorf("on record: %+v", runs)
		}
	}},

	{"CancelledClaimDecidesNothing", "5.5", func(e *env) {
		if _, err := e.store.Claim(cancelled(), e.claim("job", 0)); err == nil {
			e.t.Error("a claim under a context that has ended succeeded")
		}
		e.lease(e.store, e.claim("job", 0))
	}},

	{"NamesAreApart", "3.3", func(e *env) {
		long := strings.Repeat("x", cronce.MaxNameBytes-1)
		names := []string{"a", "A", "a.b", "a/b", "a\\b", "../a", "a b", "á", "a\u0301", "a%", "a_", "-a", ".", "..", "a:b", "{a}", "a*", "'a'",
			"日報", long + "1", long + "2", "/usr/bin/php /srv/x/cron.php --all"}
		for _, name := range names {
			e.lease(e.store, e.claim(name, 0))
		}
		for _, name := range names {
			if r := e.taken(e.store, e.claim(name, 0)); r.Job != name {
				e.t.Errorf("tick of %q taken by %q", name, r.Job)
			}
			if runs := e.runs(name); len(runs) != 1 || runs[0].Job != name {
				e.t.Errorf("runs of %q: %+v", name, runs)
			}
		}
		states, err := e.store.Jobs(e.t.Context())
		if err != nil || len(states) != len(names) {
			e.t.Errorf("%d jobs, %v; want %d", len(states), err, len(names))
		}
	}},
}

// answers are the answers to many claims.
type answers struct {
	leases         []cronce.Lease
	winner         *cronce.Store // who got the last of them
	taken, skipped int
	err            error
}

// race makes n claims at once, over all clients.
func (e *env) race(clients []*cronce.Store, n int, claim func() cronce.Claim) answers {
	e.t.Helper()
	var a answers
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		s, c := clients[i%len(clients)], claim()
		wg.Go(func() {
			<-start
			l, err := s.Claim(e.t.Context(), c)
			mu.Lock()
			defer mu.Unlock()
			var taken *cronce.TakenError
			var skipped *cronce.SkippedError
			switch {
			case err == nil:
				a.leases, a.winner = append(a.leases, l), s
			case errors.As(err, &taken):
				a.taken++
			case errors.As(err, &skipped):
				a.skipped++
			default:
				a.err = errors.Join(a.err, fmt.Errorf("claim %d: %w", i, err))
			}
		})
	}
	close(start)
	wg.Wait()
	if a.err != nil {
		e.t.Fatal(a.err)
	}
	return a
}
