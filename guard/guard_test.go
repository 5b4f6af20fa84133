package guard

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

func sh(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()}
}

func TestRun_Results(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(notExecutable, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		command Command
		want    cronce.Result
	}{
		{"success", sh("true"), cronce.Result{Outcome: cronce.Succeeded}},
		{"exit code", sh("exit 7"), cronce.Result{Outcome: cronce.Failed, ExitCode: 7, Message: "exit 7"}},
		{"signal", sh("kill -KILL $$"), cronce.Result{Outcome: cronce.Failed, ExitCode: 137, Signal: "SIGKILL", Message: "ended by SIGKILL"}},
		{"not there", Command{Path: "/nowhere/at/all"}, cronce.Result{Outcome: cronce.Failed, ExitCode: 127,
			Message: "cannot start /nowhere/at/all: fork/exec /nowhere/at/all: no such file or directory"}},
		{"not executable", Command{Path: notExecutable}, cronce.Result{Outcome: cronce.Failed, ExitCode: 126,
			Message: "cannot start " + notExecutable + ": fork/exec " + notExecutable + ": permission denied"}},
		{"folder gone", Command{Path: "/bin/true", Dir: "/nowhere"}, cronce.Result{Outcome: cronce.Failed, ExitCode: 126,
			Message: "cannot start /bin/true: working directory: stat /nowhere: no such file or directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Run(t.Context(), c.command)
			if len(got.Output) != 0 {
				t.Errorf("output %q", got.Output)
			}
			got.Output = nil
			if got.Outcome != c.want.Outcome || got.ExitCode != c.want.ExitCode || got.Signal != c.want.Signal || got.Message != c.want.Message {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// What the command prints is passed on byte for byte, both streams in order,
// and the last part of it is kept.
func TestRun_Output(t *testing.T) {
	var out bytes.Buffer
	c := sh(`printf 'a\000b'; printf 'c\377' >&2; cat`)
	big := strings.Repeat("0123456789abcdef", 3*TailBytes/16) + "the end"
	c.Stdin, c.Output = strings.NewReader(big), &out
	r := Run(t.Context(), c)
	if want := "a\x00bc\xff" + big; out.String() != want {
		t.Errorf("%d bytes were passed on, want %d", out.Len(), len(want))
	}
	if want := big[len(big)-TailBytes:]; string(r.Output) != want {
		t.Errorf("kept %d bytes that are not the last %d", len(r.Output), len(want))
	}
	if r.OutputBytes != int64(out.Len()) {
		t.Errorf("counted %d bytes, want %d", r.OutputBytes, out.Len())
	}
}

// A reader of the output that goes away neither stops the command nor changes
// how it ended.
func TestRun_OutputReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	c := sh("echo one; echo two; exit 3")
	c.Output = w
	got := Run(t.Context(), c)
	if got.ExitCode != 3 || string(got.Output) != "one\ntwo\n" {
		t.Errorf("exit %d, output %q", got.ExitCode, got.Output)
	}
}

// firstWrite closes started at the first byte of output: the command is up.
type firstWrite struct {
	once    sync.Once
	started chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.started) })
	return len(p), nil
}

// When the context ends the whole group gets TERM, and after the grace KILL.
func TestRun_Stop(t *testing.T) {
	cause := errors.New("enough")
	for _, c := range []struct {
		name, script string
		grace        time.Duration
		exit         int
	}{
		{"obeys", `trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done`, time.Minute, 5},
		{"its children too", `sh -c 'echo up; exec sleep 1000' & wait`, time.Minute, 143},
		{"does not obey", `trap '' TERM; echo up; while :; do sleep 0.01; done`, 20 * time.Millisecond, 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			up := &firstWrite{started: make(chan struct{})}
			command := sh(c.script)
			command.Output, command.Grace = up, c.grace
			go func() { <-up.started; cancel(cause) }()
			r := Run(ctx, command)
			if r.Outcome != "" || r.ExitCode != c.exit || r.Message != "enough" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// The command inherits the lock at a descriptor that scripts leave alone, and
// keeps it when the guard's own copy is closed.
func TestRun_LockIsInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	up := &firstWrite{started: make(chan struct{})}
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := sh("exec 3>/dev/null 9>&1; echo up; read x")
	c.Lock, c.Output, c.Stdin = lock, up, in
	done := make(chan cronce.Result)
	go func() { done <- Run(t.Context(), c) }()
	<-up.started
	lock.Close()

	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("the command runs and its lock can be taken: %v", err)
	}
	feed.Close()
	<-done
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("the command has ended and its lock is held: %v", err)
	}
}
