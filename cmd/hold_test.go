package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/testenv"
)

// One copy of a held command runs: it is started again where it ends, and elsewhere where
// its holder is killed, never beside another.
func TestHold(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"local", "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			place := filepath.Join(t.TempDir(), "store")
			if kind == "shared" {
				place = testenv.Redis(t)
			}
			f := newFleet(t, place)
			// The lock goes on to what it becomes, and is free when that has ended.
			script := fmt.Sprintf("exec 9>%s/lock; flock -n 9 || { echo TWICE; exit 1; }; echo up; exec sleep 600", f.dir)
			holds := func() *server { return startServer(t, f.command("hold", "-v", "worker", "--", "sh", "-c", script)) }
			first := holds()
			at := first.await(t, 0, "up")
			endSleep(t, first.cmd.Process.Pid)
			at = first.await(t, at, "started again")
			first.await(t, at, "up")

			next := holds()
			next.await(t, 0, "waits", "is held")
			left := guard.Descendants(first.cmd.Process.Pid)
			first.cmd.Process.Kill()
			<-first.gone
			if kind == "local" { // it goes on, and keeps its place, without its guard
				for _, pid := range left {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			next.await(t, 0, "up")
			if code := next.stop(syscall.SIGTERM); code != 128+int(syscall.SIGTERM) {
				t.Errorf("exit %d", code)
			}
			for _, line := range append(first.log, next.log...) {
				if strings.Contains(line, "TWICE") {
					t.Errorf("two at once: %s", line)
				}
			}
			for _, r := range f.runs(t) {
				if r.Skip != "" {
					t.Errorf("who waits is on record: %+v", r)
				}
			}
		})
	}
}

// endSleep ends the sleep below a process.
func endSleep(t *testing.T, of int) {
	t.Helper()
	eventually(t, "a sleep below the process", func() bool {
		for _, pid := range guard.Descendants(of) {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "sleep\n" {
				syscall.Kill(pid, syscall.SIGKILL)
				return true
			}
		}
		return false
	})
}
