package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
	store, err := localstore.Open(localstore.Options{Dir: task.Store})
	if err != nil {
		return handover.Tell(report, cronce.Result{}, err)
	}
	defer store.Close()
	l := task.Lease
	l.Lock = os.NewFile(handover.LockFD, "lock")
	l.Run.Holder = cronce.ThisProcess("serve")
	if l, err = store.Renew(ctx, l); err != nil {
		return handover.Tell(report, cronce.Result{}, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if stop, ok := orders.Stop(); ok {
			cancel(errors.New(stop.Why))
		}
	}()
	r, err := seeThrough(ctx, store, l, guard.Command{
		Path: task.Path, Args: task.Args, Env: append(task.Env, guard.Environment(l, task.Timeout)...), Dir: task.Dir,
		Input: task.Input, Stdout: os.Stdout, Stderr: os.Stderr,
		Lock: l.Lock, Timeout: task.Timeout, Grace: task.Grace, Orphans: task.Orphans,
	})
	return handover.Tell(report, r, err)
}

// seeThrough guards the command while it holds the lease, and finishes it.
func seeThrough(ctx context.Context, store *cronce.Store, l cronce.Lease, c guard.Command) (cronce.Result, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	c.Signals = signals
	l.FreeLock = c.Orphans == cronce.OrphansLeave
	c.Orphaned = func() {
		orphaned := l
		orphaned.Orphaned = true
		// Only the reason of a skip depends on it.
		store.Renew(ctx, orphaned)
	}
	return store.Hold(ctx, l, 0, func(ctx context.Context) cronce.Result { return guard.Run(ctx, c) })
}
