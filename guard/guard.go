// Package guard watches over one run's command: it starts it in a process
// group of its own, passes its output on while keeping the last part of it,
// and ends it when its context ends. It never decides whether to run.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// TailBytes is how much of a command's output is kept for the record.
const TailBytes = 64 << 10

// lockFD is the number at which the command inherits the job's lock: above
// what shell scripts use for their own redirections, below the usual limit.
const lockFD = 198

// Command is a command to guard.
type Command struct {
	Path   string   // where it is; looked up in PATH if it has no slash
	Args   []string // its arguments, without its name
	Env    []string // its whole environment, as os.Environ
	Dir    string   // empty: the guard's own
	Stdin  io.Reader
	Output io.Writer     // gets its stdout and stderr, in order; nil: nobody
	Grace  time.Duration // between TERM and KILL; 0: cronce.DefaultGrace
	Lock   *os.File      // inherited by the command, so that the job stays locked while it lives; may be nil

	// Started, if set, is told the command's process id.
	Started func(pid int)
}

// Run starts the command and waits until it has ended and nothing has its
// output open any more. When ctx ends, the command's process group gets TERM
// and, when the grace is over, KILL. The outcome is left empty where ctx
// ended the command: the caller knows why.
func Run(ctx context.Context, c Command) cronce.Result {
	tail := &tail{pass: c.Output}
	// No os/exec context: it would kill the child alone, not its group.
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.Stdin = c.Env, c.Dir, c.Stdin
	cmd.Stdout, cmd.Stderr = tail, tail
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.Lock != nil {
		cmd.ExtraFiles = make([]*os.File, inheritAt()-2)
		cmd.ExtraFiles[len(cmd.ExtraFiles)-1] = c.Lock
	}
	if err := cmd.Start(); err != nil {
		return cannotStart(c, err)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stopGroup(ctx, cmd.Process.Pid, c.Grace, ended)
	}()
	err := cmd.Wait()
	close(ended)
	<-stopped

	r := cronce.Result{Output: tail.bytes(), OutputBytes: tail.total}
	describeEnd(&r, cmd.ProcessState, err)
	if r.Outcome == cronce.Failed && ctx.Err() != nil {
		r.Outcome, r.Message = "", context.Cause(ctx).Error()
	}
	return r
}

// stopGroup waits for the end of the command or of ctx; then it ends the group.
func stopGroup(ctx context.Context, pid int, grace time.Duration, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	if grace == 0 {
		grace = cronce.DefaultGrace
	}
	syscall.Kill(-pid, syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// inheritAt is the descriptor number for the lock: lockFD, or the highest that
// a lower limit on open files allows.
func inheritAt() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur <= lockFD {
		return int(limit.Cur) - 1
	}
	return lockFD
}

// describeEnd fills in how the command ended.
func describeEnd(r *cronce.Result, state *os.ProcessState, err error) {
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		r.Outcome = cronce.Failed
		r.Signal = signalName(status.Signal())
		r.ExitCode = 128 + int(status.Signal())
		r.Message = "ended by " + r.Signal
	case status.ExitStatus() != 0:
		r.Outcome = cronce.Failed
		r.ExitCode = status.ExitStatus()
		r.Message = fmt.Sprintf("exit %d", r.ExitCode)
	default:
		r.Outcome = cronce.Succeeded
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			// The command succeeded; only its output could not be passed on.
			r.Message = err.Error()
		}
	}
}

// cannotStart is the result of a command that never ran, with a shell's exit
// codes: 127 where there is none, 126 where it is not executable.
func cannotStart(c Command, err error) cronce.Result {
	r := cronce.Result{Outcome: cronce.Failed, ExitCode: 126}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		r.ExitCode = 127
	}
	if c.Dir != "" {
		if _, dirErr := os.Stat(c.Dir); dirErr != nil {
			err = fmt.Errorf("working directory: %w", dirErr)
			r.ExitCode = 126
		}
	}
	r.Message = fmt.Sprintf("cannot start %s: %v", c.Path, err)
	return r
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGABRT: "SIGABRT", syscall.SIGALRM: "SIGALRM", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
	syscall.SIGHUP: "SIGHUP", syscall.SIGILL: "SIGILL", syscall.SIGINT: "SIGINT", syscall.SIGKILL: "SIGKILL",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGQUIT: "SIGQUIT", syscall.SIGSEGV: "SIGSEGV", syscall.SIGSYS: "SIGSYS",
	syscall.SIGTERM: "SIGTERM", syscall.SIGTRAP: "SIGTRAP", syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGXCPU: "SIGXCPU", syscall.SIGXFSZ: "SIGXFSZ",
}

func signalName(s syscall.Signal) string {
	if name, ok := signalNames[s]; ok {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
