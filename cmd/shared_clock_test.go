package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// clocked is a host of a fleet with a clock of its own.
type clocked struct {
	name  string
	clock *testenv.Clock
}

// newClocked makes one whose clock is off by so much. Its timers go so many times as fast as
// real ones.
func newClocked(t *testing.T, f *fleet, name string, off time.Duration, timers int) *clocked {
	t.Helper()
	clock, err := testenv.NewClock(f.dir, time.Now(), timers)
	if err != nil {
		t.Fatal(err)
	}
	h := &clocked{name: name, clock: clock}
	h.off(t, off)
	return h
}

// off sets the clock.
func (h *clocked) off(t *testing.T, by time.Duration) {
	t.Helper()
	if err := h.clock.Go(time.Now().Add(by), 1); err != nil {
		t.Fatal(err)
	}
}

// on is a command on that host.
func (h *clocked) on(f *fleet, args ...string) *exec.Cmd {
	cmd := f.on(h.name, args...)
	cmd.Env = append(cmd.Env, h.clock.Env())
	return cmd
}

// Hosts whose clocks are wrong do no harm: ticks are by the store's. One that is off by more
// than 30 s is said to be, and starts nothing, also if its clock was set while it serves,
// until it is right again; those whose clocks are right run every tick, once.
func TestShared_Clocks(t *testing.T) {
	t.Parallel()
	programs, err := clockBin()
	if err != nil {
		t.Fatal(err)
	}
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			f.bin = programs
			did := filepath.Join(f.dir, "did")
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(
				"# cronce: name=often catchup=all catchup-window=10m start-deadline=10m\n@every 1s echo $CRONCE_TICK >>%s\n", did))
			serve := func(h *clocked) *server { return startServer(t, h.on(f, "serve", "--crontab", crontab)) }
			right := newClocked(t, f, "right", 0, 1)
			good := serve(right)
			good.await(t, 0, "often", "succeeded")
			slow := serve(newClocked(t, f, "slow", -90*time.Second, 1))
			fast := serve(newClocked(t, f, "fast", 90*time.Second, 1))
			slow.await(t, 0, "PROBLEM", "skew", "behind the store's", "nothing is started")
			fast.await(t, 0, "PROBLEM", "skew", "ahead of the store's", "nothing is started")

			// It looks at the store's clock once a minute, by its own timers.
			jumpy := newClocked(t, f, "jumpy", 0, 5)
			jumps := serve(jumpy)
			jumps.await(t, 0, "often", "started")
			jumpy.off(t, -time.Hour)
			// "1h0m0s" less half of how long the store took to answer.
			shut := jumps.await(t, 0, "PROBLEM", "skew", "behind the store's", "nothing is started")
			good.await(t, good.await(t, good.lines(), "often", "started"), "often", "succeeded")
			good.await(t, good.await(t, good.lines(), "often", "started"), "often", "succeeded")
			jumpy.off(t, 0)
			right2 := jumps.await(t, shut, "in time")
			if n := strings.Count(strings.Join(jumps.said(shut+1, right2), "\n"), "  started "); n > 1 { // one was on its way
				t.Errorf("%d runs were started with a clock that is an hour behind", n)
			}
			jumps.await(t, right2, "often", "started")
			everyTick(t, f, good, "often")

			// A run under cron names its tick by its host's clock: the store refuses one that is ahead.
			ahead := newClocked(t, f, "ahead", 90*time.Second, 1)
			out, err := ahead.on(f, "run", "--schedule", "@every 1s", "other", "--", "touch", f.dir+"/ran").CombinedOutput()
			if code, _ := exitCode(err); code != 78 || !strings.Contains(string(out), "ahead of the store's clock") {
				t.Errorf("exit %d\n%s", code, out)
			}
			if _, err := os.Stat(f.dir + "/ran"); err == nil {
				t.Error("it was run")
			}
			for _, s := range []*server{good, slow, fast, jumps} {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
			}
			for _, s := range []*server{slow, fast} {
				if s.says("often", "started") {
					t.Error("a host whose clock is 90s off has started something")
				}
			}
			text, err := os.ReadFile(did)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for line := range strings.Lines(string(text)) {
				if seen[line] {
					t.Errorf("it was done twice for %s", line)
				}
				seen[line] = true
			}
		})
	}
}
