package storetest

import (
	"errors"
	"time"

	"github.com/cronce/cronce"
)

// dropPromises are about replies that are lost after the server did its work.
var dropPromises = []promise{
	{"ClaimWithoutReplyIsFoundAndRepeated", "5.5", func(e *env) {
		client, c := e.Open(e.t), e.claim("job", 0)
		e.DropReply(e.t, client)
		e.unanswered(errOf(client.Claim(e.t.Context(), c)))
		r := e.run(c.RunID)
		if !r.Live() || r.Fence == 0 {
			e.t.Errorf("on record: %+v, want a live run", r)
		}
		e.taken(e.store, e.claim("job", 0))
		if l := e.lease(client, c); l.Run.Fence != r.Fence {
			e.t.Errorf("the claim again gets fence %d, on record is %d", l.Run.Fence, r.Fence)
		} else {
			e.finish(client, l, cronce.Succeeded)
		}
		if n := len(e.runs("job")); n != 1 {
			e.t.Errorf("%d runs on record, want 1", n)
		}
	}},

	{"SkipWithoutReplyIsFoundAndRepeated", "5.5", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		client, c := e.Open(e.t), e.claim("job", 1)
		c.Offered = e.base.Add(-time.Hour) // long ago: the holder is known to live
		e.DropReply(e.t, client)
		e.unanswered(errOf(client.Claim(e.t.Context(), c)))
		if r := e.run(c.RunID); r.Skip != cronce.SkipOverlap {
			e.t.Errorf("on record: %+v, want a skip", r)
		}
		e.finish(e.store, l, cronce.Succeeded)
		e.skipped(client, c, cronce.SkipOverlap)
		if n := len(e.runs("job")); n != 2 {
			e.t.Errorf("%d on record, want the run and one skip", n)
		}
	}},

	{"RenewalWithoutReplyCanBeRepeated", "5.4", func(e *env) {
		client := e.Open(e.t)
		l := e.lease(client, e.claim("job", 0))
		e.DropReply(e.t, client)
		e.unanswered(errOf(client.Renew(e.t.Context(), l)))
		e.finish(client, e.renewed(client, l), cronce.Succeeded)
	}},

	{"FinishWithoutReplyCanBeRepeated", "5.4", func(e *env) {
		client := e.Open(e.t)
		l := e.lease(client, e.claim("job", 0))
		e.DropReply(e.t, client)
		e.unanswered(client.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Failed}))
		first := e.run(l.Run.ID)
		if first.Outcome != cronce.Failed {
			e.t.Errorf("on record: %+v, want failed", first)
		}
		next := e.lease(e.store, e.claim("job", 1))
		e.finish(client, l, cronce.Failed)
		if r := e.run(l.Run.ID); r.Outcome != cronce.Failed || !r.End.Equal(first.End) {
			e.t.Errorf("after the repetition: %+v, was %+v", r, first)
		}
		e.renewed(e.store, next)
	}},

	{"RequestWithoutReplyCanBeRepeated", "5.5", func(e *env) {
		client, r := e.Open(e.t), cronce.Request{Kind: cronce.Pause, Job: "job", By: "ann@host"}
		e.DropReply(e.t, client)
		e.unanswered(client.Request(e.t.Context(), r))
		if p := e.job("job").Paused; p == nil || p.By != "ann@host" {
			e.t.Errorf("paused: %+v", p)
		}
		if err := client.Request(e.t.Context(), r); err != nil {
			e.t.Fatal(err)
		}
		if got, err := e.store.Requests(e.t.Context(), "job", 0); err != nil || len(got) != 1 {
			e.t.Errorf("requests on record: %+v, %v; want 1", got, err)
		}
	}},
}

// partitionPromises are about clients that cannot reach the server.
var partitionPromises = []promise{
	{"CutOffClientDecidesNothing", "5.5", func(e *env) {
		client, c := e.Open(e.t), e.claim("job", 0)
		heal := e.Partition(e.t, client)
		e.unanswered(errOf(client.Claim(e.t.Context(), c)))
		if runs := e.runs("job"); len(runs) != 0 {
			e.t.Errorf("on record: %+v", runs)
		}
		l := e.lease(e.store, e.claim("job", 0))
		heal()
		if r := e.taken(client, c); r.ID != l.Run.ID {
			e.t.Errorf("taken by %+v, want %s", r, l.Run.ID)
		}
	}},

	{"CutOffHolderLosesItsLease", "5.4", func(e *env) {
		client := e.Open(e.t)
		l := e.lease(client, e.claim("job", 0))
		heal := e.Partition(e.t, client)
		e.unanswered(errOf(client.Renew(e.t.Context(), l)))
		e.expire(e.TTL)
		next := e.lease(e.store, e.claim("job", 1))
		heal()
		if _, err := client.Renew(e.t.Context(), l); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("renewal after the cut: %v, want ErrLost", err)
		}
		if err := client.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("finish after the cut: %v, want ErrLost", err)
		}
		if r := e.run(l.Run.ID); r.Outcome != cronce.Lost {
			e.t.Errorf("the run is %+v, want lost", r)
		}
		e.finish(e.store, e.renewed(e.store, next), cronce.Succeeded)
	}},
}

