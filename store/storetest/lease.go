package storetest

import (
	"errors"
	"time"

	"github.com/cronce/cronce"
)

var leasePromises = []promise{
	{"FinishTwiceIsHarmless", "5.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.finish(e.store, l, cronce.Succeeded)
		first := e.run(l.Run.ID)
		e.finish(e.store, l, cronce.Failed) // a repetition, whatever it says
		if r := e.run(l.Run.ID); r.Outcome != cronce.Succeeded || !r.End.Equal(first.End) {
			e.t.Errorf("after the repetition: %+v, was %+v", r, first)
		}
		next := e.lease(e.store, e.claim("job", 1))
		e.finish(e.store, l, cronce.Succeeded)
		e.renewed(e.store, next) // still there
	}},

	{"EndedLeaseIsNotRenewed", "5.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.renewed(e.store, l)
		e.finish(e.store, l, cronce.Succeeded)
		if _, err := e.store.Renew(e.t.Context(), l); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("renew after the end: %v, want ErrLost", err)
		}
	}},

	{"LeaseThatIsNotOnRecordIsLost", "5.4", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		for _, job := range []string{"job", "nobody"} {
			l := cronce.Lease{Run: cronce.Run{ID: cronce.NewRunID(), Job: job, Tick: e.tick(0), Attempt: 1, Slot: 1, Fence: 1}, TTL: e.TTL}
			if _, err := e.store.Renew(e.t.Context(), l); !errors.Is(err, cronce.ErrLost) {
				e.t.Errorf("renewal for %s: %v, want ErrLost", job, err)
			}
			if err := e.store.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); !errors.Is(err, cronce.ErrLost) {
				e.t.Errorf("finish for %s: %v, want ErrLost", job, err)
			}
		}
		if n := len(e.runs("")); n != 1 {
			e.t.Errorf("%d runs on record, want 1", n)
		}
	}},

	{"RenewBringsTheStoresTime", "3.5", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		before := l.Granted
		if before.IsZero() {
			e.t.Fatal("a lease without the time at which it was granted")
		}
		e.pass(5 * time.Millisecond)
		if l = e.renewed(e.store, l); !l.Granted.After(before) {
			e.t.Errorf("granted at %v, renewed at %v", before, l.Granted)
		}
	}},

	{"LostRunIsMarkedOnce", "5.6", func(e *env) {
		dying := e.Open(e.t)
		l := e.lease(dying, e.claim("job", 0))
		e.kill(dying)
		clients := []*cronce.Store{e.store, e.Open(e.t)}
		i := 0
		a := e.race(clients, 8, func() cronce.Claim { i++; return under(e.claim("job", i), cronce.OverlapAllow, 0) })
		if len(a.leases) != 8 {
			e.t.Fatalf("%d leases, want 8", len(a.leases))
		}
		first := e.run(l.Run.ID)
		if first.Outcome != cronce.Lost || first.End.IsZero() {
			e.t.Fatalf("the dead run is %+v, want lost", first)
		}
		e.pass(5 * time.Millisecond)
		e.lease(e.store, under(e.claim("job", 10), cronce.OverlapAllow, 0))
		if again := e.run(l.Run.ID); !again.End.Equal(first.End) {
			e.t.Errorf("lost at %v, later at %v", first.End, again.End)
		}
		n := 0
		for _, r := range e.runs("job") {
			if r.ID == l.Run.ID {
				n++
			}
		}
		if n != 1 {
			e.t.Errorf("the dead run is %d times on record", n)
		}
	}},

	{"LostRunKeepsItsTick", "3.7", func(e *env) {
		dying := e.Open(e.t)
		l := e.lease(dying, e.claim("job", 0))
		e.kill(dying)
		e.lease(e.store, e.claim("job", 1))
		if r := e.taken(e.store, e.claim("job", 0)); r.ID != l.Run.ID || r.Outcome != cronce.Lost {
			e.t.Errorf("taken by %+v, want the lost run", r)
		}
	}},

	{"LateFinisherChangesNothing", "3.6", func(e *env) {
		gone := e.Open(e.t)
		l := e.lease(gone, e.claim("job", 0))
		e.kill(gone)
		next := e.lease(e.store, e.claim("job", 1))
		if err := gone.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("finish of a lost run: %v, want ErrLost", err)
		}
		if _, err := gone.Renew(e.t.Context(), l); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("renewal of a lost run: %v, want ErrLost", err)
		}
		if r := e.run(l.Run.ID); r.Outcome != cronce.Lost {
			e.t.Errorf("the run is %+v, want lost", r)
		}
		next = e.renewed(e.store, next)
		e.finish(e.store, next, cronce.Succeeded)
	}},

	{"HandedLeaseHasItsNewHolder", "3.5", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		l.Run.Holder.PID, l.Run.Holder.Via = 4712, "guard"
		l = e.renewed(e.store, l)
		if r := e.run(l.Run.ID); r.Holder != l.Run.Holder {
			e.t.Errorf("on record is %+v, want holder %+v", r, l.Run.Holder)
		}
		if s := e.skipped(e.Open(e.t), e.claim("job", 1), cronce.SkipOverlap, &l); s.Holder.Holder != l.Run.Holder {
			e.t.Errorf("held by %+v, want %+v", s.Holder, l.Run.Holder)
		}
		e.finish(e.store, l, cronce.Succeeded)
		if r := e.run(l.Run.ID); r.Holder != l.Run.Holder || r.Outcome != cronce.Succeeded {
			e.t.Errorf("at its end: %+v", r)
		}
	}},

	{"OnlyLeftoversMakeTheSkipOrphans", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.skipped(e.store, e.claim("job", 1), cronce.SkipOverlap, &l)
		l.Orphaned = true
		l = e.renewed(e.store, l)
		if s := e.skipped(e.store, e.claim("job", 2), cronce.SkipOrphans, &l); s.Holder == nil || s.Holder.ID != l.Run.ID {
			e.t.Errorf("held by %+v, want run %s", s.Holder, l.Run.ID)
		}
		if r := e.run(l.Run.ID); !r.Live() {
			e.t.Errorf("the run is %+v, want it alive until it finishes", r)
		}
		e.finish(e.store, l, cronce.Succeeded)
		e.lease(e.store, e.claim("job", 3))
	}},

	{"StopReachesTheHolder", "3.5", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		if l = e.renewed(e.store, l); l.Stop != nil {
			e.t.Fatalf("asked to stop by nobody: %+v", l.Stop)
		}
		e.request(cronce.Request{Kind: cronce.Stop, Job: "job", By: "ann@host", Why: "too slow"})
		l = e.renewed(e.store, l)
		if l.Stop == nil || l.Stop.Kind != cronce.Stop || l.Stop.By != "ann@host" || l.Stop.Why != "too slow" || l.Stop.At.IsZero() {
			e.t.Fatalf("request is %+v", l.Stop)
		}
		e.finish(e.store, l, cronce.Cancelled)
		next := e.lease(e.store, e.claim("job", 1))
		if next = e.renewed(e.store, next); next.Stop != nil {
			e.t.Errorf("the next run is asked to stop: %+v", next.Stop)
		}
	}},

	{"StopReachesAllRunsSideBySide", "3.5", func(e *env) {
		a := e.lease(e.store, under(e.claim("job", 0), cronce.OverlapAllow, 0))
		b := e.lease(e.store, under(e.claim("job", 1), cronce.OverlapAllow, 0))
		e.request(cronce.Request{Kind: cronce.Stop, Job: "job"})
		c := e.lease(e.store, under(e.claim("job", 2), cronce.OverlapAllow, 0))
		if a, b, c = e.renewed(e.store, a), e.renewed(e.store, b), e.renewed(e.store, c); a.Stop == nil || b.Stop == nil || c.Stop != nil {
			e.t.Errorf("asked to stop: %v, %v, and the one that came later: %v", a.Stop, b.Stop, c.Stop)
		}
	}},

	{"RevokedLeaseIsNotRenewed", "3.8", func(e *env) {
		c := e.claim("job", 0)
		l := e.lease(e.store, c)
		e.request(cronce.Request{Kind: cronce.Revoke, Job: "job", By: "ann@host", Why: "hangs"})
		for name, err := range map[string]error{
			"renewal":            errOf(e.store.Renew(e.t.Context(), l)),
			"the claim repeated": errOf(e.store.Claim(e.t.Context(), c)), // nor is that a renewal
		} {
			var revoked *cronce.RevokedError
			if !errors.As(err, &revoked) || revoked.Request.By != "ann@host" || revoked.Request.Why != "hangs" || revoked.Request.At.IsZero() {
				e.t.Errorf("%s of a revoked lease: %v, want *RevokedError", name, err)
			}
		}
		// The next run starts at the lease's end or at the holder's word.
		e.finish(e.store, l, cronce.Cancelled)
		next := e.lease(e.store, e.claim("job", 1))
		if next.Run.Fence <= l.Run.Fence {
			e.t.Errorf("fence %d after %d", next.Run.Fence, l.Run.Fence)
		}
		e.renewed(e.store, next)
	}},

	{"RequestsForAnIdleJobHitNoLaterRun", "3.8", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		e.request(cronce.Request{Kind: cronce.Stop, Job: "job"})
		e.request(cronce.Request{Kind: cronce.Revoke, Job: "job"})
		l := e.lease(e.store, e.claim("job", 1))
		if l = e.renewed(e.store, l); l.Stop != nil {
			e.t.Errorf("asked to stop: %+v", l.Stop)
		}
	}},

	{"CloseReleasesNoLease", "5.2", func(e *env) {
		holder := e.Open(e.t)
		l := e.lease(holder, e.claim("job", 0))
		if err := holder.Close(); err != nil {
			e.t.Fatal(err)
		}
		c := e.claim("job", 1)
		c.CatchUp = true
		if held := e.held(e.store, c); held.Holder.ID != l.Run.ID {
			e.t.Errorf("held by %+v, want %s", held.Holder, l.Run.ID)
		}
		if l.Lock != nil {
			l.Lock.Close()
		}
	}},

	{"PreviousSuccessIsTheLastTickThatSucceeded", "3.6", func(e *env) {
		for i, step := range []struct {
			ends cronce.Outcome
			want time.Time
		}{
			{cronce.Failed, time.Time{}},
			{cronce.Succeeded, time.Time{}},
			{cronce.Failed, e.tick(1)},
			{cronce.TimedOut, e.tick(1)},
			{cronce.Succeeded, e.tick(1)},
			{cronce.Succeeded, e.tick(4)},
		} {
			l := e.lease(e.store, e.claim("job", i))
			if !l.PreviousSuccess.Equal(step.want) {
				e.t.Errorf("run %d: previous success %v, want %v", i, l.PreviousSuccess, step.want)
			}
			e.finish(e.store, l, step.ends)
		}
	}},
}
