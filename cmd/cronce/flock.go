package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
)

const helpFlock = `usage: cronce flock [OPTION]... FILE|FOLDER COMMAND [ARG]...
       cronce flock [OPTION]... FILE|FOLDER -c 'COMMAND'
       cronce flock [OPTION]... DESCRIPTOR

Does what flock(1) does, with the same arguments, exit codes and lock: it
excludes flock(1) on the same file and is excluded by it. What it runs, it puts
on record as the job flock:FILE (see 'cronce runs'), as well as it can: a store
that cannot be used changes nothing.

  -n, --nb, --nonblock     give up at once if others have the lock
  -w, --wait, --timeout S  give up after S seconds, as 10 or 0.5
  -E, --conflict-exit-code N  exit code when it gives up (default: 1)
  -x, -e, --exclusive      an exclusive lock (the default)
  -s, --shared             a shared lock
  -u, --unlock             give the lock up
  -o, --close              COMMAND does not inherit the lock
  -F, --no-fork            become COMMAND; only its start is on record
  -c, --command            behind FILE: run by SHELL
      --verbose            how long the lock took, or why not; and why there is no record
  -h, --help; -V, --version
`

// flock is `cronce flock`: it returns the exit code.
func flock(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &flockOutput{w: stdout}
	code, err := runFlock(ctx, args, out, stderr)
	if err != nil {
		code = cli.Fail(stderr, err)
	}
	if out.err != nil {
		fmt.Fprintf(stderr, "cronce: flock: its own output: %v\n", out.err)
		return cli.Failure
	}
	return code
}

// flockOutput is written to, and asked only at the end whether that worked:
// what it says of itself must not keep the command from being run.
type flockOutput struct {
	w   io.Writer
	err error
}

func (o *flockOutput) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(o.w, format, args...); err != nil {
		o.err = err
	}
}

func runFlock(ctx context.Context, args []string, out *flockOutput, stderr io.Writer) (code int, err error) {
	c, err := readFlock(args)
	switch {
	case err != nil:
		return 0, err
	case c.show == 'h':
		out.printf("%s", helpFlock)
		return cli.OK, nil
	case c.show == 'V':
		out.printf("cronce %s\n", build.Version())
		return cli.OK, nil
	}
	dieOfSignals()
	note := func(err error) {}
	if c.verbose {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a reader that goes away does not end us
		note = func(err error) {
			if err != nil {
				fmt.Fprintf(stderr, "cronce: flock: not on record: %v\n", err)
			}
		}
	}
	began := time.Now()
	fd, err := c.lock()
	switch {
	case err == errFlockConflict:
		return c.conflict(ctx, fd, stderr, note), nil
	case err != nil:
		return 0, err
	}
	if c.verbose {
		out.printf("flock: getting lock took %.6f seconds\n", time.Since(began).Seconds())
	}
	if c.command == nil {
		return cli.OK, nil
	}
	if c.verbose {
		out.printf("flock: executing %s\n", c.command[0])
	}
	if c.how == syscall.LOCK_UN {
		return c.run(fd, nil, func(cronce.Result) {})
	}
	r := startRecord(ctx, flockJob(fd, c.file))
	note(r.wait())
	return c.run(fd, r.lock(), func(result cronce.Result) { note(r.end(ctx, result)) })
}

// conflict is the end of a call that did not get the lock.
func (c *flockCall) conflict(ctx context.Context, fd int, stderr io.Writer, note func(error)) (code int) {
	line := c.what() + " is locked"
	if c.command != nil {
		why, err := recordConflict(ctx, flockJob(fd, c.file), c.conflictExit)
		note(err)
		if why != "" {
			line += ": " + why
		}
	}
	if c.verbose {
		fmt.Fprintf(stderr, "cronce: flock: %s\n", line)
	}
	return c.conflictExit
}

// run runs the command under the lock, with the run's own lock if there is
// one, and tells how it ended. It waits for nothing that the command leaves
// behind.
func (c *flockCall) run(fd int, runLock *os.File, ended func(cronce.Result)) (code int, err error) {
	pid, err := c.start(fd, runLock)
	if err != nil {
		syscall.Flock(fd, syscall.LOCK_UN) // nobody has a copy of it
		ended(cronce.Result{Outcome: cronce.Failed, ExitCode: cli.Code(err), Message: strings.TrimPrefix(err.Error(), "flock: ")})
		return 0, err
	}
	var status syscall.WaitStatus
	if err := uninterrupted(func() error { _, err := syscall.Wait4(pid, &status, 0, nil); return err }); err != nil {
		return 0, fmt.Errorf("flock: waiting for %s: %w", c.command[0], err)
	}
	// First of all, so that the next one need not wait for our record.
	syscall.Close(fd)
	result := guard.EndOf(status)
	ended(result)
	return result.ExitCode, nil
}

// start starts the command, which inherits the locks; or becomes it.
func (c *flockCall) start(fd int, runLock *os.File) (pid int, err error) {
	path, err := guard.LookPath(c.command[0], flockPath())
	if err != nil {
		return 0, failFlock(flockNoCommand, "cannot start %s: %w", c.command[0], err)
	}
	files := []uintptr{0, 1, 2}
	if !c.close {
		// At the number at which flock(1) would have opened it.
		for n := len(files); inherited(n); n++ {
			files = append(files, uintptr(n))
		}
		files = append(files, uintptr(fd))
		if copied := inheritable(runLock); copied >= 0 {
			defer syscall.Close(copied)
		}
	}
	execute := func(path string, args []string) error {
		if !c.noFork {
			pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: files})
			return err
		}
		if err := inheritAs(fd, len(files)-1); err != nil {
			return err
		}
		return syscall.Exec(path, args, os.Environ())
	}
	err = execute(path, c.command)
	if err == syscall.ENOEXEC {
		// A script that does not say what reads it.
		err = execute("/bin/sh", append([]string{"/bin/sh", path}, c.command[1:]...))
	}
	switch err {
	case nil:
		return pid, nil
	case syscall.EAGAIN, syscall.ENOMEM:
		return 0, failFlock(flockNoSystem, "cannot start %s: %w", c.command[0], err)
	}
	return 0, failFlock(flockNoCommand, "cannot start %s: %w", c.command[0], err)
}

// flockPath is where execvp(3) looks for a command.
func flockPath() string {
	path, set := os.LookupEnv("PATH")
	switch {
	case !set:
		return "/bin:/usr/bin"
	case path == "":
		return ":" // the working folder
	}
	return path
}

// inheritable copies the file to a high descriptor that the command inherits,
// as under every guard, or returns -1.
func inheritable(f *os.File) int {
	if f == nil {
		return -1
	}
	for _, least := range []uintptr{guard.LockFD, 10} { // 10: where few files may be open
		if fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD, least); errno == 0 {
			return int(fd)
		}
	}
	return -1
}

// inheritAs makes the descriptor one that is inherited, at that number.
func inheritAs(fd, number int) error {
	if fd != number {
		return syscall.Dup3(fd, number, 0)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, 0); errno != 0 {
		return errno
	}
	return nil
}
