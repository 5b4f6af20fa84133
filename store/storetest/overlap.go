package storetest

import (
	"errors"
	"time"

	"github.com/cronce/cronce"
)

// under gives the claim an overlap policy.
func under(c cronce.Claim, policy cronce.OverlapPolicy, wait time.Duration) cronce.Claim {
	c.Overlap = cronce.Overlap{Policy: policy, Wait: wait}
	return c
}

var overlapPromises = []promise{
	{"SkipNamesTheHolderAndDecidesTheTick", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		other := e.Open(e.t)
		s := e.skipped(other, e.claim("job", 1), cronce.SkipOverlap, &l)
		if s.Holder == nil || s.Holder.ID != l.Run.ID || s.Run.Held != l.Run.ID || s.Holder.Holder != l.Run.Holder {
			e.t.Errorf("skip is %+v with holder %+v, want run %+v", s.Run, s.Holder, l.Run)
		}
		e.finish(e.store, l, cronce.Succeeded)
		if r := e.taken(e.store, e.claim("job", 1)); r.Skip != cronce.SkipOverlap {
			e.t.Errorf("taken by %+v, want the skip", r)
		}
	}},

	{"SkipIsRecordedOnce", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		clients := []*cronce.Store{e.store, e.Open(e.t)}
		offered := e.base.Add(-time.Hour) // long ago: the holder is known to live
		a := e.race(clients, 16, func() cronce.Claim {
			c := e.claim("job", 1)
			c.Offered = offered
			return c
		})
		if len(a.leases) != 0 || a.skipped != 1 || a.taken != 15 {
			e.t.Errorf("%d leases, %d skipped, %d taken; want 0, 1, 15", len(a.leases), a.skipped, a.taken)
		}
		if n := len(e.runs("job")); n != 2 {
			e.t.Errorf("%d on record, want the run and one skip", n)
		}
		e.finish(e.store, l, cronce.Succeeded)
	}},

	{"NoRunStartsBesideALiveOne", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.skipped(e.store, e.byHand("job"), cronce.SkipOverlap, &l)
		if live := e.job("job").Live; len(live) != 1 || live[0].ID != l.Run.ID {
			e.t.Errorf("live: %+v, want run %s", live, l.Run.ID)
		}
		e.finish(e.store, l, cronce.Succeeded)
		e.lease(e.store, e.claim("job", 1))
	}},

	{"CatchUpTickStaysUndecidedWhileHeld", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 1))
		c := e.claim("job", 0)
		c.CatchUp = true
		for range 3 { // also when the holder is known to live, whatever the policy
			held := e.held(e.store, c)
			if held.Holder.ID != l.Run.ID {
				e.t.Errorf("held by %+v, want run %s", held.Holder, l.Run.ID)
			}
			c.Offered = held.Offered
			e.pass(5 * time.Millisecond)
			l = e.renewed(e.store, l)
			e.held(e.store, under(c, cronce.OverlapWait, time.Millisecond))
		}
		e.finish(e.store, l, cronce.Succeeded)
		e.lease(e.store, c)
	}},

	{"WaiterRunsWhenTheHolderHasEnded", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		waiter := e.Open(e.t)
		c := under(e.claim("job", 1), cronce.OverlapWait, time.Hour)
		c.Offered = e.held(waiter, c).Offered
		c.Offered = e.held(waiter, c).Offered
		e.finish(e.store, l, cronce.Succeeded)
		if next := e.lease(waiter, c); next.Run.Fence <= l.Run.Fence {
			e.t.Errorf("fence %d after %d", next.Run.Fence, l.Run.Fence)
		}
	}},

	{"WaitRunsOut", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		c := under(e.claim("job", 1), cronce.OverlapWait, 300*time.Millisecond)
		start := e.held(e.store, c).Offered
		c.Offered = start
		s := e.skipped(e.store, c, cronce.SkipOverlap, &l)
		if waited := s.Run.Start.Sub(start); waited < 300*time.Millisecond-time.Millisecond {
			e.t.Errorf("it waited for %s, want 300ms", waited)
		}
	}},

	{"OneWaitsAndLaterTicksAreSkipped", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		waiter, other := e.Open(e.t), e.Open(e.t)
		c := under(e.claim("job", 1), cronce.OverlapWait, time.Hour)
		c.Offered = e.held(waiter, c).Offered
		e.skipped(other, under(e.claim("job", 2), cronce.OverlapWait, time.Hour), cronce.SkipOverlap, &l)
		e.held(waiter, c)
		e.finish(e.store, l, cronce.Succeeded)
		e.lease(waiter, c)
	}},

	{"ManyWaitForOneTickAndOneRunsIt", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		a, b := e.Open(e.t), e.Open(e.t)
		ca := under(e.claim("job", 1), cronce.OverlapWait, time.Hour)
		cb := under(e.claim("job", 1), cronce.OverlapWait, time.Hour)
		ca.Offered = e.held(a, ca).Offered
		cb.Offered = e.held(b, cb).Offered
		e.finish(e.store, l, cronce.Succeeded)
		e.lease(a, ca)
		if r := e.taken(b, cb); r.ID != ca.RunID {
			e.t.Errorf("taken by %+v, want %s", r, ca.RunID)
		}
	}},

	{"DeadWaiterFreesItsPlace", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		dying, other := e.Open(e.t), e.Open(e.t)
		e.held(dying, under(e.claim("job", 1), cronce.OverlapWait, time.Hour))
		if e.Kill != nil {
			e.Kill(e.t, dying)
		}
		if e.TTL > 0 { // its place ends with time, as a lease; the holder goes on
			for range 4 {
				e.pass(e.TTL/3 + 50*time.Millisecond)
				l = e.renewed(e.store, l)
			}
		}
		c := under(e.claim("job", 2), cronce.OverlapWait, time.Hour)
		c.Offered = e.held(other, c).Offered
		e.finish(e.store, l, cronce.Succeeded)
		e.lease(other, c)
	}},

	{"ReplaceAsksTheHolderToStopAndFollowsIt", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		c := under(e.claim("job", 1), cronce.OverlapReplace, time.Hour)
		var end = time.Now().Add(patience)
		for l.Stop == nil { // asked for once the holder is known to live
			if time.Now().After(end) {
				e.t.Fatal("the holder was not asked to stop")
			}
			c.Offered = e.held(e.store, c).Offered
			l = e.renewed(e.store, l)
		}
		if l.Stop.Kind != cronce.Stop || l.Stop.Job != "job" {
			e.t.Errorf("request is %+v", l.Stop)
		}
		e.held(e.store, c)
		if asked, err := e.store.Requests(e.t.Context(), "job", 0); err != nil || len(asked) != 1 {
			e.t.Errorf("asked to stop on record: %+v, %v; want once", asked, err)
		}
		e.finish(e.store, l, cronce.Cancelled)
		next := e.lease(e.store, c)
		if next = e.renewed(e.store, next); next.Stop != nil {
			e.t.Errorf("the run that replaced it is asked to stop: %+v", next.Stop)
		}
	}},

	{"AllowRunsBesideOthers", "3.4", func(e *env) {
		a := e.lease(e.store, under(e.claim("job", 0), cronce.OverlapAllow, 0))
		b := e.lease(e.Open(e.t), under(e.claim("job", 1), cronce.OverlapAllow, 0))
		if a.Run.Fence != 0 || b.Run.Fence != 0 {
			e.t.Errorf("fences %d and %d: runs side by side have none", a.Run.Fence, b.Run.Fence)
		}
		if live := e.job("job").Live; len(live) != 2 || live[0].ID != a.Run.ID {
			e.t.Errorf("live: %+v, want both, oldest first", live)
		}
		// A run that wants to be alone is not let in beside them.
		e.skipped(e.store, e.claim("job", 2), cronce.SkipOverlap, &a)
		e.finish(e.store, a, cronce.Succeeded)
		e.finish(e.store, b, cronce.Failed)
		e.lease(e.store, e.claim("job", 3))
		if r := e.run(b.Run.ID); r.Outcome != cronce.Failed {
			e.t.Errorf("second run: %+v", r)
		}
	}},

	{"PausedTicksAreSkipped", "3.3", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		e.request(cronce.Request{Kind: cronce.Pause, Job: "job", By: "ann@host", Why: "migration"})
		s := e.skipped(e.store, e.claim("job", 1), cronce.SkipPaused)
		if s.Paused == nil || s.Paused.By != "ann@host" || s.Paused.Why != "migration" || s.Paused.At.IsZero() {
			e.t.Errorf("paused by %+v", s.Paused)
		}
		if p := e.job("job").Paused; p == nil || p.By != "ann@host" {
			e.t.Errorf("state: paused by %+v", p)
		}
		// What a person starts meanwhile is meant.
		e.finish(e.store, e.lease(e.store, e.byHand("job")), cronce.Succeeded)
		e.request(cronce.Request{Kind: cronce.Resume, Job: "job"})
		if p := e.job("job").Paused; p != nil {
			e.t.Errorf("after resume: %+v", p)
		}
		e.taken(e.store, e.claim("job", 1))
		e.lease(e.store, e.claim("job", 2))
	}},

	{"PauseCanComeBeforeTheFirstTick", "3.3", func(e *env) {
		e.request(cronce.Request{Kind: cronce.Pause, Job: "job"})
		e.skipped(e.store, e.claim("job", 0), cronce.SkipPaused)
	}},

	{"AnotherDefinition", "3.2", func(e *env) {
		one := cronce.Definition{Schedule: "* * * * *", Zone: "UTC"}
		two := cronce.Definition{Schedule: "*/5 * * * *", Zone: "UTC", Policies: "overlap=allow"}
		c := e.claim("job", 0)
		c.Definition = one
		e.finish(e.store, e.lease(e.store, c), cronce.Succeeded)
		first := e.job("job")
		if first.Definition != one || first.Since.IsZero() {
			e.t.Fatalf("state: %+v, want definition %+v", first, one)
		}
		c = e.claim("job", 1)
		c.Definition = two
		if e.Conflicts {
			_, err := e.store.Claim(e.t.Context(), c)
			var conflict *cronce.ConflictError
			if !errors.As(err, &conflict) || conflict.Kept != one || conflict.Have != two {
				e.t.Fatalf("claim: %v, want *ConflictError with both", err)
			}
			e.request(cronce.Request{Kind: cronce.Define, Job: "job", Definition: two})
		}
		e.finish(e.store, e.lease(e.store, c), cronce.Succeeded)
		if s := e.job("job"); s.Definition != two || !s.Since.After(first.Since) {
			e.t.Errorf("state: %+v, want definition %+v since later than %v", s, two, first.Since)
		}
		since := e.job("job").Since
		e.pass(2 * time.Millisecond)
		e.request(cronce.Request{Kind: cronce.Define, Job: "job", Definition: two, By: "ann@host"})
		if s := e.job("job"); !s.Since.Equal(since) {
			e.t.Errorf("the same definition again is since %v, was since %v", s.Since, since)
		}
		// A claim that brings none changes none.
		e.finish(e.store, e.lease(e.store, e.claim("job", 2)), cronce.Succeeded)
		if s := e.job("job"); s.Definition != two {
			e.t.Errorf("state: %+v, want definition %+v", s, two)
		}
	}},
}
