package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/schedule"
)

// A deployment at full load: serves are replaced one after the other, each new
// one started before an old one is told to end. Afterwards every tick of every
// job is decided, once: no tick is lost between two serves, none is run by two.
func TestServe_RollingRestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		servers  int
		restarts int
	}{
		{"one serve is replaced", 1, 4},
		{"of two serves each is", 2, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			store := filepath.Join(dir, "store")
			rollingRestart(t, dir, c.servers, c.restarts, deployment{
				serve: func(crontab string) *server { return startServe(t, store, crontab) },
				runs:  func() []cronce.Run { return runsOf(t, store) },
			})
		})
	}
}

// The same on each kind of store that hosts share.
func TestShared_RollingRestart(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			rollingRestart(t, f.dir, 2, 4, deployment{
				serve: func(crontab string) *server {
					return startServer(t, f.command("serve", "--crontab", crontab))
				},
				runs: func() []cronce.Run { return f.runs(t) },
				few:  true,
			})
		})
	}
}

// deployment is how a rolling restart starts a serve and looks at what was run.
type deployment struct {
	serve func(crontab string) *server
	runs  func() []cronce.Run
	few   bool // a run takes more than on a local store
}

// rollingCrontab is many jobs that are due every second, and returns their
// names. Their policies let no tick go unnoticed, however busy the machine is.
func rollingCrontab(t *testing.T, path string, few bool) (names []string) {
	quick := 30
	if testenv.Race || few {
		quick = 5
	}
	var text strings.Builder
	add := func(name, settings, command string) {
		names = append(names, name)
		fmt.Fprintf(&text, "# cronce: name=%s seconds=yes zone=UTC catchup=all catchup-window=1h start-deadline=1h %s\n* * * * * *  %s\n",
			name, settings, command)
	}
	for i := range quick {
		add(fmt.Sprintf("quick-%d", i), "", "true")
	}
	add("spread", "jitter=700ms", "true")
	add("long", "overlap=allow", "sleep 1.4")
	write(t, path, text.String())
	return names
}

func rollingRestart(t *testing.T, dir string, n, restarts int, d deployment) {
	crontab := filepath.Join(dir, "crontab")
	names := rollingCrontab(t, crontab, d.few)
	var all []*server
	start := func() *server {
		s := d.serve(crontab)
		all = append(all, s)
		s.await(t, 0, "serves", fmt.Sprintf("%d jobs", len(names)))
		return s
	}
	var servers []*server
	for range n {
		servers = append(servers, start())
	}
	from := time.Now()
	for i := range restarts {
		old := servers[i%n]
		old.await(t, old.await(t, old.lines(), "started"), "succeeded")
		servers[i%n] = start()
		if code := old.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("serve stopped with exit %d", code)
		}
		checkDrain(t, old)
	}
	to := time.Now().Truncate(time.Second)
	schedule, err := schedule.Parse("* * * * * *", schedule.Options{Seconds: schedule.Always})
	if err != nil {
		t.Fatal(err)
	}
	undecided := func() (missing []string) {
		decided := map[string]bool{}
		for _, r := range d.runs() {
			decided[r.Job+" "+cronce.Stamp(r.Tick)] = true
		}
		for _, name := range names {
			for tick := schedule.Next(from); !tick.After(to); tick = schedule.Next(tick) {
				if key := name + " " + cronce.Stamp(tick); !decided[key] {
					missing = append(missing, key)
				}
			}
		}
		return missing
	}
	// A busy machine is behind, but gets on: what is late is decided sooner or later.
	last := servers[0]
	missing, since := undecided(), time.Now()
	for len(missing) > 0 && time.Since(since) < time.Minute {
		last.await(t, last.lines(), "succeeded")
		if left := undecided(); len(left) < len(missing) {
			missing, since = left, time.Now()
		}
	}
	if len(missing) > 0 {
		t.Errorf("nobody decided %q", missing)
	}
	for _, s := range servers {
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("serve stopped with exit %d", code)
		}
		checkDrain(t, s)
	}

	seen := map[string]string{}
	for _, r := range d.runs() {
		tick := r.Job + " " + cronce.Stamp(r.Tick)
		if seen[tick] != "" {
			t.Errorf("%s is on record twice: %s and %s", tick, seen[tick], r.ID)
		}
		seen[tick] = r.ID
		lawful := r.Skip == cronce.SkipOverlap && r.Held != "" || r.Skip == cronce.SkipOrphans
		// A machine that takes five seconds for an answer of the store is too busy to use it.
		lawful = lawful || r.Skip == "" && slices.ContainsFunc(all, func(s *server) bool { return s.says("serve", "AWAY") })
		if r.Outcome != cronce.Succeeded && !lawful {
			t.Errorf("neither done nor lawfully skipped: %+v", r)
		}
		if next := schedule.Next(r.Tick.Add(-time.Second)); !next.Equal(r.Tick) {
			t.Errorf("%s is no tick", tick)
		}
	}
}

var (
	startedLine = regexp.MustCompile(`^\S+  (\S+)  started `)
	endedLine   = regexp.MustCompile(`^\S+  (\S+)  (?:succeeded|failed|cancelled|timed_out|lost) +after `)
	waitingLine = regexp.MustCompile(`^\S+  serve  no more runs are started; .*?: (.*)$`)
	waitingFor  = regexp.MustCompile(`(\S+) \(since [^)]*\)`)
)

