package localstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// TestProcesses_TickRunsOnce is the promise, by real processes: fifty claim
// one tick at once, round after round, and some are killed at any moment. Each
// tick is decided once, its work is done at most once, and each run that was
// killed is found and marked as lost, once.
func TestProcesses_TickRunsOnce(t *testing.T) {
	const crowd = 50
	rounds := 200
	if raceBuilt {
		rounds = 20
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))

	dir := t.TempDir()
	effects := dir + "/effects"
	d := newDriver(t, dir+"/store")
	children := make([]*child, crowd)
	spawn := func(which map[int]bool) {
		for i := range which {
			children[i] = start(t, "claimer", d.dir, effects)
		}
		for i := range which {
			if line := children[i].read(); line != "ready" {
				t.Fatal(line)
			}
		}
	}
	all := map[int]bool{}
	for i := range children {
		all[i] = true
	}
	spawn(all)

	killed := map[int]bool{}    // pids
	done := map[string]string{} // ticks whose run was reported as finished, with its id
	base := time.Now().Unix() - 3600
	for round := range rounds {
		tick := base + int64(round)
		victims := map[int]bool{}
		for range rnd.IntN(8) {
			victims[rnd.IntN(crowd)] = true
		}
		killWinner := round%3 == 0 // in the middle of its work

		at := time.Now().Add(3 * time.Millisecond)
		for _, c := range children {
			fmt.Fprintln(c.stdin, tick, at.UnixNano(), killWinner)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range victims {
			moment := at.Add(time.Duration(rnd.Int64N(int64(10 * time.Millisecond))))
			wg.Go(func() {
				time.Sleep(time.Until(moment)) // any moment will do
				children[i].cmd.Process.Kill()
			})
		}
		dead := map[int]bool{}
		for i, c := range children {
			wg.Go(func() {
				for c.lines.Scan() {
					word, id, _ := strings.Cut(c.lines.Text(), " ")
					mu.Lock()
					switch word {
					case "won":
						if killWinner {
							c.cmd.Process.Kill()
							dead[i] = true
						}
					case "done":
						done[fmt.Sprint(tick)] = id
					case "taken":
					default:
						t.Errorf("round %d: %s", round, c.lines.Text())
					}
					mu.Unlock()
					if word != "won" {
						return
					}
				}
			})
		}
		wg.Wait()
		for i := range victims {
			dead[i] = true
		}
		for i := range dead {
			killed[children[i].pid()] = true
			children[i].kill()
		}
		spawn(dead)
	}

	// One more claim finds the last of the dead.
	s := cronce.NewStore(d)
	last, err := s.Claim(t.Context(), claimOf("job", time.Unix(base+int64(rounds), 0)))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Runs(t.Context(), cronce.RunQuery{Job: "job"})
	if err != nil {
		t.Fatal(err)
	}
	started := map[string]string{} // by tick, from the work itself
	b, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		tick, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if other, ok := started[tick]; ok {
			t.Errorf("tick %s: the work of runs %s and %s was done", tick, other, id)
		}
		started[tick] = id
	}
	decided := map[string]bool{}
	lost := 0
	for _, r := range runs {
		tick := fmt.Sprint(r.Tick.Unix())
		if decided[tick] {
			t.Errorf("tick %s was decided twice", tick)
		}
		decided[tick] = true
		switch {
		case r.ID == last.Run.ID:
		case r.Outcome == cronce.Succeeded:
			if started[tick] != r.ID {
				t.Errorf("tick %s: run %s succeeded, the work was done by %q", tick, r.ID, started[tick])
			}
		case r.Outcome == cronce.Lost:
			lost++
			if !killed[r.Holder.PID] {
				t.Errorf("tick %s: run %s is lost, and its process was not killed", tick, r.ID)
			}
			if id := started[tick]; id != "" && id != r.ID {
				t.Errorf("tick %s: run %s has it, %s did the work", tick, r.ID, id)
			}
			if done[tick] != "" {
				t.Errorf("tick %s: run %s is lost, and had finished", tick, r.ID)
			}
		default:
			t.Errorf("tick %s: %+v", tick, r)
		}
	}
	if len(runs) != rounds+1 {
		t.Errorf("%d ticks decided, want %d", len(runs), rounds+1)
	}
	if lost < rounds/3 {
		t.Errorf("%d runs are lost, at least %d were killed", lost, rounds/3)
	}
	// In the journal itself each run ends once.
	ends := map[string]int{}
	for _, r := range rawRecords(t, d, "job") {
		if r.Event == evEnd {
			ends[r.ID]++
		}
	}
	for _, r := range runs {
		if r.ID != last.Run.ID && ends[r.ID] != 1 {
			t.Errorf("run %s has %d ends on record", r.ID, ends[r.ID])
		}
	}
	t.Logf("%d rounds of %d, %d processes killed, %d runs lost", rounds, crowd, len(killed), lost)
}

// rawRecords are all lines of a job's journal.
func rawRecords(t *testing.T, d *driver, job string) []record {
	t.Helper()
	var recs []record
	for _, n := range segments(t, d, job) {
		b, err := os.ReadFile(d.folder(job) + "/" + segmentName(n))
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.LastIndexByte(b, '\n'); i != len(b)-1 {
			t.Errorf("segment %d ends within a line", n)
		}
		more, _, err := parseLines(b, true)
		if err != nil {
			t.Fatalf("segment %d: %v", n, err)
		}
		for _, r := range more {
			if r.Event != evSeen { // it comes when it comes
				recs = append(recs, r)
			}
		}
	}
	return recs
}

// segments are the numbers of a job's segments.
func segments(t *testing.T, d *driver, job string) []int {
	t.Helper()
	st, err := journal{store: d.dir, job: job, dir: d.folder(job)}.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	return st.all
}
