package mysqlstore

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// TestGalera defends that two nodes of a cluster, which do not see each other's
// locks, do not both decide a tick, nor both give the lease: one of two
// COMMITs fails, and is no claim.
func TestGalera(t *testing.T) {
	t.Parallel()
	first := testenv.StartGalera(t, nil)
	second := testenv.StartGalera(t, first)
	stores := []*cronce.Store{cronce.NewStore(known(t, first.URL())), cronce.NewStore(open(t, second.URL()))}

	const ticks, claimers = 30, 8
	base := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	var wg sync.WaitGroup
	for i := range claimers {
		wg.Go(func() {
			for tick := range ticks {
				if err := claimOnce(t, stores[i%2], base.Add(time.Duration(tick)*time.Second)); err != nil {
					t.Errorf("claimer %d, tick %d: %v", i, tick, err)
				}
			}
		})
	}
	wg.Wait()

	for _, s := range stores {
		var runs []cronce.Run
		await(t, "a node to have all", func() bool {
			var err error
			if runs, err = s.Runs(t.Context(), cronce.RunQuery{Job: "job"}); err != nil {
				t.Fatal(err)
			}
			return len(runs) == ticks && !slices.ContainsFunc(runs, cronce.Run.Live)
		})
		decided := map[time.Time]bool{}
		var last cronce.Run
		slices.SortFunc(runs, func(a, b cronce.Run) int { return int(a.Fence - b.Fence) })
		for _, r := range runs {
			if decided[r.Tick] {
				t.Errorf("tick %v is decided twice", r.Tick)
			}
			decided[r.Tick] = true
			if r.Skip != "" {
				continue
			}
			if r.Fence <= last.Fence || r.Start.Before(last.End) {
				t.Errorf("%+v is beside %+v", r, last)
			}
			last = r
		}
	}
	for _, n := range []*testenv.GaleraNode{first, second} {
		t.Logf("%s: %s of its transactions were refused", n.Addr(), n.SQL("SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'WSREP_LOCAL_CERT_FAILURES'"))
	}
}

// claimOnce claims a tick until it is decided, and ends the run at once.
func claimOnce(t *testing.T, s *cronce.Store, tick time.Time) error {
	c := cronce.Claim{RunID: cronce.NewRunID(), Job: "job", Tick: tick, TTL: cronce.MaxTTL}
	for end := time.Now().Add(time.Minute); ; {
		l, err := s.Claim(t.Context(), c)
		var held *cronce.HeldError
		var unavailable *cronce.UnavailableError
		switch {
		case err == nil:
			for {
				err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
				if !errors.As(err, &unavailable) || time.Now().After(end) {
					return err
				}
			}
		case errors.As(err, new(*cronce.TakenError)), errors.As(err, new(*cronce.SkippedError)):
			return nil
		case errors.As(err, &held):
			c.Offered = held.Offered
		case !errors.As(err, &unavailable):
			return err
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
