package cmd_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// --no-catchup decides what was due by the start, for this serve and those
// after it: not a tick of what another ran meanwhile is run, and all are on
// record.
func TestServe_NoCatchup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	crontab := write(t, filepath.Join(p.dir, "crontab"), "# cronce: name=job catchup=all catchup-window=1h\n@every 1s  true\n")
	runs := func() []cronce.Run { return runsOf(t, p.store) }
	notCaughtUp(t, runs, func(args ...string) *server { return startServe(t, p.store, crontab, args...) })
}

// For the whole machine the same.
func TestServeSystem_NoCatchup(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=job catchup=all catchup-window=1h\n@every 1s  daemon  true\n")
	notCaughtUp(t, func() []cronce.Run { return m.runs("daemon") }, m.serve)
}

func notCaughtUp(t *testing.T, runs func() []cronce.Run, serve func(args ...string) *server) {
	t.Helper()
	s := serve()
	s.await(t, 0, "job", "succeeded")
	s.stop(syscall.SIGTERM)
	from := runs()[len(runs())-1].Tick
	for time.Since(from) < 4*time.Second { // another runs these
		<-time.After(100 * time.Millisecond)
	}
	began := time.Now()
	s = serve("--no-catchup")
	s.await(t, 0, "job", "succeeded")
	s.stop(syscall.SIGTERM)
	s = serve()
	s.await(t, 0, "job", "succeeded")
	s.stop(syscall.SIGTERM)
	passed := 0
	for _, r := range runs() {
		switch due := r.Tick.After(from) && !r.Tick.After(began); {
		case due && r.Skip != cronce.SkipLate:
			t.Errorf("the tick %s, before the start at %s, was run: %+v", cronce.Stamp(r.Tick), cronce.Stamp(began), r)
		case due:
			passed++
		}
	}
	if passed < 3 {
		t.Errorf("%d ticks are on record as passed over: 3 at least were due", passed)
	}
}
