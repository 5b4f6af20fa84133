package guard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// A guard takes over its process, so each test guards from a process of its
// own: this test binary, told on its standard input what to guard.
const specVariable = "CRONCE_TEST_GUARD"

// spec is a Command in JSON.
type spec struct {
	Path           string
	Args           []string
	Dir, Input     string
	Timeout, Grace time.Duration
	Orphans        cronce.Orphans
	OneStream      bool // stdout and stderr are one
	Lock           bool // descriptor 4 is the lock
}

func TestMain(m *testing.M) {
	if os.Getenv(specVariable) == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(specVariable)
	var s spec
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGUSR1)
	go func() { <-stop; cancel(errors.New("enough")) }()
	if _, err := Catch(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT); err != nil {
		panic(err)
	}
	c := Command{
		Path: s.Path, Args: s.Args, Env: os.Environ(), Dir: s.Dir, Input: s.Input,
		Stdout: os.Stdout, Stderr: os.Stderr, Timeout: s.Timeout, Grace: s.Grace, Orphans: s.Orphans,
		Orphaned: func(cronce.Result) { fmt.Println("orphaned") },
	}
	report := os.NewFile(3, "report")
	if s.OneStream {
		c.Stderr = os.Stdout
	}
	if s.Lock {
		c.Lock = os.NewFile(4, "lock")
	}
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	r := Run(ctx, c)
	json.NewEncoder(report).Encode(reported{r, r.Output})
	os.Exit(0)
}

// reported is a result with its output, which the record's JSON leaves out.
type reported struct {
	cronce.Result
	Tail []byte
}

// guardProcess is a guard that a test has started.
type guardProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	pipe   *os.File // of the command's output
	out    *bufio.Reader
	report chan reported
}

func startGuard(t *testing.T, s spec, lock *os.File) *guardProcess {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	report, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), specVariable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin = bytes.NewReader(text)
	cmd.ExtraFiles = []*os.File{theirs, lock}
	// An os.Pipe and not StdoutPipe: Wait must not close it under the reader.
	out, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = outW
	cmd.Stderr = os.Stderr
	if s.OneStream {
		cmd.Stderr = outW
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	theirs.Close()
	reports := make(chan reported, 1)
	go func() {
		defer close(reports)
		defer report.Close()
		var r reported
		if json.NewDecoder(report).Decode(&r) == nil {
			reports <- r
		}
	}()
	t.Cleanup(func() { out.Close() })
	return &guardProcess{t, cmd, out, bufio.NewReader(out), reports}
}

