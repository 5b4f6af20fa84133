package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
)

// borrower is a guard process that works under leases of a store that is lent to it.
type borrower struct {
	store *cronce.Store
	pid   int
	mark  string        // under serve: a variable that all it starts has, by which that is found when it was killed
	gone  chan struct{} // closed when the guard has ended

	mu    sync.Mutex
	held  cronce.Lease
	live  bool           // its end is not on record
	ended *cronce.Result // of its work, which has ended; nil: it goes on
}

// newBorrower returns the borrower that is that process, with the lease that it has, if
// it has one.
func newBorrower(store *cronce.Store, pid int, l cronce.Lease) *borrower {
	return &borrower{store: store, pid: pid, gone: make(chan struct{}), held: l, live: l.Run.ID != ""}
}

// serve lends the store to a guard until it has ended.
func (b *borrower) serve(conn *os.File, wait func() error) {
	lending := make(chan struct{})
	go func() {
		defer close(lending)
		handover.Lend(context.Background(), conn, b.store, b)
	}()
	go b.watch()
	wait()
	conn.Close()
	<-lending
	close(b.gone)
}

// Leased is of [handover.Listener], as are the next two. A renewal may be answered after
// the work has ended.
func (b *borrower) Leased(l cronce.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Run.ID != b.held.Run.ID {
		b.live, b.ended = true, nil
	}
	b.held = l
}

func (b *borrower) Ending(_ cronce.Lease, r cronce.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = &r
}

func (b *borrower) Ended(cronce.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = false
}

// works is the lease under which its work goes on, if there is one.
func (b *borrower) works() (l cronce.Lease, works bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.live && b.ended == nil
}

// unfinished is the lease whose end is not on record, if there is one, and how its run
// ended: the guard was killed.
func (b *borrower) unfinished() (l cronce.Lease, r cronce.Result, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return b.held, *b.ended, b.live
	}
	return b.held, cronce.Result{Outcome: cronce.Cancelled, ExitCode: cli.LeaseLost, Message: guardKilled}, b.live
}

// lookEvery is how often it is looked whether a guard keeps to its lease: timers stand
// still while the machine sleeps.
const lookEvery = time.Second

// watch ends all of it when its lease is about to end and it does not do so itself,
// because it was stopped.
func (b *borrower) watch() {
	for {
		wait := lookEvery
		if l, works := b.works(); works && l.TTL > 0 {
			last := l.EndAt() + (l.Sent+l.TTL-l.EndAt())/2
			left := last - cronce.SinceBoot()
			if left <= 0 {
				b.killAll()
			}
			wait = min(wait, max(left, 20*time.Millisecond))
		}
		timer := time.NewTimer(wait)
		select {
		case <-b.gone:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// killAll kills the guard and all that came of it.
func (b *borrower) killAll() {
	for _, pid := range guard.Descendants(b.pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	syscall.Kill(b.pid, syscall.SIGKILL)
}

// endAll kills all that a guard has left, which are now children of this process.
func (b *borrower) endAll() {
	for {
		left := guard.Descendants(os.Getpid())
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// bury deals with a guard of serve that was killed: it ends what that has left, which
// init has inherited, and says so.
func (b *borrower) bury(ctx context.Context) (cronce.Result, error) {
	<-b.gone
	l, r, unfinished := b.unfinished()
	if !unfinished {
		return cronce.Result{Outcome: cronce.Lost, Message: "its guard process was killed after its end was on record"}, nil
	}
	endTold(b.mark)
	return r, b.store.Conclude(context.WithoutCancel(ctx), l, r)
}

// guardKilled is how a run ended whose guard was killed.
const guardKilled = "its guard process was killed, and then what it had started"

// endTold kills the processes that were told this in their environment and still have it there, and those
// that these start meanwhile.
func endTold(variable string) {
	for {
		left := told(variable)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// told are the processes that have such a variable, NAME=VALUE.
func told(variable string) (pids []int) {
	mine := []byte(variable)
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, err := os.ReadFile(path)
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(kv []byte) bool { return bytes.Equal(kv, mine) }) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lastingThread carries out functions, all on one thread that never ends.
var lastingThread = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// onLastingThread carries out f on a thread that never ends: a process that gets a signal
// when its parent ends gets it when the thread ends that started it.
func onLastingThread(f func()) {
	done := make(chan struct{})
	lastingThread() <- func() { f(); close(done) }
	<-done
}
