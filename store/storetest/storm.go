package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cronce/cronce"
)

// stormPromises load the server.
var stormPromises = []promise{
	{"ManyClaimersManyTicks", "5.1", func(e *env) { e.storm(64, cmp.Or(e.Ticks, 1000), cmp.Or(e.Clients, 8)) }},
	{"RandomHistories", "5.2", func(e *env) { e.histories() }},
}

// ahead is by how many ticks a claimer of a storm may be ahead of another.
const ahead = 8

// storm lets many claimers compete for many ticks of one job, each at its own
// pace, through so many clients.
func (e *env) storm(claimers, ticks, through int) {
	clients := []*cronce.Store{e.store}
	for len(clients) < through {
		clients = append(clients, e.Open(e.t))
	}
	decided := make([]storms, claimers)
	answered := make([]sync.WaitGroup, ticks) // by all
	for tick := range answered {
		answered[tick].Add(claimers)
	}
	var wg sync.WaitGroup
	for i := range claimers {
		wg.Go(func() {
			next := 0
			defer func() { // nobody waits for one that gave up
				for ; next < ticks; next++ {
					answered[next].Done()
				}
			}()
			for tick := range ticks {
				if tick >= ahead {
					answered[tick-ahead].Wait()
				}
				if err := decided[i].offer(e, clients[i%len(clients)], tick); err != nil {
					decided[i].err = fmt.Errorf("claimer %d, tick %d: %w", i, tick, err)
					return
				}
				answered[tick].Done()
				next++
			}
		})
	}
	wg.Wait()

	by := map[int]string{} // who decided a tick
	for _, d := range decided {
		if d.err != nil {
			e.t.Fatal(d.err)
		}
		for tick, id := range d.decided {
			if other := by[tick]; other != "" {
				e.t.Errorf("tick %d is decided twice, by %s and %s", tick, other, id)
			}
			by[tick] = id
		}
	}
	if len(by) != ticks {
		e.t.Errorf("%d ticks are decided, want %d", len(by), ticks)
	}
	for i, d := range decided {
		for tick, id := range d.taken {
			if by[tick] != id {
				e.t.Errorf("claimer %d was told that tick %d is decided by %s, and it is by %s", i, tick, id, by[tick])
			}
		}
	}
	runs := e.runs("job")
	if len(runs) != ticks {
		e.t.Errorf("%d runs and skips on record, want %d", len(runs), ticks)
	}
	e.alone(runs)
}

// storms is what one claimer was answered, by tick.
type storms struct {
	decided, taken map[int]string
	err            error
}

// offer claims a tick until it is decided, and ends the run at once if it is
// the one.
func (d *storms) offer(e *env, s *cronce.Store, tick int) error {
	if d.decided == nil {
		d.decided, d.taken = map[int]string{}, map[int]string{}
	}
	c := e.claim("job", 0)
	c.Tick = e.second(tick)
	if e.TTL > 0 {
		c.TTL = cronce.MaxTTL // nobody dies
	}
	end := time.Now().Add(time.Minute)
	for {
		l, err := s.Claim(e.t.Context(), c)
		var (
			taken   *cronce.TakenError
			skipped *cronce.SkippedError
			held    *cronce.HeldError
		)
		switch {
		case err == nil:
			d.decided[tick] = l.Run.ID
			return s.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
		case errors.As(err, &skipped):
			d.decided[tick] = skipped.Run.ID
			return nil
		case errors.As(err, &taken):
			d.taken[tick] = taken.Run.ID
			return nil
		case !errors.As(err, &held) || time.Now().After(end):
			return err
		}
		c.Offered = held.Offered
		time.Sleep(time.Millisecond)
	}
}

// alone checks of the runs of a job without OverlapAllow that no two lived at
// once, and that their fences grew.
func (e *env) alone(runs []cronce.Run) {
	e.t.Helper()
	runs = slices.DeleteFunc(slices.Clone(runs), func(r cronce.Run) bool { return r.Skip != "" })
	slices.SortFunc(runs, func(a, b cronce.Run) int { return int(a.Fence - b.Fence) })
	for i, r := range runs[:max(0, len(runs)-1)] {
		next := runs[i+1]
		if next.Fence <= r.Fence || r.End.IsZero() || next.Start.Before(r.End) {
			e.t.Errorf("run %s, fence %d, %v to %v, is followed by %s, fence %d, from %v", r.ID, r.Fence, r.Start, r.End, next.ID, next.Fence, next.Start)
		}
	}
}
