package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// sharedServer is a server of a shared store that a test can hurt.
type sharedServer interface {
	URL() string
	Kill()
	Stop()
	Continue()
}

// sharedServers start a server of each kind.
var sharedServers = map[string]func(testing.TB) sharedServer{
	"redis":    func(t testing.TB) sharedServer { return testenv.StartRedis(t) },
	"postgres": func(t testing.TB) sharedServer { return testenv.StartPostgres(t) },
	"mysql":    func(t testing.TB) sharedServer { return testenv.StartMariaDB(t) },
}

// A run whose store cannot be reached, in whatever way, does not start, and ends with 69 in
// a time that does not depend on the way. So does what only looks.
func TestShared_CannotBeReached(t *testing.T) {
	t.Parallel()
	for kind, start := range sharedServers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			f := newFleet(t, s.URL())
			proxy := testenv.NewProxy(t, s.URL())
			direct := f.url
			tried := func(way string) {
				t.Helper()
				for _, args := range [][]string{
					{"run", "--store-timeout", "1s", "--manual", "job", "--", "touch", f.dir + "/ran"},
					{"status", "--store-timeout", "1s"},
					{"pause", "--store-timeout", "1s", "job"},
					{"serve", "--store-timeout", "1s", "--crontab", write(t, f.dir+"/crontab", "@every 1s touch "+f.dir+"/ran\n")},
				} {
					began := time.Now()
					out, err := f.command(args...).CombinedOutput()
					if code, _ := exitCode(err); code != 69 {
						t.Errorf("%s: %v: exit %d\n%s", way, args, code, out)
					}
					// Far more than it may take, and far less than a client's own patience.
					if took := time.Since(began); took > 20*time.Second {
						t.Errorf("%s: %v: took %s", way, args, took)
					}
				}
			}
			f.url = proxy.URL()
			proxy.Blackhole()
			tried("nothing comes through")
			proxy.Restore()
			proxy.Cut()
			tried("refused")
			f.url = direct
			s.Stop()
			tried("the server stands still")
			s.Continue()
			s.Kill()
			tried("the server is gone")
			if _, err := os.Stat(f.dir + "/ran"); err == nil {
				t.Error("it was run")
			}
		})
	}
}

// A store that goes away while a serve is at work and comes back: what runs is ended with
// its lease, nothing is started meanwhile, each is said once, and afterwards every tick
// of the time in between is decided, once.
func TestShared_AwayAndBack(t *testing.T) {
	t.Parallel()
	for kind, start := range sharedServers {
		for _, how := range []string{"stopped", "cut off"} {
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				s := start(t)
				f := newFleet(t, s.URL())
				proxy := testenv.NewProxy(t, s.URL())
				direct := f.url
				f.url = proxy.URL()
				crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=often catchup=all catchup-window=10m start-deadline=10m
@every 1s  echo often
# cronce: name=long
@reboot  %[1]s
# cronce: name=long
0 0 29 2 *  %[1]s
`, f.holdOn()))
				serve := startServer(t, f.command("serve", "--crontab", crontab))
				serve.await(t, 0, "long", "| up")
				serve.await(t, 0, "often", "| often")
				if how == "stopped" {
					s.Stop()
				} else {
					proxy.Cut()
				}
				away := serve.await(t, 0, "AWAY")
				ended := serve.await(t, away, "long", "cancelled", "the lease could not be renewed")
				if !f.gone() {
					t.Error("its work goes on")
				}
				for _, line := range serve.said(away+1, ended) {
					if hasAll(line, []string{"  started "}) {
						t.Errorf("started while the store is away: %s", line)
					}
				}
				if how == "stopped" {
					s.Continue()
				} else {
					proxy.Restore()
				}
				back := serve.await(t, ended, "back")
				serve.await(t, serve.await(t, back, "often", "started"), "often", "succeeded")
				f.url = direct
				everyTick(t, f, serve, "often")
				eventually(t, "how the run ended is on record", func() bool {
					out := f.ok(t, "runs", "long")
					return hasAll(out, []string{"  lost  ", "cancelled after ", "the lease could not be renewed", "could not record it in time"})
				})
				for _, words := range []string{"AWAY", "back"} {
					if n := serve.count(words); n != 1 {
						t.Errorf("%s is said %d times", words, n)
					}
				}
			})
		}
	}
}

// count is how many lines of serve itself have the word.
func (s *server) count(word string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.log {
		if hasAll(line, []string{"  serve  " + word}) {
			n++
		}
	}
	return n
}

// everyTick waits until every second from the job's first decision up to now is decided,
// and fails where one was decided twice.
func everyTick(t *testing.T, f *fleet, serve *server, job string) {
	t.Helper()
	to := time.Now().Truncate(time.Second)
	left, since := 0, time.Now()
	for ; ; serve.await(t, serve.lines(), job) {
		decided := map[time.Time]int{}
		first := to
		for _, r := range f.runs(t) {
			if r.Job != job {
				continue
			}
			if decided[r.Tick]++; decided[r.Tick] > 1 {
				t.Fatalf("tick %s is decided twice", cronce.Stamp(r.Tick))
			}
			if r.Tick.Before(first) {
				first = r.Tick
			}
		}
		var missing []string
		for tick := first; !tick.After(to); tick = tick.Add(time.Second) {
			if decided[tick] == 0 {
				missing = append(missing, cronce.Stamp(tick))
			}
		}
		if len(missing) == 0 {
			return
		}
		if len(missing) != left { // a busy machine is behind, but gets on
			left, since = len(missing), time.Now()
		}
		if time.Since(since) > time.Minute {
			t.Fatalf("nobody decided %q", missing)
		}
	}
}
