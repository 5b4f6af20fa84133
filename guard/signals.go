package guard

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Signals are the signals that this process has got, in order, as bytes in a
// pipe: who waits for a command, its output and a signal waits for descriptors
// only. A byte that is none of the signals caught wakes up: a child has ended,
// or what another goroutine does.
type Signals struct{ read, write int }

// bell is the pipe that the handler of signals writes to.
var bell atomic.Int64

// theirs makes the pipe, once in a process.
var theirs = sync.OnceValues(func() (*Signals, error) {
	var fd [2]int
	if err := syscall.Pipe2(fd[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	bell.Store(int64(fd[1]))
	handle(syscall.SIGCHLD)
	return &Signals{fd[0], fd[1]}, nil
})

// Catch catches signals from now on. One that is ignored, as HUP under nohup(1),
// stays so, here and in commands.
//
// Package os/signal would do, but takes two threads and some dozen switches
// between them, which is as long as a command may take.
func Catch(signals ...syscall.Signal) (*Signals, error) {
	s, err := theirs()
	if err != nil {
		return nil, err
	}
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			handle(sig)
		}
	}
	return s, nil
}

// ring wakes who waits.
func (s *Signals) ring() { syscall.Write(s.write, []byte{0}) }

// Next returns a signal that has come, 0 if there is none.
func (s *Signals) Next() syscall.Signal {
	var b [1]byte
	for {
		n, err := syscall.Read(s.read, b[:])
		switch sig := syscall.Signal(b[0]); {
		case n == 1 && sig != 0 && sig != syscall.SIGCHLD:
			return sig
		case n != 1 && err != syscall.EINTR:
			return 0
		}
	}
}

// Wait waits for a signal, at most that long and until ctx ends: then it
// returns 0. A negative time has no end.
func (s *Signals) Wait(ctx context.Context, limit time.Duration) syscall.Signal {
	defer context.AfterFunc(ctx, s.ring)()
	end := SinceBoot() + limit
	for {
		if sig := s.Next(); sig != 0 {
			return sig
		}
		left := time.Duration(-1)
		if limit >= 0 {
			left = min(end-SinceBoot(), lookEvery) // see there
		}
		if ctx.Err() != nil || limit >= 0 && left <= 0 {
			return 0
		}
		s.poll(left)
	}
}

// poll waits until the bell rings, and otherwise as poll below.
func (s *Signals) poll(limit time.Duration) {
	poll([]pollFD{{fd: int32(s.read), events: pollIn}}, limit)
}

// pollFD is struct pollfd of poll(2).
type pollFD struct {
	fd      int32 // negative: none
	events  int16
	revents int16
}

const pollIn = 1 // POLLIN

// poll waits until there is something to read, or to be told of, at one of the
// descriptors, for that long; negative: without end. It may return early.
func poll(fds []pollFD, limit time.Duration) {
	var timeout *syscall.Timespec
	if limit >= 0 {
		t := syscall.NsecToTimespec(int64(limit))
		timeout = &t
	}
	for i := range fds {
		fds[i].revents = 0
	}
	syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), uintptr(unsafe.Pointer(timeout)), 0, 0, 0)
}
