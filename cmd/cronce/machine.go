package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// machineLock is where a run under a shared store has this machine's lock of its job.
// Should all die who watch over the run, what is left of it keeps the lock.
type machineLock struct {
	machine *localstore.Machine // nil: there is no place for it, and no lock
	store   string              // its URL, without secrets
}

// openMachineLock finds the place. Where none can be made, runs go without the lock, but a
// place that somebody named is one that can be used.
func openMachineLock(store string) (k machineLock, missing, err error) {
	k.store = cli.WithoutSecrets(store)
	named := os.Getenv(cli.LocalStoreVariable)
	k.machine, err = localstore.OpenMachine(named)
	if err != nil && named == "" {
		return k, fmt.Errorf("goes without a lock of this machine: %w", err), nil
	}
	return k, nil, err
}

const (
	settles  = 2 * time.Second        // how long a process may take to go that is ending just now
	tryOften = 100 * time.Millisecond // how often the lock is tried meanwhile,
	tryAgain = time.Second            // and afterwards
)

// take takes the lock for a run that has the lease, and reports whether the command is to
// be started. Where something keeps it that an earlier run has left here, the run waits
// for that as long as its job waits for others. Then it is not started any more, but
// it keeps the lease until that has ended: no other host is to start the job beside it.
func (w *work) take(ctx context.Context, store *cronce.Store, l cronce.Lease, signals *guard.Signals) (r cronce.Result, start bool) {
	k := w.lock
	if k.machine == nil || w.job.Overlap.Policy == cronce.OverlapAllow {
		return r, true
	}
	var left string // once it is said
	for began := cronce.SinceBoot(); ; {
		lock, err := k.machine.Lock(k.store, l.Run.Job)
		held := errors.Is(err, localstore.ErrMachineHeld)
		switch {
		case held || err != nil && left != "":
		case err != nil:
			w.say.Warn("goes without a lock of this machine: "+err.Error(), "job", l.Run.Job)
			return r, true
		case left == "":
			w.command.Lock = lock
			return r, true
		default:
			k.machine.Unlock(lock, true)
			return notStarted("it had to wait for its end", left), false
		}
		wait := tryOften
		if left != "" {
			wait = tryAgain
		} else if cronce.SinceBoot()-began >= max(settles, w.job.Overlap.Wait) {
			left = k.left(l.Run.Job)
			w.say.Warn(fmt.Sprintf("not started: %s: the job is held until that has ended", left), "job", l.Run.Job, "run", l.Run.ID)
			orphaned := l
			orphaned.Orphaned = true
			store.Renew(ctx, orphaned) // only the reason given for a skip depends on it
		}
		sig := signals.Wait(ctx, wait)
		switch {
		case sig != 0:
			r = notStarted("got "+guard.SignalName(sig), left)
			r.ExitCode = 128 + int(sig)
			return r, false
		case ctx.Err() != nil:
			return notStarted(context.Cause(ctx).Error(), left), false
		}
	}
}

// notStarted is the result of a run that was not started because of what was left here.
func notStarted(why, left string) cronce.Result {
	if left != "" {
		why += ": not started: " + left
	}
	return cronce.Result{Outcome: cronce.Cancelled, ExitCode: cli.TempFail, Message: why}
}

// left names the processes that keep the lock.
func (k machineLock) left(job string) string {
	var names []string
	for _, pid := range k.machine.Holders(k.store, job) {
		if len(names) == 3 {
			names = append(names, "more")
			break
		}
		names = append(names, fmt.Sprintf("pid %d (%s)", pid, comm(pid)))
	}
	if len(names) == 0 {
		names = []string{"a process that this user may not look into"}
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s%s: %s", cli.LeftBehind, host, strings.Join(names, ", "))
}
