package cmd_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/testenv"
)

// stores are the kinds of stores there are.
var stores = map[string]func(testing.TB) string{
	"local": func(t testing.TB) string { return filepath.Join(t.TempDir(), "store") },
	"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB,
}

// killAll is the death of a serve's host: nothing that came of it is left, or says a word.
func killAll(s *server) {
	s.cmd.Process.Signal(syscall.SIGSTOP)
	for _, pid := range guard.Descendants(s.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.cmd.Process.Kill()
	<-s.gone
}

// sayer is the first of the serves to say these words, and the others.
func sayer(servers []*server, words ...string) (who *server, others []*server) {
	for {
		if i := slices.IndexFunc(servers, func(s *server) bool { return s.says(words...) }); i >= 0 {
			return servers[i], slices.Delete(slices.Clone(servers), i, i+1)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// onceSoon is a schedule that is due in a moment, and then not for a day.
func onceSoon() (schedule string, tick time.Time) {
	tick = time.Now().UTC().Truncate(time.Second).Add(8 * time.Second)
	return tick.Format("5 4 15 * * *"), tick
}

// Rule 3.7, rerun: of three serves the one that has a tick dies with all that came of it.
// The tick is run again, once, as attempt 2, by one of the others, when its lease has
// ended and long before the next tick.
func TestRerun_HostDies(t *testing.T) {
	t.Parallel()
	for kind, open := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			schedule, _ := onceSoon()
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=work on-lost=rerun idempotent=yes lease=5s seconds=yes
%s  echo up attempt $CRONCE_ATTEMPT; [ $CRONCE_ATTEMPT = 2 ] || read x <%s/gate
`, schedule, f.dir))
			makeFifo(t, filepath.Join(f.dir, "gate"))
			serve := func() *server { return startServer(t, f.command("serve", "--crontab", crontab)) }
			dying, others := sayer([]*server{serve(), serve(), serve()}, "work", "| up attempt 1")
			killAll(dying)
			again, _ := sayer(others, "work", "started", "attempt 2, as the run before was lost")
			again.await(t, 0, "work", "| up attempt 2")
			again.await(t, 0, "work", "succeeded")
			// Nor is it run a third time by who comes later.
			others = append(others, serve())
			others[2].await(t, 0, "serves 1 job")
			for _, s := range others {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
			}
			runs := f.runs(t)
			if len(runs) != 2 || !runs[0].Tick.Equal(runs[1].Tick) {
				t.Fatalf("on record: %+v", runs)
			}
			lost, second := runs[0], runs[1]
			if lost.Outcome != cronce.Lost || lost.Attempt != 1 || second.Outcome != cronce.Succeeded || second.Attempt != 2 || second.Fence <= lost.Fence {
				t.Errorf("on record: %+v, %+v", lost, second)
			}
			after := second.Start.Sub(lost.Start)
			t.Logf("run again %s after the first start", after)
			if kind != "local" && after < 5*time.Second {
				t.Errorf("run again %s after the first start: its lease of 5s may not have ended", after)
			}
			if out := f.ok(t, "runs"); !strings.Contains(out, "attempt 2") {
				t.Errorf("runs do not tell of it:\n%s", out)
			}
			if out := f.ok(t, "runs", "--id", second.ID); !strings.Contains(out, "attempt") {
				t.Errorf("nor does the run:\n%s", out)
			}
			if out := f.ok(t, "status", "work"); !strings.Contains(out, "attempt 2") {
				t.Errorf("status does not tell of it:\n%s", out)
			}
		})
	}
}

// Rule 3.7, rerun: the only serve dies, and the next one that is started runs the tick
// again. Where the job does not ask for it, nothing is run again.
func TestRerun_NextServe(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"local", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, stores[kind](t))
			schedule, _ := onceSoon()
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=work on-lost=rerun idempotent=yes lease=5s seconds=yes
%[1]s  echo up attempt $CRONCE_ATTEMPT; [ $CRONCE_ATTEMPT = 2 ] || read x <%[2]s/gate
# cronce: name=left lease=5s seconds=yes
%[1]s  echo up attempt $CRONCE_ATTEMPT; read x <%[2]s/gate; :
`, schedule, f.dir))
			makeFifo(t, filepath.Join(f.dir, "gate"))
			first := startServer(t, f.command("serve", "--crontab", crontab))
			first.await(t, 0, "work", "| up attempt 1")
			first.await(t, 0, "left", "| up attempt 1")
			killAll(first)
			next := startServer(t, f.command("serve", "--crontab", crontab))
			next.await(t, 0, "work", "| up attempt 2")
			next.await(t, 0, "work", "succeeded")
			next.stop(syscall.SIGTERM)
			for _, r := range f.runs(t) {
				if r.Job == "left" && (r.Attempt != 1 || r.Skip != "") {
					t.Errorf("on record: %+v", r)
				}
			}
		})
	}
}

// Rule 3.4: a serve that is killed with all that came of it, a moment before the next tick
// of the job that it runs, does not cost that tick: another runs it when the lease has
// ended, which is its TTL after the last renewal at the latest, and on a local store at once.
func TestHolderKilledBeforeTheTick(t *testing.T) {
	t.Parallel()
	const every, lease = 10 * time.Second, 5 * time.Second
	for kind, open := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=work lease=%s
@every %s  test -e %[3]s/second && exit; echo up; read x <%[3]s/gate
`, lease, every, f.dir))
			makeFifo(t, filepath.Join(f.dir, "gate"))
			serve := func() *server { return startServer(t, f.command("serve", "--crontab", crontab)) }
			dying, others := sayer([]*server{serve(), serve()}, "work", "| up")
			write(t, filepath.Join(f.dir, "second"), "")
			next := time.Now().Truncate(every).Add(every)
			<-time.After(time.Until(next) - 300*time.Millisecond)
			dying.cmd.Process.Signal(syscall.SIGSTOP)
			// On a machine that was too busy just now, that is the tick after it.
			tick := time.Now().Truncate(every).Add(every).UTC()
			killAll(dying)
			of := func(r cronce.Run) bool { return r.Tick.Equal(tick) }
			other := others[0]
			at := other.await(t, 0, "work", "tick "+cronce.Stamp(tick))
			other.await(t, at, "work", "succeeded")
			runs := f.runs(t)
			r := runs[slices.IndexFunc(runs, of)]
			if r.Outcome != cronce.Succeeded {
				t.Errorf("on record: %+v", r)
			}
			after := r.Start.Sub(tick)
			t.Logf("killed before the tick; it ran %s after it", after)
			if after >= every {
				t.Errorf("it ran %s after its time, with a lease of %s", after, lease)
			}
			if n := len(slices.DeleteFunc(runs, func(r cronce.Run) bool { return !of(r) })); n != 1 {
				t.Errorf("the tick was decided %d times", n)
			}
		})
	}
}