// line reads the next line that the command prints: an event to wait for.
func (g *guardProcess) line() string {
	g.t.Helper()
	line, err := g.out.ReadString('\n')
	if err != nil {
		g.t.Fatalf("the command's output ended at %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// expect reads a line that must be that.
func (g *guardProcess) expect(want string) {
	g.t.Helper()
	if got := g.line(); got != want {
		g.t.Fatalf("the command printed %q, want %q", got, want)
	}
}

func (g *guardProcess) signal(sig syscall.Signal) { g.cmd.Process.Signal(sig) }

// wait returns the guard's report when it has ended.
func (g *guardProcess) wait() cronce.Result {
	g.t.Helper()
	r, ok := <-g.report
	g.cmd.Wait()
	if !ok {
		g.t.Fatalf("the guard ended without a report: %v", g.cmd.ProcessState)
	}
	r.Result.Output = r.Tail
	return r.Result
}

// fifo makes a gate: a command that reads from it waits for release.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// release lets a command through its gate, as soon as it stands there.
func release(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// awaitEnd waits until a process that is no child of ours has ended.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	fd, _, errno := syscall.Syscall(434 /* pidfd_open */, uintptr(pid), 0, 0)
	if errno == syscall.ESRCH {
		return
	}
	if errno != 0 {
		t.Fatal(errno)
	}
	defer syscall.Close(int(fd))
	for ended := []pollFD{{fd: int32(fd), events: pollIn}}; ended[0].revents == 0; {
		poll(ended, -1)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sh(script string) spec { return spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}} }

func TestRun_Results(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(notExecutable, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec spec
		want cronce.Result
	}{
		{"success", sh("true"), cronce.Result{Outcome: cronce.Succeeded}},
		{"exit code", sh("exit 7"), cronce.Result{Outcome: cronce.Failed, ExitCode: 7, Message: "exit 7"}},
		{"signal", sh("kill -KILL $$"), cronce.Result{Outcome: cronce.Failed, ExitCode: 137, Signal: "SIGKILL", Message: "ended by SIGKILL"}},
		{"not there", spec{Path: "/nowhere/at/all"}, cronce.Result{Outcome: cronce.Failed, ExitCode: 127,
			Message: "cannot start /nowhere/at/all: no such file or directory"}},
		{"not executable", spec{Path: notExecutable}, cronce.Result{Outcome: cronce.Failed, ExitCode: 126,
			Message: "cannot start " + notExecutable + ": permission denied"}},
		{"folder gone", spec{Path: "/bin/true", Dir: "/nowhere"}, cronce.Result{Outcome: cronce.Failed, ExitCode: 126,
			Message: "cannot start /bin/true: its working directory: stat /nowhere: no such file or directory"}},
		{"too many arguments", spec{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", 1<<18)}}, cronce.Result{Outcome: cronce.Failed,
			ExitCode: 126, Message: "cannot start /bin/true: its arguments and environment are larger than the system allows"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := startGuard(t, c.spec, nil).wait()
			if got.Outcome != c.want.Outcome || got.ExitCode != c.want.ExitCode || got.Signal != c.want.Signal || got.Message != c.want.Message {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// What the command prints is passed on byte for byte, both streams in order
// where they are one, and the last part of it is kept.
func TestRun_Output(t *testing.T) {
	s := sh(`printf 'a\000b'; printf 'c\377' >&2; cat`)
	s.Input, s.OneStream = strings.Repeat("0123456789abcde\n", 3*TailBytes/16)+"the end", true
	g := startGuard(t, s, nil)
	out, err := io.ReadAll(g.out)
	if err != nil {
		t.Fatal(err)
	}
	r := g.wait()
	if want := "a\x00bc\xff" + s.Input; string(out) != want {
		t.Errorf("%d bytes were passed on, want %d", len(out), len(want))
	}
	if want := s.Input[len(s.Input)-TailBytes:]; string(r.Output) != want {
		t.Errorf("kept %d bytes that are not the last %d", len(r.Output), len(want))
	}
	if r.OutputBytes != int64(len(out)) {
		t.Errorf("counted %d bytes, want %d", r.OutputBytes, len(out))
	}
}

// A reader of the output that goes away neither stops the command nor changes
// how it ended.
func TestRun_OutputReaderGone(t *testing.T) {
	gate := fifo(t)
	g := startGuard(t, sh("echo one; read x <"+gate+"; echo two; exit 3"), nil)
	g.expect("one")
	g.pipe.Close()
	release(t, gate)
	r := g.wait()
	if r.ExitCode != 3 || string(r.Output) != "one\ntwo\n" {
		t.Errorf("exit %d, output %q", r.ExitCode, r.Output)
	}
}

// When the context ends, the command and all its descendants get TERM, and
// after the grace KILL: also those that left the group and the session.
func TestRun_Stop(t *testing.T) {
	for _, c := range []struct {
		name, script string
		grace        time.Duration
		exit         int
	}{
		{"obeys", `trap 'exit 5' TERM; echo $$; while :; do sleep 0.01; done`, time.Minute, 5},
		{"its children", `sh -c 'echo $$; exec sleep 1000' & wait`, time.Minute, 143},
		{"a session of its own", `setsid sh -c 'echo $$; exec sleep 1000' & wait`, time.Minute, 143},
		{"a daemon", `trap '' TERM; (setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' &); wait; while :; do sleep 0.01; done`, 20 * time.Millisecond, 137},
		{"does not obey", `trap '' TERM; echo $$; while :; do sleep 0.01; done`, 20 * time.Millisecond, 137},
		{"is stopped", `sh -c 'echo $$; kill -STOP $$' & wait`, time.Minute, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sh(c.script)
			s.Grace = c.grace
			g := startGuard(t, s, nil)
			pid := atoi(t, g.line())
			g.signal(syscall.SIGUSR1)
			r := g.wait()
			if r.Outcome != cronce.Cancelled || r.ExitCode != c.exit || r.Message != "enough" {
				t.Errorf("got %+v", r)
			}
			if syscall.Kill(pid, 0) == nil {
				t.Errorf("process %d lives on", pid)
			}
		})
	}
}

// The timeout ends the command, also when only what it left behind goes on,
// and also when the guard could not look at the clock when it passed.
func TestRun_Timeout(t *testing.T) {
	for _, c := range []struct {
		name, script string
		exit         int
	}{
		{"the command", `echo $$; exec sleep 1000`, 143},
		{"what it left", `setsid sh -c 'echo $$; exec sleep 1000' & exit 0`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sh(c.script)
			s.Timeout, s.Grace = 300*time.Millisecond, time.Minute
			g := startGuard(t, s, nil)
			r := g.wait()
			if r.Outcome != cronce.TimedOut || r.ExitCode != c.exit || r.Message != "longer than its timeout of 300ms" {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("guard was stopped", func(t *testing.T) {
		s := sh(`echo $$; exec sleep 1000`)
		s.Timeout = 300 * time.Millisecond
		g := startGuard(t, s, nil)
		pid := atoi(t, g.line())
		g.signal(syscall.SIGSTOP)
		<-time.After(2 * s.Timeout)
		if syscall.Kill(pid, 0) != nil {
			t.Fatal("the command was ended before the guard was stopped: nothing tested")
		}
		g.signal(syscall.SIGCONT)
		if r := g.wait(); r.Outcome != cronce.TimedOut {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRun_Orphans(t *testing.T) {
	gate := fifo(t)
	// The main command ends at once; a child in a session of its own goes on.
	script := fmt.Sprintf(`setsid sh -c 'echo $$; read x <%s; echo late' & read y <%[1]s.main; exit 4`, gate)
	if err := syscall.Mkfifo(gate+".main", 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(t *testing.T, o cronce.Orphans) (*guardProcess, int) {
		s := sh(script)
		s.Orphans = o
		g := startGuard(t, s, nil)
		child := atoi(t, g.line())
		release(t, gate+".main")
		return g, child
	}
	t.Run("wait", func(t *testing.T) {
		g, _ := start(t, cronce.OrphansWait)
		g.expect("orphaned")
		release(t, gate)
		g.expect("late")
		if r := g.wait(); r.Outcome != cronce.Failed || r.ExitCode != 4 || !strings.Contains(string(r.Output), "late") {
			t.Errorf("got %+v, output %q", r, r.Output)
		}
	})
	t.Run("kill", func(t *testing.T) {
		g, child := start(t, cronce.OrphansKill)
		g.expect("orphaned")
		if r := g.wait(); r.Outcome != cronce.Failed || r.ExitCode != 4 {
			t.Errorf("got %+v", r)
		}
		if syscall.Kill(child, 0) == nil {
			t.Error("the child lives on")
		}
	})
	t.Run("leave", func(t *testing.T) {
		g, child := start(t, cronce.OrphansLeave)
		if r := g.wait(); r.Outcome != cronce.Failed || r.ExitCode != 4 {
			t.Errorf("got %+v", r)
		}
		release(t, gate)
		g.expect("late") // its output is still open
		awaitEnd(t, child)
	})
}

// What the command's children leave behind is collected while the command goes
// on: a command that runs for weeks would use up the process table.
func TestRun_CollectsMeanwhile(t *testing.T) {
	gate := fifo(t)
	g := startGuard(t, sh(`sh -c 'sh -c "echo \$\$" &'; read x <`+gate), nil)
	left := atoi(t, g.line())
	for end := time.Now().Add(20 * time.Second); syscall.Kill(left, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d has ended and is still there", left)
		}
	}
	release(t, gate)
	if r := g.wait(); r.Outcome != cronce.Succeeded {
		t.Errorf("got %+v", r)
	}
}

// Signals are passed on, the exit code is the command's, and an end by it is
// no failure of the command.
func TestRun_Signals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(SignalName(sig), func(t *testing.T) {
			g := startGuard(t, sh(`trap 'exit 9' TERM INT HUP QUIT; echo up; while :; do sleep 0.01; done`), nil)
			g.expect("up")
			g.signal(sig)
			if r := g.wait(); r.Outcome != cronce.Cancelled || r.ExitCode != 9 || r.Message != "got "+SignalName(sig) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// After kill -9 of the guard the work goes on and keeps the lock, at a
// descriptor that scripts leave alone, until it ends.
func TestRun_GuardKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	gate := fifo(t)
	s := sh("exec 3>/dev/null 9>&1; echo $$; read x <" + gate + "; echo done")
	s.Lock = true
	g := startGuard(t, s, lock)
	lock.Close()
	child := atoi(t, g.line())
	g.signal(syscall.SIGKILL)
	g.cmd.Wait()

	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("the command runs and its lock can be taken: %v", err)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", child))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(fds, func(e os.DirEntry) bool { return e.Name() == strconv.Itoa(LockFD) }) {
		t.Errorf("the lock is not at descriptor %d: %v", LockFD, fds)
	}
	release(t, gate)
	awaitEnd(t, child)
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("the command has ended and its lock is held: %v", err)
	}
}

// Signals come in the order in which they were sent, also those that came
// before anybody waited, and who waits is told when there is no more need to.
func TestSignals(t *testing.T) {
	s, err := Catch(syscall.SIGUSR2, syscall.SIGWINCH)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for _, sig := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGUSR2, syscall.SIGWINCH} {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		if got := s.Wait(ctx, time.Minute); got != sig {
			t.Errorf("got %s, want %s", SignalName(got), SignalName(sig))
		}
	}
	syscall.Kill(os.Getpid(), syscall.SIGUSR2)
	got := syscall.Signal(0)
	for ; got == 0; got = s.Next() {
		s.poll(time.Minute)
	}
	if got != syscall.SIGUSR2 {
		t.Errorf("got %s before anybody waited, want SIGUSR2", SignalName(got))
	}
	if got := s.Wait(ctx, time.Millisecond); got != 0 {
		t.Errorf("got %s, and none was sent", SignalName(got))
	}
	go cancel()
	if got := s.Wait(ctx, -1); got != 0 {
		t.Errorf("got %s, and none was sent", SignalName(got))
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"yes": 0o755, "no": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	path := "/nowhere:" + dir
	if got, err := LookPath("yes", path); err != nil || got != dir+"/yes" {
		t.Errorf("yes: %q, %v", got, err)
	}
	if got, err := LookPath("sub/yes", path); err != nil || got != "sub/yes" {
		t.Errorf("sub/yes: %q, %v", got, err)
	}
	if _, err := LookPath("no", path); !errors.Is(err, os.ErrPermission) {
		t.Errorf("no: %v", err)
	}
	if _, err := LookPath("none", path); !errors.Is(err, ErrNotFound) {
		t.Errorf("none: %v", err)
	}
}

func TestTail(t *testing.T) {
	var all bytes.Buffer
	var kept Tail
	for _, n := range []int{0, 1, 1000, TailBytes - 1000, 7, TailBytes, 3*TailBytes + 5, 12345, TailBytes - 1, 1} {
		p := bytes.Repeat([]byte{byte(n), byte(n >> 8), 'x'}, n)[:n]
		all.Write(p)
		kept.Add(p)
		want := all.Bytes()[max(0, all.Len()-TailBytes):]
		got, total := kept.Bytes()
		if !bytes.Equal(got, want) {
			t.Fatalf("after %d bytes: kept %d bytes that are not the last %d", all.Len(), len(got), len(want))
		}
		if total != int64(all.Len()) {
			t.Fatalf("counted %d bytes, want %d", total, all.Len())
		}
	}
}