// checkDrain checks how a serve that has gone did so: from some line on it
// started nothing, it named there exactly what was going on, and it saw all of
// that end.
func checkDrain(t *testing.T, s *server) {
	t.Helper()
	var running []string // names, one for each run
	drained := false
	for _, line := range s.log {
		if m := startedLine.FindStringSubmatch(line); m != nil {
			if drained {
				t.Errorf("started after it said that nothing would be: %s", line)
			}
			running = append(running, m[1])
		} else if m := endedLine.FindStringSubmatch(line); m != nil {
			i := slices.Index(running, m[1])
			if i < 0 {
				t.Fatalf("ended without a start: %s", line)
			}
			running = slices.Delete(running, i, i+1)
		} else if m := waitingLine.FindStringSubmatch(line); m != nil {
			drained = true
			var named []string
			for _, w := range waitingFor.FindAllStringSubmatch(m[1], -1) {
				named = append(named, w[1])
			}
			slices.Sort(running)
			if !slices.Equal(named, running) {
				t.Errorf("it waits for %q, running are %q", named, running)
			}
		} else if strings.Contains(line, "DROPPED") {
			t.Fatal("the test was too slow to read what serve says")
		}
	}
	if !drained || len(running) > 0 || !s.says("serve", "stopped") {
		t.Errorf("it did not end in order: still running %q", running)
	}
}

// The old serve of a restart waits for its runs, and the new one skips their
// ticks meanwhile and names them; a second TERM ends them, and the new one
// runs the next tick.
func TestServe_SecondTermHandsOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	crontab := write(t, filepath.Join(dir, "crontab"), `
# cronce: name=one grace=30s
@every 1s  trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done
# cronce: name=two grace=30s
@every 1s  echo up; sleep 1000 & echo child; wait
`)
	old := startServe(t, store, crontab)
	old.await(t, 0, "one", "| up")
	old.await(t, 0, "two", "| child")
	next := startServe(t, store, crontab)
	live := map[string]cronce.Run{}
	for _, r := range runsOf(t, store) {
		if r.Live() {
			live[r.Job] = r
			next.await(t, 0, r.Job, "goes on", r.ID)
		}
	}
	if len(live) != 2 {
		t.Fatalf("running are %+v", live)
	}
	old.cmd.Process.Signal(syscall.SIGTERM)
	old.await(t, 0, "serve", "waiting for those that go on", "one (since", "two (since")
	for job, r := range live {
		next.await(t, next.lines(), job, "skipped", "overlap", r.ID)
	}
	if !old.alive() {
		t.Error("it did not wait")
	}
	<-time.After(time.Second / 2) // else it is taken for the same request
	if code := old.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	checkDrain(t, old)
	for job, r := range live {
		next.await(t, next.await(t, 0, job, "started"), job, "| up")
		got := runOf(t, store, r.ID)
		if got.Outcome != cronce.Cancelled || !strings.Contains(got.Message, "serve got terminated twice") {
			t.Errorf("%s ended as %+v", job, got)
		}
	}
}

// alive reports whether it has not ended.
func (s *server) alive() bool {
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

// runOf is that run as the store has it.
func runOf(t *testing.T, store, id string) cronce.Run {
	t.Helper()
	runs := runsOf(t, store)
	i := slices.IndexFunc(runs, func(r cronce.Run) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("run %s is not on record", id)
	}
	return runs[i]
}

// More is due in a second than may run at once: it is worked off in the order
// of ticks, never more than the bound at once, and serve says how far behind
// it is, and when it has caught up.
func TestServe_BurstIsBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	const jobs, bound = 30, 3
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	gate := filepath.Join(dir, "gate") // while it is there, runs go on
	write(t, gate, "")
	var text strings.Builder
	for i := range jobs {
		fmt.Fprintf(&text, "# cronce: name=job-%d seconds=yes start-deadline=1h\n*/%d * * * * *  while test -e %s; do sleep 0.1; done\n", i, 1+i%3, gate)
	}
	crontab := write(t, filepath.Join(dir, "crontab"), text.String())
	s := startServe(t, store, crontab, "--max-running", fmt.Sprint(bound))
	behind := s.await(t, 0, "serve", "behind", "ticks due and waiting for their turn")
	// What is due by now is all there is to do.
	write(t, crontab, "# nothing any more\n")
	s.await(t, 0, "loaded", "0 jobs")
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	s.await(t, behind, "serve", "caught up")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	checkDrain(t, s)

	var runs []cronce.Run
	for _, r := range runsOf(t, store) {
		if r.Skip == "" {
			runs = append(runs, r)
		} else if r.Skip != cronce.SkipOverlap {
			t.Errorf("skipped: %+v", r)
		}
	}
	slices.SortFunc(runs, func(a, b cronce.Run) int { return a.Start.Compare(b.Start) })
	for i, r := range runs {
		atOnce := 1
		for _, earlier := range runs[:i] {
			if earlier.End.After(r.Start) {
				atOnce++
			}
		}
		if atOnce > bound {
			t.Errorf("%d runs at once at the start of %+v", atOnce, r)
		}
		// Those that have their turn at the same time are claimed in any order.
		overtook := 0
		for _, later := range runs[i+1:] {
			if later.Tick.Before(r.Tick) {
				overtook++
			}
		}
		if overtook >= bound {
			t.Errorf("%d runs of earlier ticks were started after %+v", overtook, r)
		}
	}
	if len(runs) < jobs {
		t.Errorf("only %d runs", len(runs))
	}
}
