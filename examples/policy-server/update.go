package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/localstore"
	"github.com/cronce/cronce/store/redisstore"
)

// updateOnce sends each new policy once among all processes that share the
// store, until ctx ends; then it waits for a run of its own to end.
func (s *server) updateOnce(ctx context.Context) error {
	store, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()

	cron := &cronce.Scheduler{Store: store, BaseContext: context.Background(), Report: report}
	err = cron.Add(policyUpdate, func(ctx context.Context, run cronce.Run) error {
		return s.send(ctx, run.Tick)
	})
	if err != nil {
		return err
	}
	if err := cron.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil // as asked
}

var policyUpdate = cronce.Job{
	Name:     "policy-update",
	Schedule: "@every 1s", // an example has no time for minutes
	Zone:     "UTC",
	Timeout:  30 * time.Second,

	// Each policy has its version, so that a late one does no harm beside the
	// next: a run that hangs, or was killed, holds up no other.
	Overlap: cronce.Overlap{Policy: cronce.OverlapAllow},
	// Late is better than never. By default a tick is given up after half the
	// interval, which a busy machine exceeds when that is a second.
	Catchup:       cronce.CatchupAll,
	StartDeadline: time.Minute,
}

// openStore opens the store that CRONCE_STORE names: the URL of a Redis that
// several hosts share, or a folder, which is enough on one.
func openStore(ctx context.Context) (*cronce.Store, error) {
	if place := os.Getenv("CRONCE_STORE"); strings.Contains(place, "://") {
		return redisstore.Open(ctx, redisstore.Options{URL: place})
	}
	return localstore.Open(localstore.Options{})
}

// report logs what deserves a word; that others took a tick does not.
func report(e cronce.Event) {
	switch {
	case e.Kind == cronce.EventTaken:
	case e.Err != nil:
		log.Printf("%s %s: %v", e.Job, cronce.Stamp(e.Tick), e.Err)
	case e.Kind == cronce.EventEnded:
		log.Printf("%s %s: %s %s", e.Job, cronce.Stamp(e.Tick), e.Run.Outcome, e.Run.Message)
	}
}
