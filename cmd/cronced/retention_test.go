package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/localstore"
)

// Old runs are kept for as long as on a local store, and never less than a day, nor less
// than what may still be caught up.
func TestKeepFor(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2030, 6, 1, 3, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		schedule, policies string
		least, most        time.Duration
	}{
		{"", "", 90 * day, 90 * day},
		{"0 0 1 1 *", "", 90 * day, 90 * day},
		{"@hourly", "", 90 * day, 90 * day},
		{"* * * * *", "", keepTicks*time.Minute - time.Minute, keepTicks * time.Minute},
		{"* 9 * * *", "", 90 * day, 90 * day},
		{"@every 1s", "", day, day},
		{"@every 1s", "catchup-window=48h0m0s", 4 * day, 4 * day},
		{"* * * * *", "catchup-window=2000h0m0s", 90 * day, 90 * day},
		{"no schedule", "", 90 * day, 90 * day},
	} {
		s := cronce.JobState{Job: "job", Definition: cronce.Definition{Schedule: c.schedule, Zone: "UTC", Policies: c.policies}}
		if got := keepFor(s, now); got < c.least || got > c.most {
			t.Errorf("%s %s: %s, want %s to %s", c.schedule, c.policies, got, c.least, c.most)
		}
	}
}

// remembering is a store with jobs that notes what is to be forgotten of them.
type remembering struct {
	cronce.Driver
	now    time.Time
	states []cronce.JobState
	fails  atomic.Bool
	pruned chan time.Time
}

func (d *remembering) Now(context.Context) (time.Time, error) {
	if d.fails.Load() {
		return time.Time{}, errors.New("no answer")
	}
	return d.now, nil
}

func (d *remembering) Jobs(context.Context, string) ([]cronce.JobState, error) { return d.states, nil }

func (d *remembering) Prune(_ context.Context, job string, before time.Time) (int, error) {
	d.pruned <- before
	return 0, nil
}

// While a serve is at work the store is told again and again what to forget, of each job by
// its own schedule and the store's clock. It ends with the serve, and an error is said once.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &remembering{now: time.Date(2030, 6, 1, 3, 0, 0, 0, time.UTC), pruned: make(chan time.Time), states: []cronce.JobState{
			{Job: "often", Definition: cronce.Definition{Schedule: "@every 1s", Zone: "UTC"}},
			{Job: "seldom", Definition: cronce.Definition{Schedule: "@daily", Zone: "UTC"}},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var said strings.Builder
		out := newLines(&said, false)
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			(&retention{store: cronce.NewStore(d), every: pruneEvery, out: out}).run(ctx)
		}()
		for range 3 {
			for _, keeps := range []time.Duration{keepLeast, localstore.DefaultKeepAge} {
				if before := <-d.pruned; !before.Equal(d.now.Add(-keeps)) {
					t.Errorf("it is to forget what is before %s, want %s before %s", before, keeps, d.now)
				}
			}
		}
		if took := time.Since(began); took < 2*pruneEvery || took > 3*pruneEvery {
			t.Errorf("three times within %s", took)
		}
		d.fails.Store(true)
		time.Sleep(5 * pruneEvery)
		cancel()
		<-ended
		out.close()
		if n := strings.Count(said.String(), "no answer"); n != 1 {
			t.Errorf("the error is said %d times:\n%s", n, &said)
		}
	})
}