// restartPromises are about a server that comes back with its data.
var restartPromises = []promise{
	{"DecisionsSurviveARestart", "5.1", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		c := e.claim("job", 1)
		c.TTL = cronce.MaxTTL // a restart takes some of it
		l := e.lease(e.store, c)
		e.request(cronce.Request{Kind: cronce.Pause, Job: "paused", By: "ann@host"})
		e.Restart(e.t)
		e.store = e.Open(e.t)
		e.taken(e.store, e.claim("job", 0))
		e.taken(e.store, e.claim("job", 1))
		e.skipped(e.store, e.claim("paused", 0), cronce.SkipPaused)
		l = e.renewed(e.store, l)
		catchUp := e.claim("job", 2)
		catchUp.CatchUp = true
		if held := e.held(e.store, catchUp); held.Holder.ID != l.Run.ID {
			e.t.Errorf("held by %+v, want run %s", held.Holder, l.Run.ID)
		}
		e.finish(e.store, l, cronce.Succeeded)
		if next := e.lease(e.store, e.claim("job", 3)); next.Run.Fence <= l.Run.Fence || !next.PreviousSuccess.Equal(e.tick(1)) {
			e.t.Errorf("fence %d after %d, previous success %v", next.Run.Fence, l.Run.Fence, next.PreviousSuccess)
		}
	}},
}

// forgetPromises are about a store that may have lost decisions.
var forgetPromises = []promise{
	{"ForgetfulStoreSkipsWhatWasDue", "5.7", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		e.Forget(e.t)
		e.store = e.Open(e.t)
		// The record of the one may be there or not; it does not run again.
		_, err := e.store.Claim(e.t.Context(), e.claim("job", 0))
		var skipped *cronce.SkippedError
		if errors.As(err, &skipped) && skipped.Run.Skip != cronce.SkipStoreRestarted || skipped == nil && !errors.As(err, new(*cronce.TakenError)) {
			e.t.Errorf("claim of a tick decided before: %v, want store-restarted, or *TakenError", err)
		}
		e.skipped(e.store, e.claim("job", 5), cronce.SkipStoreRestarted)
		if r := e.taken(e.Open(e.t), e.claim("job", 5)); r.Skip != cronce.SkipStoreRestarted {
			e.t.Errorf("taken by %+v, want the skip", r)
		}
		// So it is also for a run that would be beside others.
		e.skipped(e.store, under(e.claim("other", 5), cronce.OverlapAllow, 0), cronce.SkipStoreRestarted)
	}},

	{"ForgetfulStoreGivesNoLeaseUntilAllHaveEnded", "5.7", func(e *env) {
		quarantine := e.Quarantine
		if quarantine == 0 {
			quarantine = cronce.MaxTTL
		}
		l := e.lease(e.store, e.claim("job", 0))
		e.Forget(e.t)
		e.store = e.Open(e.t)
		seen := e.now()
		held := e.held(e.store, e.byHand("job"))
		if held.Expires.Before(seen.Add(quarantine - 2*time.Millisecond)) {
			e.t.Errorf("held until %v, seen first at %v: %s is not over", held.Expires, seen, quarantine)
		}
		if held.Holder.ID == "" && held.Holder.Job != "job" {
			e.t.Errorf("held by %+v, want the job named", held.Holder)
		}
		e.pass(2 * time.Second)
		next := e.claim("job", 0)
		next.Tick = e.now().Truncate(time.Second) // due since it saw itself
		next.Offered = e.held(e.store, next).Offered
		e.held(e.Open(e.t), e.byHand("job")) // another client changes nothing of it
		e.pass(held.Expires.Sub(e.now()) + 100*time.Millisecond)
		got := e.lease(e.store, next)
		if got.Run.Fence <= l.Run.Fence {
			e.t.Errorf("fence %d, before it was %d", got.Run.Fence, l.Run.Fence)
		}
		if err := e.store.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("finish of the run before: %v, want ErrLost", err)
		}
		e.finish(e.store, e.renewed(e.store, got), cronce.Succeeded)
	}},

	{"InitMakesAStoreKnown", "5.7", func(e *env) {
		e.Forget(e.t)
		e.store = e.Open(e.t)
		if err := e.store.Init(e.t.Context()); err != nil {
			e.t.Fatal(err)
		}
		l, err := e.store.Claim(e.t.Context(), e.claim("job", 5))
		if err != nil {
			e.t.Fatalf("first claim of a store made known: %v", err)
		}
		if err := e.store.Init(e.t.Context()); err != nil { // again: nothing changes
			e.t.Fatal(err)
		}
		e.taken(e.store, e.claim("job", 5))
		e.finish(e.store, e.renewed(e.store, l), cronce.Succeeded)
	}},
}
