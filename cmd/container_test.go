package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// A container is a serve that is process 1 of a namespace of processes, as in a
// container without an init.
type container struct {
	*server
	t   *testing.T
	pid int // as it is seen from outside
}

// startContainer starts one with that crontab, on a store that it may share.
func startContainer(t *testing.T, store, crontab string) *container {
	t.Helper()
	cmd := exec.Command("unshare", append(namespace(), filepath.Join(bin, "cronce"), "serve", "--store", store, "--crontab", crontab)...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "GORACE=atexit_sleep_ms=0")
	c := &container{server: startServer(t, cmd), t: t}
	c.await(t, 0, "serves", "pid 1")
	c.pid = childrenOf(cmd.Process.Pid)[0]
	t.Cleanup(func() {
		// unshare itself does not hear TERM.
		select {
		case <-c.gone:
		default:
			syscall.Kill(c.pid, syscall.SIGKILL)
		}
	})
	return c
}

// namespace is what unshare needs to make a command process 1.
func namespace() []string {
	args := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	return args
}

// end waits for the end of the container, which must have that exit code.
func (c *container) end(code int) {
	c.t.Helper()
	<-c.gone
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("the container ends with exit %d, want %d", got, code)
	}
}

// childrenOf are the children of a process, of whichever thread.
func childrenOf(pid int) (children []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, f := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(f)
			children = append(children, child)
		}
	}
	return children
}

// gate is a fifo at which jobs wait until it is opened.
func gate(t *testing.T, name string) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // once one waits
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// strays are the children of process 1 that are not its guards.
func (c *container) strays() (pids []int) {
	c.t.Helper()
	for _, pid := range childrenOf(c.pid) {
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !strings.HasPrefix(string(cmdline), "cronce\x00guard") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually waits for what the kernel tells nobody.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("not within a minute: ", what)
		}
	}
}

// As process 1 serve inherits what its guards leave behind, and collects it when
// it ends: both of a run that leaves it on purpose and of a guard that was
// killed. The ends of its own guards are not lost by that.
func TestContainer_LeftOversAreCollected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left, openLeft := gate(t, "left")
	held, openHeld := gate(t, "held")
	c := startContainer(t, filepath.Join(dir, "store"), write(t, filepath.Join(dir, "crontab"), fmt.Sprintf(
		"# cronce: name=leaves orphans=leave\n@reboot  (read x <%s) >/dev/null 2>&1 &\n"+
			"# cronce: name=killed\n@reboot  read x <%s; true\n# cronce: name=ticks\n@every 1s  true & true\n", left, held)))
	c.await(t, 0, "leaves", "succeeded")
	c.await(t, 0, "killed", "started")
	var stray []int
	eventually(t, "a process is left", func() bool { stray = c.strays(); return len(stray) == 1 })
	eventually(t, "a guard with its command", func() bool {
		for _, pid := range childrenOf(c.pid) {
			for _, child := range childrenOf(pid) {
				if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); strings.Contains(string(cmdline), held) {
					return syscall.Kill(pid, syscall.SIGKILL) == nil
				}
			}
		}
		return false
	})
	c.await(t, 0, "killed", "lost")
	eventually(t, "a second process is left", func() bool { stray = c.strays(); return len(stray) == 2 })
	openLeft()
	openHeld()
	for _, pid := range stray {
		eventually(t, "what is left is collected", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	c.await(t, c.lines(), "ticks", "succeeded")
	syscall.Kill(c.pid, syscall.SIGTERM)
	c.end(0)
}

// TERM, as an engine sends it, lets the runs end: exit 0. So does QUIT, which some
// images ask for.
func TestContainer_StopsInOrder(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) { t.Parallel(); stopsInOrder(t, sig) })
	}
}

