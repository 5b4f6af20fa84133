package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/testenv"
)

// killBoth kills the two processes of a run so that neither can do anything any more: they
// stand still first. It returns what they leave, which names the fleet's folder.
func killBoth(t *testing.T, f *fleet, lender, its int) {
	t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range []int{lender, its} {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGSTOP {
				awaitStopped(t, pid)
			}
		}
	}
	t.Cleanup(f.endLeft)
	if f.gone() {
		t.Fatal("nothing is left: the test does not test much")
	}
}

// endLeft ends commands that name the fleet's folder, and what is below them.
func (f *fleet) endLeft() {
	for _, pid := range f.commands() {
		for _, below := range append(guard.Descendants(pid), pid) {
			syscall.Kill(below, syscall.SIGKILL)
		}
	}
}

func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "a process that stands still", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(stat), ") T ")
	})
}

// Both processes of a run are killed at once, so that nobody ends its work with its
// lease. This host, which sees that it goes on, starts nothing beside it, says
// which process it is, and lets no other host start the job until it has ended.
func TestShared_BothKilledRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	first := startServer(t, f.command("run", "--manual", "job", "--", "sh", "-c", f.holdOn()))
	first.await(t, 0, "up")
	guards := childrenOf(first.cmd.Process.Pid)
	if len(guards) != 1 {
		t.Fatalf("the lease process has the children %v", guards)
	}
	killBoth(t, f, first.cmd.Process.Pid, guards[0])
	next := startServer(t, f.command("run", "--manual", "job", "--", "touch", f.dir+"/beside"))
	next.await(t, 0, "not started", "an earlier run has left", "pid ", "(s") // sh or sleep
	there, err := f.on("other", "run", "--manual", "job", "--", "touch", f.dir+"/beside").CombinedOutput()
	if code, _ := exitCode(err); code != 75 || !strings.Contains(string(there), "orphans") {
		t.Errorf("on another host: exit %d\n%s", code, there)
	}
	f.endLeft()
	<-next.gone
	if code := next.cmd.ProcessState.ExitCode(); code != 75 {
		t.Errorf("exit %d, want 75", code)
	}
	if _, err := os.Stat(f.dir + "/beside"); err == nil {
		t.Error("it was run beside what was left")
	}
	if out := f.ok(t, "run", "--manual", "job", "--", "echo", "alone"); !strings.Contains(out, "alone") {
		t.Errorf("afterwards: %s", out)
	}
	for _, r := range f.runs(t)[1:2] {
		if r.Outcome != cronce.Cancelled || !strings.Contains(r.Message, "an earlier run has left") {
			t.Errorf("on record: %+v", r)
		}
	}
}

// The same for a serve and its guard: the serve that comes next on this host runs no tick
// while what they have left goes on.
func TestShared_BothKilledServe(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=long
@every 1s  test -e %[1]s/second && echo second && exit; %[2]s
`, f.dir, f.holdOn()))
	first := startServer(t, f.command("serve", "--crontab", crontab))
	first.await(t, 0, "long", "| up")
	guards := childrenOf(first.cmd.Process.Pid)
	if len(guards) != 1 {
		t.Fatalf("serve has the children %v", guards)
	}
	killBoth(t, f, first.cmd.Process.Pid, guards[0])
	write(t, filepath.Join(f.dir, "second"), "")
	next := startServer(t, f.command("serve", "--crontab", crontab))
	at := next.await(t, 0, "long", "not started", "an earlier run has left", "pid ")
	next.await(t, at, "long", "skipped", "orphans")
	f.endLeft()
	next.await(t, at, "long", "| second")
	for _, line := range next.said(0, at) {
		if strings.Contains(line, "| second") {
			t.Errorf("beside what was left: %s", line)
		}
	}
	if code := next.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// Where there is no place for the lock, a run goes without it; one that somebody has named
// is to be fit for it.
func TestShared_NoPlaceForTheLock(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	cmd := f.on("no/such", "run", "--manual", "job", "--", "touch", f.dir+"/ran")
	out, err := cmd.CombinedOutput()
	if code, _ := exitCode(err); code != 78 || !strings.Contains(string(out), f.dir+"/no/such") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if len(f.runs(t)) != 0 {
		t.Error("something was decided")
	}
	serve := f.on("no/such", "serve", "--crontab", write(t, filepath.Join(f.dir, "crontab"), "@every 1s true\n"))
	out, err = serve.CombinedOutput()
	if code, _ := exitCode(err); code != 78 {
		t.Errorf("serve: exit %d\n%s", code, out)
	}
}

// A serve that stands still, or a guard of one: the other ends the work, and what is in
// another session, before the lease ends and the job runs again.
func TestShared_ServeStopped(t *testing.T) {
	t.Parallel()
	for who, open := range map[string]func(testing.TB) string{"serve": testenv.Postgres, "guard": testenv.MariaDB} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=long overlap=wait=1h
@every 1s  test -e %[1]s/second && echo second && exit; %[2]s
`, f.dir, f.holdOn()))
			first := startServer(t, f.command("serve", "--crontab", crontab))
			first.await(t, 0, "long", "| up")
			victim := first.cmd.Process.Pid
			if who == "guard" {
				guards := childrenOf(victim)
				if len(guards) != 1 {
					t.Fatalf("serve has the children %v", guards)
				}
				victim = guards[0]
			}
			next := startServer(t, f.on("other", "serve", "--crontab", crontab))
			next.await(t, 0, "goes on")
			write(t, filepath.Join(f.dir, "second"), "")
			syscall.Kill(victim, syscall.SIGSTOP)
			next.await(t, 0, "long", "| second")
			if !f.gone() {
				t.Error("the work goes on beside the next run")
			}
			syscall.Kill(victim, syscall.SIGCONT)
			first.await(t, 0, "long", "cancelled")
			for _, s := range []*server{first, next} {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
			}
		})
	}
}

// A release of a run that only waits for what an earlier one has left ends that run, and says
// that what it waited for goes on.
func TestShared_ReleaseOfAWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	first := startServer(t, f.command("run", "--manual", "job", "--", "sh", "-c", f.holdOn()))
	first.await(t, 0, "up")
	killBoth(t, f, first.cmd.Process.Pid, childrenOf(first.cmd.Process.Pid)[0])
	next := startServer(t, f.command("run", "--manual", "job", "--", "true"))
	next.await(t, 0, "not started", "an earlier run has left")
	out := f.ok(t, "release", "job")
	if !strings.Contains(out, "what it waited for has not") || !strings.Contains(out, "pid ") || strings.Contains(out, "what held it has ended") {
		t.Errorf("release says\n%s", out)
	}
	<-next.gone
	if f.gone() {
		t.Error("what was left has ended: this proves nothing")
	}
}
