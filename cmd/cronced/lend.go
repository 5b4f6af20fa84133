package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
)

// lend starts the thin program with the arguments and lends it the store that
// CRONCE_STORE names. For `cronce run` these are the two processes that watch each
// other: this one has the store and the thin one guards the command. If this one ends,
// the thin one hears it from the socket, and by a signal, and ends the command; if the
// thin one is killed, this one ends whatever it has left. It returns the exit code.
func lend(ctx context.Context, args []string, stderr io.Writer) int {
	timeout, err := time.ParseDuration(os.Getenv(cli.StoreTimeoutVariable))
	if err != nil {
		return cli.Fail(stderr, cli.Misuse("", "'lend' is started by cronce only"))
	}
	store, err := openShared(ctx, os.Getenv("CRONCE_STORE"), timeout)
	if err != nil {
		return cli.Fail(stderr, err)
	}
	defer store.Close()
	thin, err := openThin()
	if err != nil {
		return cli.Fail(stderr, err)
	}
	defer thin.file.Close()
	if err := guard.BecomeReaper(); err != nil {
		return cli.Fail(stderr, fmt.Errorf("cannot become the reaper of what is left: %w", err))
	}
	// What the thin program gets when this thread ends: it must be the last one.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)

	ours, theirs, err := socketPair()
	if err != nil {
		return cli.Fail(stderr, err)
	}
	cmd := exec.Command(thin.path)
	cmd.Args = append([]string{"cronce"}, args...)
	cmd.Env = append(os.Environ(), handover.StoreVariable+"=3")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	terminal := onTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !terminal, Pdeathsig: syscall.SIGTERM}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return cli.Fail(stderr, fmt.Errorf("cronce, beside this program, cannot be started: %w", err))
	}
	b := newBorrower(store, cmd.Process.Pid, cronce.Lease{})
	go func() {
		for {
			select {
			case sig := <-signals:
				// What a terminal sends it sends to both.
				if s := sig.(syscall.Signal); !terminal || s != syscall.SIGINT && s != syscall.SIGQUIT {
					cmd.Process.Signal(s)
				}
			case <-b.gone:
				return
			}
		}
	}()
	b.serve(ours, cmd.Wait)
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		return status.ExitStatus()
	}
	l, r, unfinished := b.unfinished()
	if !unfinished {
		return 128 + int(status.Signal())
	}
	b.endAll()
	fmt.Fprintf(stderr, "cronce: %s: run %s: its guard process was killed: what it had started was ended\n", l.Run.Job, l.Run.ID)
	if err := store.Conclude(ctx, l, r); err != nil {
		fmt.Fprintf(stderr, "cronce: %s: run %s: that is not on record: %v\n", l.Run.Job, l.Run.ID, err)
	}
	return cli.LeaseLost
}

// socketPair is two ends of a socket, of which children inherit none by themselves.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "lent"), os.NewFile(uintptr(fds[1]), "borrowed"), nil
}

// onTerminal reports whether a person may read or interrupt the command at a terminal.
func onTerminal() bool {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && hasTerminal() {
			return true
		}
	}
	return false
}
