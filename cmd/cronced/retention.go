package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// retention has a shared store forget old runs, while a serve is at work. A local store does
// that by itself.
type retention struct {
	store *cronce.Store
	every time.Duration
	out   *lines
}

const (
	pruneEvery    = time.Hour
	prunePatience = time.Minute // for one job
	keepTicks     = 15_000      // what is kept of a job that is due often,
	keepLeast     = 24 * time.Hour
)

// run prunes each hour, the first time after a random part of one. So of several serves
// each has its moment, and whoever comes first has done it for the others.
func (r *retention) run(ctx context.Context) {
	told := false
	for wait := rand.N(r.every); ; wait = r.every {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := r.prune(ctx)
		if err != nil && ctx.Err() == nil && !told {
			r.out.say("serve", "PROBLEM    old runs are not forgotten: %v", err)
		}
		told = err != nil
	}
}

// prune has the store forget what is older than it is to be, job by job.
func (r *retention) prune(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, prunePatience)
	defer cancel()
	now, err := r.store.Now(patient)
	if err != nil {
		return err
	}
	states, err := r.store.Jobs(patient)
	if err != nil {
		return err
	}
	for _, s := range states {
		if _, err := pruneJob(ctx, r.store, s.Job, now.Add(-keepFor(s, now))); err != nil {
			return err
		}
	}
	return nil
}

// pruneJob has the store forget what is older of one job, in its own time.
func pruneJob(ctx context.Context, store *cronce.Store, job string, before time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, prunePatience)
	defer cancel()
	return store.Prune(ctx, job, before)
}

// keepFor is how long runs of a job are kept: as on a local store, where that is bounded
// in bytes. A tick that may still be caught up is never older.
func keepFor(s cronce.JobState, now time.Time) time.Duration {
	const most = localstore.DefaultKeepAge
	job, err := cli.JobOf(s.Job, s.Definition)
	if err != nil || job.Schedule == "" {
		return most
	}
	schedule, err := job.Parse()
	if err != nil {
		return most
	}
	tick := now
	for range keepTicks {
		if tick = schedule.Prev(tick); tick.IsZero() || now.Sub(tick) >= most {
			return most
		}
	}
	return max(now.Sub(tick), keepLeast, min(most, 2*job.CatchupWindow))
}
