package main

import (
	"errors"
	"fmt"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cronce/cronce/internal/cli"
)

// Exit codes of flock(1), after sysexits.h.
const (
	flockNoLock    = 65 // EX_DATAERR: not a thing that can be locked
	flockNoInput   = 66 // EX_NOINPUT: the file cannot be opened
	flockNoCommand = 69 // EX_UNAVAILABLE: the command cannot be started
	flockNoSystem  = 71 // EX_OSERR: too little memory, too many files or processes
	flockNoCreate  = 73 // EX_CANTCREAT: the file cannot be made
)

// errFlockConflict says that others have the lock.
var errFlockConflict = errors.New("locked")

func failFlock(code int, format string, args ...any) error {
	return &cli.ExitError{Code: code, Err: fmt.Errorf("flock: "+format, args...)}
}

// open opens the lock file as flock(1) does, but close-on-exec: the command
// gets a copy of its own.
func (c *flockCall) open(access int) (fd int, err error) {
	flags := access | syscall.O_NOCTTY | syscall.O_CLOEXEC
	err = uninterrupted(func() error {
		fd, err = syscall.Open(c.file, flags|syscall.O_CREAT, 0o666)
		if err == syscall.EISDIR {
			fd, err = syscall.Open(c.file, flags&^syscall.O_RDWR, 0)
		}
		return err
	})
	switch err {
	case nil:
		return fd, nil
	case syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return -1, failFlock(flockNoSystem, "cannot open %s: %w", c.file, err)
	case syscall.EROFS, syscall.ENOSPC:
		return -1, failFlock(flockNoCreate, "cannot make %s: %w", c.file, err)
	}
	return -1, failFlock(flockNoInput, "cannot open %s: %w", c.file, err)
}

// lock opens what is to be locked and locks it. errFlockConflict: others have
// it, and there was no time to wait longer.
func (c *flockCall) lock() (fd int, err error) {
	fd = c.fd
	if c.command != nil {
		if fd, err = c.open(syscall.O_RDONLY); err != nil {
			return fd, err
		}
	} else if !inherited(fd) {
		return fd, failFlock(flockNoLock, "%d: %w", fd, syscall.EBADF)
	}
	if c.badWait {
		return fd, failFlock(flockNoSystem, "there is no such time to wait: %w", syscall.EINVAL)
	}
	err = c.take(fd)
	if (err == syscall.EIO || err == syscall.EBADF) && c.command != nil && c.how != syscall.LOCK_SH && c.writable() {
		// NFS wants a file open for writing to lock it exclusively.
		syscall.Close(fd)
		if fd, err = c.open(syscall.O_RDWR); err != nil {
			return fd, err
		}
		err = c.take(fd)
	}
	switch err {
	case nil, errFlockConflict:
		return fd, err
	case syscall.ENOLCK, syscall.ENOMEM:
		return fd, failFlock(flockNoSystem, "%s: %w", c.what(), err)
	}
	return fd, failFlock(flockNoLock, "%s: %w", c.what(), err)
}

// what names what is to be locked.
func (c *flockCall) what() string {
	if c.command == nil {
		return fmt.Sprint(c.fd)
	}
	return c.file
}

func (c *flockCall) writable() bool {
	const readWrite = 4 | 2 // R_OK, W_OK
	return syscall.Access(c.file, readWrite) == nil
}

// take locks, or unlocks, the open file.
func (c *flockCall) take(fd int) error {
	if c.wait > 0 && !c.nonblock {
		return flockWithin(fd, c.how, c.wait)
	}
	how := c.how
	if c.nonblock || c.wait == 0 {
		how |= syscall.LOCK_NB
	}
	err := uninterrupted(func() error { return syscall.Flock(fd, how) })
	if err == syscall.EWOULDBLOCK {
		return errFlockConflict
	}
	return err
}

// flockWithin waits for the lock in the kernel's queue, so that its turn comes
// as that of every flock(1) does. When the time is over, the system call is
// interrupted; whether it had the lock by then, it says itself. So no lock is
// left on a descriptor that others have too.
func flockWithin(fd, how int, limit time.Duration) error {
	interruptible(syscall.SIGALRM)
	var over atomic.Bool
	thread := make(chan int, 1)
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- syscall.Gettid()
		for {
			err := syscall.Flock(fd, how)
			if err == syscall.EINTR && over.Load() {
				err = errFlockConflict
			}
			if err != syscall.EINTR {
				result <- err
				return
			}
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
	}
	over.Store(true)
	waiter := <-thread
	for {
		// Once more, where it came just before the system call.
		syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(waiter), uintptr(syscall.SIGALRM))
		select {
		case err := <-result:
			return err
		case <-time.After(time.Millisecond):
		}
	}
}

// interruptible lets the signal, which Go's runtime handles by doing nothing,
// end a system call: Go asks the kernel to begin such a call anew (SA_RESTART).
func interruptible(s syscall.Signal) {
	const restart = 0x10000000
	var action [8]uintptr // handler, flags, …: struct sigaction of the kernel
	if sigaction(s, nil, &action) {
		action[1] &^= restart
		sigaction(s, &action, nil)
	}
}

// dieOfSignals lets signals do to this process what they do to flock(1): end
// it at once, while its command goes on. Go's runtime would ignore some of
// them, and show its stacks at others.
func dieOfSignals() {
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
		syscall.SIGSTKFLT, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGVTALRM, syscall.SIGIO, syscall.SIGPWR,
	} {
		if !signal.Ignored(s) {
			sigaction(s, &[8]uintptr{}, nil)
		}
	}
}

// sigaction is rt_sigaction(2): set and get what becomes of a signal.
func sigaction(s syscall.Signal, set, get *[8]uintptr) bool {
	const setBytes = 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), setBytes, 0, 0)
	return errno == 0
}

// inherited tells whether a descriptor came to us from our parent. What Go's
// runtime opens for itself is close-on-exec, and so cannot have come.
func inherited(fd int) bool {
	flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
	return errno == 0 && flags&syscall.FD_CLOEXEC == 0
}

// uninterrupted calls f again for as long as a signal interrupts it.
func uninterrupted(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}
