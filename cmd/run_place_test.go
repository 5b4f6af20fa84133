package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
)

// place is where a test has its store, files and gates.
type place struct {
	t          *testing.T
	dir, store string
}

func newPlace(t *testing.T) *place {
	dir := t.TempDir()
	return &place{t, dir, filepath.Join(dir, "store")}
}

// gate makes a fifo: a command that reads from it waits until it is opened.
func (p *place) gate(name string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// open lets a command through its gate, as soon as it stands there.
func (p *place) open(gate string) {
	p.t.Helper()
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		p.t.Fatal(err)
	}
}

// hear waits until the run says a line into a fifo, and returns that.
func (r *cronceRun) hear(fifo string) string {
	r.t.Helper()
	// Open for writing too: a fifo that has no writer yet is not at its end.
	f, err := os.OpenFile(fifo, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	heard := make(chan struct{})
	defer close(heard)
	go func() {
		select {
		case <-r.done:
			f.SetReadDeadline(time.Now())
		case <-heard:
		}
	}()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		r.t.Fatalf("it ended unheard: %q", r.said())
	}
	return strings.TrimSpace(line)
}

// tick names the tick of a minute long past.
func tick(minute int) string {
	return "--tick=" + cronce.Stamp(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
}

// cronceRun is a `cronce run` that goes on.
type cronceRun struct {
	t    *testing.T
	cmd  *exec.Cmd
	pipe *os.File // of its output
	out  *bufio.Reader
	mu   sync.Mutex
	errs string        // its stderr so far
	more chan struct{} // closed and renewed with each piece of it
	done chan struct{} // closed at its end
	shut chan struct{} // closed when nobody has its stderr open
}

// start starts `cronce run` with these arguments.
func (p *place) start(args ...string) *cronceRun {
	p.t.Helper()
	return p.startCommand(exec.Command(filepath.Join(bin, "cronce"), append([]string{"run"}, args...)...))
}

// shell starts a script in which $RUN is a cronce run.
func (p *place) shell(script string, args ...string) *cronceRun {
	p.t.Helper()
	return p.startCommand(exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...))
}

func (p *place) startCommand(cmd *exec.Cmd) *cronceRun {
	p.t.Helper()
	r, err := p.tryCommand(cmd, func() {})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// tryCommand starts a command with the environment of the tests, after change.
func (p *place) tryCommand(cmd *exec.Cmd, change func()) (*cronceRun, error) {
	p.t.Helper()
	cmd.Env = append(os.Environ(), "TZ=UTC", "CRONCE_STORE="+p.store, "RUN="+filepath.Join(bin, "cronce")+" run")
	cmd.Dir = p.dir
	// A session of its own: whether a person sits at the test must not matter.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Pipes of our own: those of package exec are closed under the reader.
	out, outW := pipe(p.t)
	errs, errsW := pipe(p.t)
	cmd.Stdout, cmd.Stderr = outW, errsW
	change()
	err := cmd.Start()
	outW.Close()
	errsW.Close()
	if err != nil {
		out.Close()
		errs.Close()
		return nil, err
	}
	r := &cronceRun{t: p.t, cmd: cmd, pipe: out, out: bufio.NewReader(out), more: make(chan struct{}), done: make(chan struct{}), shut: make(chan struct{})}
	go func() {
		defer close(r.shut)
		for buf := make([]byte, 4096); ; {
			n, err := errs.Read(buf)
			r.mu.Lock()
			r.errs += string(buf[:n])
			close(r.more)
			r.more = make(chan struct{})
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		cmd.Wait()
		close(r.done)
	}()
	p.t.Cleanup(func() {
		for _, pid := range guard.Descendants(cmd.Process.Pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		cmd.Process.Kill()
		<-r.done
		out.Close()
		errs.Close()
		<-r.shut
	})
	return r, nil
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// line reads the next line of its output: an event to wait for.
func (r *cronceRun) line() string {
	r.t.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		r.t.Fatalf("the output ended at %q: %v\n%s", line, err, r.said())
	}
	return strings.TrimSpace(line)
}

// pid reads a line that is a process's id.
func (r *cronceRun) pid() int {
	r.t.Helper()
	pid, err := strconv.Atoi(r.line())
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func (r *cronceRun) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs
}

// await waits until it has said something on stderr.
func (r *cronceRun) await(text string) {
	r.t.Helper()
	for {
		r.mu.Lock()
		has, more := strings.Contains(r.errs, text), r.more
		r.mu.Unlock()
		if has {
			return
		}
		select {
		case <-more:
		case <-r.shut:
			if !strings.Contains(r.said(), text) {
				r.t.Fatalf("it ended without saying %q: %q", text, r.said())
			}
		}
	}
}

func (r *cronceRun) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// endAllThatName kills every process with that word in its arguments: what a
// serve that was killed has left behind has no parent of ours.
func endAllThatName(t *testing.T, word string) {
	t.Helper()
	for _, pid := range guard.Descendants(1) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if pid != os.Getpid() && strings.Contains(string(args), word) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
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
	poll := struct {
		fd              int32
		events, revents int16
	}{int32(fd), 1 /* POLLIN */, 0}
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_POLL, uintptr(unsafe.Pointer(&poll)), 1, ^uintptr(0))
		if errno == 0 && n == 1 {
			return
		}
	}
}

// awaitCollected waits until a process has ended and its parent knows it. Of
// the latter there is no event to wait for.
func awaitCollected(t *testing.T, pid int) {
	t.Helper()
	for awaitEnd(t, pid); syscall.Kill(pid, 0) == nil; {
		time.Sleep(time.Millisecond)
	}
}

// ended is how a `cronce run` ended.
type ended struct {
	code     int
	out, err string
}

// wait returns how it ended, and what was not read of its output.
func (r *cronceRun) wait() ended {
	r.t.Helper()
	out, err := io.ReadAll(r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	<-r.shut
	<-r.done
	code := r.cmd.ProcessState.ExitCode()
	if w := r.cmd.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() {
		code = -int(w.Signal())
	}
	return ended{code, string(out), r.said()}
}

// run is start and wait.
func (p *place) run(args ...string) ended { p.t.Helper(); return p.start(args...).wait() }

// want fails the test unless it ended so, with all the words on stderr.
func (e ended) want(t *testing.T, code int, out string, words ...string) {
	t.Helper()
	if e.code != code || e.out != out || !hasAll(e.err, words) || len(words) == 0 && e.err != "" {
		t.Errorf("exit %d, stdout %q, stderr %q\nwant %d, %q, %q", e.code, e.out, e.err, code, out, words)
	}
}

// oneLine fails the test unless cronce said exactly one line.
func (e ended) oneLine(t *testing.T) {
	t.Helper()
	if strings.Count(e.err, "\n") != 1 || !strings.HasPrefix(e.err, "cronce: ") {
		t.Errorf("not one line of cronce's: %q", e.err)
	}
}

// last is the newest record.
func (p *place) last() cronce.Run {
	p.t.Helper()
	runs := runsOf(p.t, p.store)
	return runs[len(runs)-1]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
