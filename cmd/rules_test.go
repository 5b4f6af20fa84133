package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// Catch-up, two serves on one store: what passed while none was there is run once between
// them, in order. A run by hand that holds the job meanwhile decides none of it: it stays in
// the backlog until that run has ended.
func TestServe_TwoCatchUp(t *testing.T) {
	t.Parallel()
	for kind, open := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			makeFifo(t, filepath.Join(f.dir, "gate"))
			crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=job catchup=all catchup-window=1h\n@every 2s  true\n")
			serve := func() *server { return startServer(t, f.command("serve", "--crontab", crontab)) }
			first := serve()
			first.await(t, 0, "job", "succeeded")
			first.stop(syscall.SIGTERM)
			runs := f.runs(t)
			from := runs[len(runs)-1].Tick
			byHand := startServer(t, f.command("run", "--manual", "job", "--", "sh", "-c", fmt.Sprintf("echo up; read x <%s/gate", f.dir)))
			byHand.await(t, 0, "up")
			for time.Since(from) < 9*time.Second {
				<-time.After(100 * time.Millisecond)
			}
			began := time.Now()
			servers := []*server{serve(), serve()}
			for _, s := range servers {
				s.await(t, 0, "serves 1 job")
			}
			sayer(servers, "job", "skipped", "overlap") // a tick that is due now
			if err := os.WriteFile(filepath.Join(f.dir, "gate"), []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			<-byHand.gone
			for {
				sayer(servers, "job", "started")
				done := 0
				for _, r := range f.runs(t) {
					if r.Tick.After(from) && r.Tick.Before(began) && r.Outcome == cronce.Succeeded {
						done++
					}
				}
				if done >= 4 {
					break
				}
				<-time.After(100 * time.Millisecond)
			}
			for _, s := range servers {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
			}
			decided := map[string]int{}
			var last time.Time
			for _, r := range f.runs(t) {
				if r.Tick.IsZero() {
					continue
				}
				decided[cronce.Stamp(r.Tick)]++
				// The newest one that was due at the start is no catch-up: no later one was.
				if !r.Tick.After(from) || !r.Tick.Before(began.Add(-2*time.Second)) {
					continue
				}
				if r.Skip != "" || r.Outcome != cronce.Succeeded || r.Start.Before(began) || r.Tick.Before(last) {
					t.Errorf("of the backlog, after the tick %s: %+v", cronce.Stamp(last), r)
				}
				last = r.Tick
			}
			for tick := from.Add(2 * time.Second); tick.Before(began.Add(-2 * time.Second)); tick = tick.Add(2 * time.Second) {
				if n := decided[cronce.Stamp(tick)]; n != 1 {
					t.Errorf("tick %s was decided %d times", cronce.Stamp(tick), n)
				}
			}
			for tick, n := range decided {
				if n != 1 {
					t.Errorf("tick %s was decided %d times", tick, n)
				}
			}
		})
	}
}

// Rules 3.4 and 3.8, between two hosts: one waits for the run of another and follows it; one
// replaces it, and the other's run is asked to stop; a release with force takes the lease away,
// and the other's run is ended by its own processes.
func TestShared_WaitReplaceRevoke(t *testing.T) {
	t.Parallel()
	for kind, open := range stores {
		if kind == "local" {
			continue // one host: TestRun_OverlapWait, TestRun_OverlapReplace, TestRelease_UnderServe
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			gate := filepath.Join(f.dir, "gate")
			makeFifo(t, gate)
			run := func(overlap, command string) *server {
				return startServer(t, f.command("run", "-v", "--manual", "--lease", "5s", "--overlap", overlap, "job", "--", "sh", "-c", command))
			}
			hold := fmt.Sprintf("echo begun; read x <%s; : ", gate)
			first := run("skip", hold)
			first.await(t, 0, "begun")
			second := run("wait=1m", hold)
			second.await(t, 0, "waits up to 1m")
			if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			<-first.gone
			second.await(t, 0, "begun")
			third := run("replace", hold)
			<-second.gone
			third.await(t, 0, "begun")
			f.ok(t, "release", "job", "--force", "--why", "hangs")
			<-third.gone
			if code := third.cmd.ProcessState.ExitCode(); code != 70 {
				t.Errorf("the run whose lease was taken away: exit %d, want 70", code)
			}
			if out := f.ok(t, "run", "--manual", "--overlap", "wait=1m", "job", "--", "echo", "next"); !strings.Contains(out, "next") {
				t.Errorf("the run after it: %q", out)
			}
			runs := f.runs(t)
			for i, want := range []cronce.Outcome{cronce.Succeeded, cronce.Cancelled, cronce.Cancelled, cronce.Succeeded} {
				if len(runs) != 4 || runs[i].Outcome != want {
					t.Fatalf("on record: %+v; run %d should have %s", runs, i, want)
				}
			}
			if !slices.IsSortedFunc(runs, func(a, b cronce.Run) int { return int(a.Fence - b.Fence) }) || runs[1].Start.Before(runs[0].End) || runs[2].Start.Before(runs[1].End) || runs[3].Start.Before(runs[2].End) {
				t.Errorf("on record: %+v", runs)
			}
		})
	}
}
