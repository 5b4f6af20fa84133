package storetest

import (
	"errors"
	"time"

	"github.com/cronce/cronce"
)

// expiryPromises are those of stores whose leases end by the store's clock.
var expiryPromises = []promise{
	{"LeaseSaysWhenItEnds", "5.3", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		if l.TTL != e.TTL || l.Lock != nil {
			e.t.Errorf("a lease for %s, with lock %v; claimed for %s", l.TTL, l.Lock, e.TTL)
		}
		e.pass(e.TTL / 10)
		l = e.renewed(e.store, l)
		if l.TTL != e.TTL {
			e.t.Errorf("renewed for %s, want %s", l.TTL, e.TTL)
		}
		e.pass(5 * time.Millisecond)
		held := e.held(e.store, e.claim("job", 1))
		if off := held.Expires.Sub(l.Granted.Add(e.TTL)).Abs(); off > 2*time.Millisecond {
			e.t.Errorf("held until %v, granted at %v for %s", held.Expires, l.Granted, e.TTL)
		}
	}},

	{"ReadsSayWhenALeaseEnds", "5.6", func(e *env) {
		// A killed holder's run is not shown as one that goes on, before a claim marks it.
		read := func() (all []cronce.Run) {
			s := e.job("job")
			return append(append(all, s.Live...), *s.Last, e.run(s.Last.ID))
		}
		l := e.lease(e.store, e.claim("job", 0))
		e.pass(e.TTL / 10)
		l = e.renewed(e.store, l)
		for _, r := range read() {
			if off := r.Expires.Sub(l.Granted.Add(e.TTL)).Abs(); off > 2*time.Millisecond || !r.AsOf(e.now()).Live() {
				e.t.Errorf("read: %+v, granted at %v for %s", r, l.Granted, e.TTL)
			}
		}
		e.expire(e.TTL)
		for _, r := range read() {
			if r = r.AsOf(e.now()); r.Outcome != cronce.Lost || !r.End.Equal(r.Expires) {
				e.t.Errorf("after the lease's end: %+v", r)
			}
		}
		if s := e.job("job").AsOf(e.now()); len(s.Live) != 0 || s.Last.Outcome != cronce.Lost {
			e.t.Errorf("after the lease's end: %+v", s)
		}
		c := e.claim("job", 1)
		e.finish(e.store, e.lease(e.store, c), cronce.Succeeded)
		if r := e.run(c.RunID); !r.Expires.IsZero() {
			e.t.Errorf("one that has ended: %+v", r)
		}
	}},

	{"TTLThatIsNoneIsRefused", "5.3", func(e *env) {
		for _, ttl := range []time.Duration{-1, 1, cronce.MinTTL - 1, cronce.MaxTTL + 1} {
			c := e.claim("job", 0)
			c.TTL = ttl
			if _, err := e.store.Claim(e.t.Context(), c); err == nil {
				e.t.Errorf("a lease for %s was given", ttl)
			}
		}
		e.lease(e.store, e.claim("job", 0))
	}},

	{"RenewalsKeepALease", "3.5", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		for range 4 {
			e.pass(e.TTL / 2)
			l = e.renewed(e.store, l)
		}
		e.skipped(e.store, e.claim("job", 1), cronce.SkipOverlap, &l)
		e.finish(e.store, l, cronce.Succeeded)
	}},

	{"RepeatedClaimIsARenewal", "5.5", func(e *env) {
		// Who hears only the second answer counts the TTL from there.
		c := e.claim("job", 0)
		l := e.lease(e.store, c)
		e.pass(e.TTL * 6 / 10)
		again := e.lease(e.store, c)
		if !again.Granted.After(l.Granted) {
			e.t.Errorf("granted at %v, and the second time at %v", l.Granted, again.Granted)
		}
		e.pass(e.TTL * 6 / 10)
		e.renewed(e.store, again)
	}},

	{"ExpiredLeaseIsNotRenewed", "5.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.expire(e.TTL)
		// Nobody has taken or noticed it: it has ended all the same.
		if _, err := e.store.Renew(e.t.Context(), l); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("renewal after the end: %v, want ErrLost", err)
		}
		if err := e.store.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("finish after the end: %v, want ErrLost", err)
		}
		e.expiredRuns(l)
	}},

	{"ExpiredLeaseIsNotClaimedAgain", "5.4", func(e *env) {
		c := e.claim("job", 0)
		l := e.lease(e.store, c)
		e.expire(e.TTL)
		if r := e.taken(e.store, c); r.ID != c.RunID || r.Outcome != cronce.Lost {
			e.t.Errorf("the claim again is answered with %+v, want its lost run", r)
		}
		e.expiredRuns(l)
	}},

	{"LeasesEndEachByItsOwnTTL", "5.3", func(e *env) {
		long := e.claim("long", 0)
		long.TTL = 2*e.TTL + time.Second
		a, b := e.lease(e.store, e.claim("short", 0)), e.lease(e.store, long)
		e.expire(e.TTL)
		if _, err := e.store.Renew(e.t.Context(), a); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("renewal after %s of %s: %v, want ErrLost", e.TTL, e.TTL, err)
		}
		b = e.renewed(e.store, b)
		e.pass(e.TTL + e.TTL/2) // it is renewed for its own TTL
		e.renewed(e.store, b)
	}},

	{"HolderKilledBeforeTheTickDoesNotCostIt", "3.4", func(e *env) {
		dying := e.Open(e.t)
		l := e.lease(dying, e.claim("job", 0))
		e.renewed(dying, l)
		if e.Kill != nil {
			e.Kill(e.t, dying)
		}
		e.pass(5 * time.Millisecond)
		next := e.lease(e.store, e.claim("job", 1)) // held until then
		if d := next.Run.Start.Sub(l.Run.Start); d < e.TTL {
			e.t.Errorf("the next run started after %s of %s", d, e.TTL)
		}
		if r := e.run(l.Run.ID); r.Outcome != cronce.Lost {
			e.t.Errorf("the dead run is %+v, want lost", r)
		}
	}},

	{"HolderThatRenewedSinceTheOfferLives", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.pass(5 * time.Millisecond)
		c := e.claim("job", 1)
		c.Offered = e.held(e.store, c).Offered
		if again := e.held(e.store, c); !again.Offered.Equal(c.Offered) || again.Holder.ID != l.Run.ID {
			e.t.Errorf("held by %+v, offered at %v; want run %s, %v", again.Holder, again.Offered, l.Run.ID, c.Offered)
		}
		e.pass(5 * time.Millisecond)
		e.renewed(e.store, l)
		if _, err := e.store.Claim(e.t.Context(), c); !errors.As(err, new(*cronce.SkippedError)) {
			e.t.Errorf("after a renewal: %v, want a skip", err)
		}
	}},

	{"WaiterKilledBeforeTheTickDoesNotCostIt", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		dying := e.Open(e.t)
		e.held(dying, under(e.claim("job", 1), cronce.OverlapWait, time.Hour))
		e.finish(e.store, l, cronce.Succeeded)
		if e.Kill != nil {
			e.Kill(e.t, dying)
		}
		e.pass(5 * time.Millisecond)
		e.lease(e.store, e.claim("job", 2)) // when the place has ended
	}},

	{"WaiterThatComesBackGoesFirst", "3.4", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		waiter := e.Open(e.t)
		c := under(e.claim("job", 1), cronce.OverlapWait, time.Hour)
		c.Offered = e.held(waiter, c).Offered
		e.finish(e.store, l, cronce.Succeeded)
		e.pass(5 * time.Millisecond)
		if held := e.held(e.store, e.claim("job", 2)); held.Holder.ID != c.RunID {
			e.t.Errorf("held by %+v, want the waiter %s", held.Holder, c.RunID)
		}
		e.lease(waiter, c)
	}},

	{"RevokedLeaseKeepsOthersOutUntilItsEnd", "3.8", func(e *env) {
		c := e.claim("job", 0)
		l := e.lease(e.store, c)
		e.pass(e.TTL / 2)
		e.request(cronce.Request{Kind: cronce.Revoke, Job: "job"})
		if err := errOf(e.store.Claim(e.t.Context(), c)); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("the claim repeated: %v, want ErrLost", err)
		}
		next := e.claim("job", 1)
		next.Offered = e.held(e.store, next).Offered // the work goes on until its deadline
		e.expire(e.TTL / 2)
		e.lease(e.store, next)
		if r := e.run(l.Run.ID); r.Outcome != cronce.Lost {
			e.t.Errorf("the revoked run is %+v, want lost", r)
		}
	}},

	{"RevokedHoldersWordEndsItsLease", "3.8", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		e.request(cronce.Request{Kind: cronce.Revoke, Job: "job"})
		e.finish(e.store, l, cronce.Cancelled)
		if r := e.run(l.Run.ID); r.Outcome != cronce.Cancelled {
			e.t.Errorf("the run is %+v, want cancelled", r)
		}
		if _, err := e.store.Claim(e.t.Context(), e.claim("job", 1)); err != nil {
			e.t.Errorf("claim after the holder's word: %v", err)
		}
	}},

	{"RunsSideBySideEndEachByItself", "3.4", func(e *env) {
		a := e.lease(e.store, under(e.claim("job", 0), cronce.OverlapAllow, 0))
		b := e.lease(e.store, under(e.claim("job", 1), cronce.OverlapAllow, 0))
		e.pass(e.TTL * 6 / 10)
		a = e.renewed(e.store, a)
		e.pass(e.TTL * 6 / 10)
		a = e.renewed(e.store, a)
		if _, err := e.store.Renew(e.t.Context(), b); !errors.Is(err, cronce.ErrLost) {
			e.t.Errorf("renewal of the other: %v, want ErrLost", err)
		}
		e.lease(e.store, under(e.claim("job", 2), cronce.OverlapAllow, 0))
		if a, b := e.run(a.Run.ID), e.run(b.Run.ID); !a.Live() || b.Outcome != cronce.Lost {
			e.t.Errorf("%+v and %+v, want one alive and one lost", a, b)
		}
	}},
}

