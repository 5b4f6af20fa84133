package storetest

import (
	"errors"
	"time"

	"github.com/cronce/cronce"
)

// again is a claim of a tick whose run was lost, as a scheduler makes it.
func (e *env) again(job string, i int) cronce.Claim {
	c := e.claim(job, i)
	c.Attempt, c.CatchUp = 2, true
	return c
}

// lose lets a run of that tick begin and its process die.
func (e *env) lose(c cronce.Claim) cronce.Lease {
	e.t.Helper()
	dying := e.Open(e.t)
	l := e.lease(dying, c)
	e.kill(dying)
	return l
}

// rerunPromises are about ticks whose run was lost and that are run again.
var rerunPromises = []promise{
	{"LostTickIsRunAgainOnce", "3.7", func(e *env) {
		first := e.lose(e.claim("job", 0))
		l := e.lease(e.store, e.again("job", 0)) // it marks the first one as lost itself
		if l.Run.Attempt != 2 || l.Run.Slot != 1 || l.Run.Fence <= first.Run.Fence {
			e.t.Errorf("run again as %+v, after %+v", l.Run, first.Run)
		}
		if r := e.run(first.Run.ID); r.Outcome != cronce.Lost || r.Attempt != 1 {
			e.t.Errorf("the first run is %+v, want lost", r)
		}
		e.taken(e.Open(e.t), e.again("job", 0)) // it lives
		e.finish(e.store, l, cronce.Failed)
		if r := e.taken(e.store, e.again("job", 0)); r.ID != l.Run.ID {
			e.t.Errorf("taken by %+v, want the second run %s", r, l.Run.ID)
		}
		e.taken(e.store, e.claim("job", 0))
		if r := e.run(l.Run.ID); r.Outcome != cronce.Failed || r.Attempt != 2 {
			e.t.Errorf("on record: %+v", r)
		}
		if n := len(e.runs("job")); n != 2 {
			e.t.Errorf("%d runs on record, want 2", n)
		}
		e.finish(e.store, e.lease(e.store, e.claim("job", 1)), cronce.Succeeded)
	}},

	{"LostTickIsRunAgainOnceAmongMany", "3.7", func(e *env) {
		clients := []*cronce.Store{e.store, e.Open(e.t), e.Open(e.t), e.Open(e.t)}
		for i := range 3 {
			e.lose(e.claim("job", i))
			a := e.race(clients, 32, func() cronce.Claim { return e.again("job", i) })
			if len(a.leases) != 1 || a.taken != 31 {
				e.t.Fatalf("tick %d: %d leases, %d taken; want 1, 31", i, len(a.leases), a.taken)
			}
			e.finish(a.winner, a.leases[0], cronce.Succeeded)
		}
		if n := len(e.runs("job")); n != 6 {
			e.t.Errorf("%d runs on record, want 6", n)
		}
	}},

	{"LostRerunIsNotRunAgain", "3.7", func(e *env) {
		e.lose(e.claim("job", 0))
		second := e.lose(e.again("job", 0))
		if r := e.taken(e.store, e.again("job", 0)); r.ID != second.Run.ID || r.Outcome != cronce.Lost {
			e.t.Errorf("taken by %+v, want the second run, lost", r)
		}
		c := e.again("job", 0)
		c.Attempt = 3
		if _, err := e.store.Claim(e.t.Context(), c); err == nil {
			e.t.Error("a third attempt was given")
		}
		c = e.byHand("job")
		c.Attempt = 2
		if _, err := e.store.Claim(e.t.Context(), c); err == nil {
			e.t.Error("a run by hand was run again")
		}
	}},

	{"OnlyALostRunIsRunAgain", "3.7", func(e *env) {
		for i, o := range []cronce.Outcome{cronce.Succeeded, cronce.Failed, cronce.TimedOut, cronce.Cancelled} {
			l := e.lease(e.store, e.claim("job", i))
			e.finish(e.store, l, o)
			if r := e.taken(e.store, e.again("job", i)); r.ID != l.Run.ID {
				e.t.Errorf("taken by %+v, want the run that %s", r, o)
			}
		}
		late := e.claim("job", 4)
		late.StartDeadline = time.Second
		e.skipped(e.store, late, cronce.SkipLate)
		e.taken(e.store, e.again("job", 4))
		e.taken(e.store, e.again("job", 5)) // nobody decided it
		e.taken(e.store, e.again("unheard of", 0))
		e.lease(e.store, e.claim("job", 5))
	}},

	{"RerunWaitsForTheFirstRunsEnd", "3.7", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		c := e.again("job", 0)
		for _, policy := range []cronce.OverlapPolicy{cronce.OverlapSkip, cronce.OverlapAllow} {
			c.Overlap.Policy, c.CatchUp = policy, policy == cronce.OverlapSkip
			held := e.held(e.store, c)
			if held.Holder.ID != l.Run.ID || e.TTL > 0 && !held.Expires.Equal(l.Granted.Add(e.TTL)) {
				e.t.Errorf("held by %+v until %v, want %s, granted at %v for %s", held.Holder, held.Expires, l.Run.ID, l.Granted, e.TTL)
			}
		}
		e.finish(e.store, l, cronce.Succeeded)
		e.taken(e.store, c)
	}},

	{"RerunIsHeldByAnotherRun", "3.7", func(e *env) {
		e.lose(e.claim("job", 0))
		other := e.lease(e.store, e.byHand("job"))
		for range 2 {
			if held := e.held(e.store, e.again("job", 0)); held.Holder.ID != other.Run.ID {
				e.t.Errorf("held by %+v, want %s", held.Holder, other.Run.ID)
			}
			e.pass(5 * time.Millisecond)
			other = e.renewed(e.store, other)
		}
		e.finish(e.store, other, cronce.Succeeded)
		e.lease(e.store, e.again("job", 0))
	}},

	{"NothingIsRunAgainOnceALaterTickWasDecided", "3.7", func(e *env) {
		first := e.lose(e.claim("run", 0))
		e.finish(e.store, e.lease(e.store, e.claim("run", 1)), cronce.Succeeded)
		if r := e.taken(e.store, e.again("run", 0)); r.ID != first.Run.ID {
			e.t.Errorf("taken by %+v, want the lost run", r)
		}
		e.lose(e.claim("skipped", 0))
		late := e.claim("skipped", 1)
		late.StartDeadline = time.Second
		e.skipped(e.store, late, cronce.SkipLate)
		e.taken(e.store, e.again("skipped", 0))
		// An earlier one, and another job's, do not count, nor does a run by hand.
		e.lose(e.claim("job", 1))
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		e.finish(e.store, e.lease(e.store, e.claim("other", 2)), cronce.Succeeded)
		e.finish(e.store, e.lease(e.store, e.byHand("job")), cronce.Succeeded)
		e.lease(e.store, e.again("job", 1))
	}},

	{"NothingIsRunAgainAfterPruning", "3.7", func(e *env) {
		e.lose(e.claim("job", 0))
		e.finish(e.store, e.lease(e.store, e.byHand("job")), cronce.Succeeded) // which marks it lost
		e.pass(5 * time.Millisecond)
		if _, err := e.store.Prune(e.t.Context(), "", e.now()); err != nil {
			e.t.Fatal(err)
		}
		e.taken(e.store, e.again("job", 0))
	}},

	{"AsManySlotsAreRunAgainAsWereLost", "3.7", func(e *env) {
		slot := func(c cronce.Claim) cronce.Claim {
			c.Slots, c.Overlap.Policy = 3, cronce.OverlapAllow
			return c
		}
		e.finish(e.store, e.lease(e.store, slot(e.claim("job", 0))), cronce.Succeeded)
		dying := e.Open(e.t)
		e.lease(dying, slot(e.claim("job", 0)))
		e.lease(dying, slot(e.claim("job", 0)))
		e.kill(dying)
		a := e.race([]*cronce.Store{e.store, e.Open(e.t)}, 16, func() cronce.Claim { return slot(e.again("job", 0)) })
		if len(a.leases) != 2 || a.taken != 14 {
			e.t.Errorf("of 16 at once, %d ran a slot again and %d found all taken; want 2, 14", len(a.leases), a.taken)
		}
	}},

	{"RerunRepeatedGetsTheSameAnswer", "3.7", func(e *env) {
		e.lose(e.claim("job", 0))
		c := e.again("job", 0)
		l := e.lease(e.store, c)
		if again := e.lease(e.store, c); again.Run.Fence != l.Run.Fence || again.Run.Attempt != 2 {
			e.t.Errorf("the lease is %+v the second time, was %+v", again.Run, l.Run)
		}
		e.finish(e.store, l, cronce.Succeeded)
		if r := e.taken(e.store, c); r.ID != c.RunID || r.Outcome != cronce.Succeeded {
			e.t.Errorf("after its end the claim is answered with %+v", r)
		}
	}},

	{"PausedJobIsNotRunAgain", "3.7", func(e *env) {
		e.lose(e.claim("job", 0))
		e.request(cronce.Request{Kind: cronce.Pause, Job: "job"})
		e.skipped(e.store, e.again("job", 0), cronce.SkipPaused)
		e.request(cronce.Request{Kind: cronce.Resume, Job: "job"})
		e.taken(e.store, e.again("job", 0))
	}},

	{"DefinitionOfARerunIsTheStores", "3.7", func(e *env) {
		if !e.Conflicts {
			return // it is taken over, as with every claim
		}
		c := e.claim("job", 0)
		c.Definition = cronce.Definition{Schedule: "@hourly", Zone: "UTC"}
		e.lose(c)
		c = e.again("job", 0)
		c.Definition = cronce.Definition{Schedule: "@daily", Zone: "UTC"}
		if _, err := e.store.Claim(e.t.Context(), c); !errors.As(err, new(*cronce.ConflictError)) {
			e.t.Errorf("claim with another definition: %v, want *ConflictError", err)
		}
	}},
}
