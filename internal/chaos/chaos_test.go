// Package chaos_test hurts a fleet and looks for what must not happen. Several
// processes run the same jobs on one real store, each through a proxy of its own;
// they are killed and stopped, cut off, kept waiting and robbed of replies, and so
// is the server, as a seed says. What the jobs do is seen by a witness that knows
// nothing of cronce: at the end what it saw is compared with the store's records
// and with the schedule. docs/guarantees.md says what comes of it.
//
// The short form is a test like any other. The long one is
//
//	make chaos            (go test -v ./internal/chaos -ticks 10000)
//
// and make chaos-mutants shows that stores which break a rule are found out.
package chaos_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

var (
	only    = flag.String("store", "", "redis, postgres or mariadb: that store alone")
	seed    = flag.Uint64("seed", 0, "of the faults; 0: another one each time")
	least   = flag.Int("ticks", 0, "go on for so many ticks; 0: for as long as -for says")
	length  = flag.Duration("for", 20*time.Second, "how long faults are made without -ticks")
	apart   = flag.Duration("apart", 0, "how far the clocks of two processes are apart, in a build with a test clock")
	mutants = flag.Bool("mutants", false, "see that stores which break a rule are found out")
)

// bin is the folder with cronce and cronced.
var bin string

func TestMain(m *testing.M) {
	testenv.OwnSignals()
	// Else each program with the race detector sleeps a second before its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	if text := os.Getenv(orderVariable); text != "" {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(o.work())
	}
	// The stores have their turns at once: all that is done here is to wait.
	flag.Set("test.parallel", strconv.Itoa(len(stores)))
	flag.Parse()
	known := *only == ""
	for _, store := range stores {
		known = known || store.name == *only
	}
	if !known {
		fmt.Fprintf(os.Stderr, "-store %s: there is no such store\n", *only)
		os.Exit(2)
	}
	dir, err := os.MkdirTemp("", "cronce-chaos")
	if err == nil && *apart == 0 && !*mutants {
		err = testenv.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A server is the one of a fleet's store.
type server interface {
	URL() string
	Kill()
	Stop()
	Continue()
	Restart(with testenv.Data)
}

var stores = []struct {
	name  string
	start func(t *testing.T) server
	// rests is for how long nothing starts after its server was killed.
	rests time.Duration
}{
	{"redis", func(t *testing.T) server { return testenv.StartRedis(t, "appendfsync always") }, time.Minute},
	{"postgres", func(t *testing.T) server { return testenv.StartPostgres(t) }, 0},
	{"mariadb", func(t *testing.T) server { return testenv.StartMariaDB(t) }, 0},
}

// Whatever happens to processes, network and server: no tick runs twice, no two
// runs of a job overlap, fences grow, and the records are what really happened.
func TestChaos(t *testing.T) {
	for _, store := range stores {
		if *only != "" && *only != store.name {
			continue
		}
		t.Run(store.name, func(t *testing.T) {
			// One after the other where it goes on for long: each needs the machine.
			if *least == 0 {
				t.Parallel()
			}
			runtime.LockOSThread() // as long as it lasts, so do the processes that it starts
			s := *seed
			if s == 0 {
				s = rand.Uint64N(1 << 32)
			}
			dir := t.TempDir()
			shape := short
			if *least > 0 {
				shape = long
			}
			f := newFleet(t, shape, store.start(t), dir)
			took := *length
			if *least > 0 {
				took = time.Duration(*least)*time.Second/time.Duration(len(f.jobs)) + 2*store.rests + 5*time.Second
			}
			made := planFaults(rand.New(rand.NewPCG(s, s)), limits{
				length: took, workers: shape.workers, serves: f.serves(), serverKills: shape.serverKills[store.name],
			})
			t.Logf("%s: seed %d, %d jobs, %d processes, %d faults in %s; again: go test -v ./internal/chaos -run TestChaos/%s -seed %d",
				store.name, s, len(f.jobs), len(f.clients), len(made), took, store.name, s)
			f.begin()
			f.suffer(made, took)
			f.settle()
			f.stop()
			h := f.history()
			r := h.check()
			t.Log("\n" + r.table(store.name))
			for _, wrong := range r.wrong {
				t.Errorf("seed %d: %s", s, wrong)
			}
			if t.Failed() {
				t.Log(f.logs())
			}
			if ticks := r.ticks(); ticks < *least {
				t.Errorf("%d ticks, fewer than %d", ticks, *least)
			}
		})
	}
}

// path is a file of this test's.
func path(dir, name string) string { return filepath.Join(dir, name) }