// clockPromises are those that need a clock that can be set.
var clockPromises = []promise{
	{"WatermarkAheadOfTheClockIsRefused", "5.1", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		e.pass(2 * time.Hour)
		ahead := e.claim("job", 0)
		ahead.Tick = e.now().Truncate(time.Second)
		l := e.lease(e.store, ahead)
		e.finish(e.store, l, cronce.Succeeded)
		e.pass(time.Second)
		if _, err := e.store.Prune(e.t.Context(), "", e.now()); err != nil {
			e.t.Fatal(err)
		}
		e.pass(-2 * time.Hour)
		// Every tick to come for two hours would count as decided.
		c := e.claim("job", 1)
		var refused *cronce.ConfigError
		if _, err := e.store.Claim(e.t.Context(), c); !errors.As(err, &refused) || refused.What == "" || refused.Cure == "" {
			e.t.Fatalf("claim below a watermark ahead of the clock: %v, want *ConfigError", err)
		}
		e.request(cronce.Request{Kind: cronce.ResetWatermark, Job: "job", By: "ann@host"})
		if asked, err := e.store.Requests(e.t.Context(), "job", 1); err != nil || len(asked) != 1 || asked[0].Kind != cronce.ResetWatermark || asked[0].By != "ann@host" {
			e.t.Errorf("on record: %+v, %v", asked, err)
		}
		e.taken(e.store, c)
		e.pass(2 * time.Second)
		c.Tick = e.now().Truncate(time.Second)
		if next := e.lease(e.store, c); next.Run.Fence <= l.Run.Fence {
			e.t.Errorf("fence %d after %d", next.Run.Fence, l.Run.Fence)
		}
	}},
}

// expiredRuns checks that the job is free for its next tick, and the run lost.
func (e *env) expiredRuns(l cronce.Lease) {
	e.t.Helper()
	next, err := e.store.Claim(e.t.Context(), e.claim("job", 1))
	if err != nil {
		e.t.Fatalf("claim after the lease's end: %v", err)
	}
	if next.Run.Fence <= l.Run.Fence {
		e.t.Errorf("fence %d after %d", next.Run.Fence, l.Run.Fence)
	}
	if r := e.run(l.Run.ID); r.Outcome != cronce.Lost || r.End.IsZero() {
		e.t.Errorf("the run is %+v, want lost", r)
	}
}

func errOf[T any](_ T, err error) error { return err }