func stopsInOrder(t *testing.T, sig syscall.Signal) {
	dir := t.TempDir()
	wait, open := gate(t, "wait")
	c := startContainer(t, filepath.Join(dir, "store"), write(t, filepath.Join(dir, "crontab"), fmt.Sprintf(
		"# cronce: name=job\n@reboot  read x <%s; echo done\n", wait)))
	c.await(t, 0, "job", "started")
	syscall.Kill(c.pid, syscall.SIGUSR2) // no request to end
	syscall.Kill(c.pid, sig)
	c.await(t, 0, "waiting for those that go on", "job")
	open()
	c.end(0)
	at := c.await(t, 0, "job", "| done")
	c.await(t, at, "stopped")
}

// cronce run is process 1 for one command: it waits for what that leaves behind,
// and has its exit code; TERM is for the command.
func TestContainer_OneCommand(t *testing.T) {
	t.Parallel()
	left, open := gate(t, "left")
	ready, opened := gate(t, "ready")
	store := filepath.Join(t.TempDir(), "store")
	start := func(script string) (*exec.Cmd, *strings.Builder) {
		out := &strings.Builder{}
		cmd := exec.Command("unshare", append(namespace(), filepath.Join(bin, "cronce"), "run", "--store", store, "job", "--", "sh", "-c", script)...)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	cmd, out := start("(read x <" + left + "; echo late) & exit 3")
	open()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 3 || out.String() != "late\n" {
		t.Errorf("exit %d, %q", cmd.ProcessState.ExitCode(), out)
	}
	cmd, out = start("trap 'echo asked; exit 4' TERM; while :; do read x <" + ready + "; done")
	opened()
	syscall.Kill(childrenOf(cmd.Process.Pid)[0], syscall.SIGTERM)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 4 || !strings.HasSuffix(out.String(), "asked\n") {
		t.Errorf("after TERM: exit %d, %q", cmd.ProcessState.ExitCode(), out)
	}
}

// Two containers of one machine that share a store share its promise: a run
// in the one keeps the job from running in the other, whose processes it cannot
// see; and when the first is killed with all its processes, its run is lost and
// the second goes on.
func TestContainer_TwoOnOneStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wait, _ := gate(t, "wait")
	store := filepath.Join(dir, "store")
	crontab := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf("# cronce: name=job\n@every 1s  read x <%s\n", wait))
	a := startContainer(t, store, crontab)
	a.await(t, 0, "job", "started")
	b := startContainer(t, store, crontab)
	syscall.Kill(a.pid, syscall.SIGTERM) // it offers no more, and waits for its run
	a.await(t, 0, "waiting for those that go on")
	b.await(t, 0, "job", "skipped", "overlap")
	if b.says("job", "started") {
		t.Error("two containers run one job at once")
	}
	syscall.Kill(a.pid, syscall.SIGKILL)
	<-a.gone
	b.await(t, 0, "job", "started")
	lost := 0
	for _, r := range runsOf(t, store) {
		if r.Outcome == cronce.Lost {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d runs are on record as lost, want 1", lost)
	}
}

// What serve prints is objects for a log collector, where that is asked for:
// what a job prints is in them as it came, control characters aside.
func TestContainer_LogsAsJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, filepath.Join(dir, "store"), write(t, filepath.Join(dir, "crontab"),
		"# cronce: name=job\n@reboot  echo '{\"a\": \"b\\\\\"}'\n# cronce: name=bad\n@reboot  exit 3\n"), "--log-format", "json")
	s.await(t, 0, `"succeeded"`)
	s.await(t, 0, `"failed"`)
	s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.gone
	var events []string
	printed := ""
	for _, line := range s.log {
		var e struct{ Time, Job, Event, Msg string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, err := time.Parse(time.RFC3339, e.Time); err != nil {
			t.Error(err)
		}
		if e.Event == "output" {
			printed = e.Msg
		}
		events = append(events, e.Job+" "+e.Event)
	}
	for _, want := range []string{"serve serve", "job started", "job output", "job succeeded", "bad started", "bad failed"} {
		if !slices.Contains(events, want) {
			t.Errorf("there is no %q in %q", want, events)
		}
	}
	if printed != `{"a": "b\"}` {
		t.Errorf("the job printed %q", printed)
	}
}
