package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cronce/cronce"
)

// seedVariable, where it is set, is the seed of the random histories: the same
// one makes each player choose the same again. How their choices interleave is
// up to the machine.
const seedVariable = "CRONCE_STORETEST_SEED"

const (
	players     = 8
	playedJobs  = 2
	playedSteps = 60
	playedGames = 5

	// Where a lease's end has to be waited for there is one game, of this length.
	playedTime = 10 * time.Second
)

// game is one random history, of jobs of its own.
type game struct {
	*env
	number int
	began  time.Time
	ticks  [playedJobs]atomic.Int64 // offered so far
}

func (g *game) waits() bool { return g.TTL > 0 && g.Advance == nil }

func (g *game) job(i int) string { return fmt.Sprintf("game %d, job %d", g.number, i) }

// histories lets players do at random what clients of a store do, write down
// what they were answered, and see whether it fits together.
func (e *env) histories() {
	seed := rand.Uint64()
	if v := os.Getenv(seedVariable); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			e.t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	e.t.Logf("%s=%d makes the players do the same again", seedVariable, seed)

	for number := range playedGames {
		g := &game{env: e, number: number, began: time.Now()}
		all := make([]*player, players)
		var wg sync.WaitGroup
		for i := range all {
			all[i] = &player{game: g, client: i, store: e.Open(e.t), rand: rand.New(rand.NewPCG(seed, uint64(number*players+i)))}
			wg.Go(all[i].play)
		}
		wg.Wait()
		if e.Kill != nil {
			for _, p := range all {
				e.Kill(e.t, p.store)
			}
		}
		g.check(all)
		if e.t.Failed() || g.waits() {
			return
		}
	}
}

// check looks at all that the players were answered, and at what is on record.
func (g *game) check(all []*player) {
	t := g.t
	var history []porcupine.Operation
	told := map[string]cronce.Run{} // ended runs, as somebody saw them
	given := map[string]bool{}      // leases
	finished := map[string]bool{}   // whether a finish was accepted
	decided := map[tickOf]string{}  // by which run
	decisions, unsure, pruned := 0, 0, 0
	for _, p := range all {
		if p.err != nil {
			t.Errorf("player %d: %v", p.client, p.err)
		}
		history = append(history, p.history...)
		pruned, unsure = pruned+p.pruned, unsure+p.unsure
		decisions += len(p.decided)
		for id, d := range p.decided {
			if other := decided[d]; other != "" && d.tick != 0 {
				t.Errorf("tick %d of %s is decided by %s and by %s", d.tick, d.job, other, id)
			}
			decided[d] = id
		}
		for id := range p.given {
			given[id] = true
		}
		for id, ok := range p.finished {
			finished[id] = ok
		}
	}
	if t.Failed() {
		return
	}
	for _, p := range all {
		for _, a := range p.taken {
			// Where it has been pruned, nobody is named.
			if a.tick != 0 && a.run.ID != "" && decided[a.tickOf] != a.run.ID {
				t.Errorf("tick %d of %s is taken by %s, it was decided by %s", a.tick, a.job, a.run.ID, decided[a.tickOf])
			}
			if a.run.Outcome == "" {
				continue
			}
			if before, ok := told[a.run.ID]; ok && (before.Outcome != a.run.Outcome || !before.End.Equal(a.run.End)) {
				t.Errorf("an ended run has changed: %+v, then %+v", before, a.run)
			}
			told[a.run.ID] = a.run
		}
	}

	// What was left lying about ends, and is marked.
	g.expire(g.TTL)
	for job := range playedJobs {
		c := g.byHand(g.job(job))
		g.finish(g.store, g.lease(g.store, c), cronce.Succeeded)
		decisions++
	}
	kept := 0
	seen := map[string]bool{}
	for job := range playedJobs {
		runs := g.runs(g.job(job))
		kept += len(runs)
		g.alone(runs)
		for _, r := range runs {
			before, ended := told[r.ID]
			ok, answered := finished[r.ID]
			switch {
			case seen[r.ID]:
				t.Errorf("run %s is twice on record", r.ID)
			case r.Live():
				t.Errorf("it still lives: %+v", r)
			case ended && (before.Outcome != r.Outcome || !before.End.Equal(r.End)):
				t.Errorf("an ended run has changed: %+v, then %+v", before, r)
			case answered && ok == (r.Outcome == cronce.Lost):
				t.Errorf("its finish was accepted: %v, and on record it is %+v", ok, r)
			case given[r.ID] && r.Skip != "":
				t.Errorf("a lease was given for %+v", r)
			}
			seen[r.ID] = true
		}
	}
	if all := kept + pruned; all < decisions || all > decisions+unsure {
		t.Errorf("%d on record and %d pruned, decided were %d, and %d may have been", kept, pruned, decisions, unsure)
	}

	if result := porcupine.CheckOperationsTimeout(registers(), history, time.Minute); result != porcupine.Ok {
		slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		t.Errorf("the leases were not those of one register (%s):", result)
		for _, op := range history {
			t.Logf("%8d to %8d µs, player %d: %+v: %+v", op.Call/1000, op.Return/1000, op.ClientId, op.Input, op.Output)
		}
	}
}
