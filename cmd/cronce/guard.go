package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
	"github.com/cronce/cronce/store/localstore"
)

// guardTask guards one run of a serve, which claimed it and gives the lease
// over. It is no command for people.
func guardTask(ctx context.Context) error {
	for _, fd := range []int{handover.LockFD, handover.OrdersFD, handover.ReportFD} {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, syscall.FD_CLOEXEC); errno != 0 {
			return cli.Misuse("", "'guard' is started by serve only")
		}
	}
	// serve starts this program by a descriptor, and its number would be the name
	// that ps and lslocks show.
	os.WriteFile("/proc/self/comm", []byte("cronce"), 0)
	orders := handover.NewOrders(os.NewFile(handover.OrdersFD, "orders"))
	report := os.NewFile(handover.ReportFD, "report")
	task, err := orders.Task()
	if err != nil {
		return fmt.Errorf("the task from serve: %w", err)
	}
	if task.Version != build.Version() {
		return handover.Tell(report, cronce.Result{}, fmt.Errorf(
			"serve is cronce %s and its guard is %s: install both from one release, then start serve anew", task.Version, build.Version()))
	}
	store, gone, err := guardStore(task)
	if err != nil {
		return handover.Tell(report, cronce.Result{}, err)
	}
	defer store.Close()
	handover.TellBegun(report) // serve may have gone
	l, err := takeOver(ctx, store, task)
	if err != nil {
		return handover.Tell(report, cronce.Result{}, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if stop, ok := orders.Stop(); ok {
			cancel(errors.New(stop.Why))
		}
	}()
	out, rest := os.Stdout, func() {}
	if task.Job.Orphans == cronce.OrphansLeave {
		if out, rest, err = drain(os.Stdout); err != nil {
			return handover.Tell(report, cronce.Result{}, err)
		}
	}
	var lock machineLock
	if task.Shared {
		lock, _, _ = openMachineLock(task.Store) // serve has said it, if there is none
	}
	w := work{
		gone: gone, lock: lock, job: task.Job, warning: task.Warning, say: newSay(os.Stderr, "text", slog.LevelWarn),
		command: guard.Command{
			Path: string(task.Path), Args: handover.Strings(task.Args), Env: handover.Strings(task.Env), Dir: string(task.Dir),
			Input: string(task.Input), Stdout: out, Stderr: out,
		},
	}
	signals, err := guard.Catch(forwarded...)
	if err != nil {
		return handover.Tell(report, cronce.Result{}, err)
	}
	r, err := w.underLease(ctx, store, l, signals)
	err = handover.Tell(report, r, err)
	rest()
	return err
}

// guardStore opens the store of a task. gone is closed when the process has ended that
// lends a shared one.
func guardStore(task handover.Task) (s *cronce.Store, gone <-chan struct{}, err error) {
	if !task.Shared {
		s, err = localstore.Open(localstore.Options{Dir: task.Store})
		return s, nil, err
	}
	b, err := borrow(handover.StoreFD)
	if err != nil {
		return nil, nil, err
	}
	return cronce.NewStore(b), b.Gone(), nil
}

// takeOver makes this process the holder of a task's lease.
func takeOver(ctx context.Context, store *cronce.Store, task handover.Task) (cronce.Lease, error) {
	l := task.Lease
	l.Run.Holder = cronce.ThisProcess("serve")
	l.Run.Holder.Guard = true
	if !task.Shared {
		l.Lock = os.NewFile(handover.LockFD, "lock")
		return store.Renew(ctx, l)
	}
	patient, done := context.WithTimeout(ctx, l.TTL/6)
	defer done()
	renewed, err := store.Renew(patient, l)
	switch {
	case err == nil:
		return renewed, nil
	case errors.Is(err, cronce.ErrLost):
		return l, err
	case cronce.SinceBoot() >= l.StopAt():
		return l, fmt.Errorf("too little is left of the lease: %w", err)
	}
	return l, nil // it is ours all the same, and will be renewed
}

// drain returns a pipe that is passed on to a file for as long as anything
// writes to it, whether or not somebody still reads the file: what a run leaves
// behind must not find its output closed when serve ends. rest waits for that.
func drain(to *os.File) (w *os.File, rest func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(to, r); err != nil {
			io.Copy(io.Discard, r)
		}
	}()
	return w, func() { w.Close(); <-done }, nil
}
