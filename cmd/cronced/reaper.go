package main

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"
)

// reaper starts serve's guards. In a container serve may be process 1, which
// inherits every process whose parent ends: what guards leave behind. Nobody
// else will collect those when they have ended, so it does.
type reaper struct {
	first bool // this is process 1

	mu  sync.Mutex
	own map[int]bool // guards that are not collected yet
}

// newReaper returns one that collects until the process ends, if it is process
// 1; for any other process, init does that.
func newReaper(pid int) *reaper {
	r := &reaper{first: pid == 1, own: map[int]bool{}}
	if r.first {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGCHLD)
		go func() {
			for range ended {
				r.collect()
			}
		}()
	}
	return r
}

// start starts the command and returns what waits for its end.
func (r *reaper) start(cmd *exec.Cmd) (wait func() error, err error) {
	// Under the lock, so that it is not taken for a stranger.
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.own[cmd.Process.Pid] = true
	return func() error {
		err := cmd.Wait()
		r.mu.Lock()
		delete(r.own, cmd.Process.Pid)
		r.mu.Unlock()
		if r.first {
			r.collect() // it may have been in front of others
		}
		return err
	}, nil
}

// collect takes in the strangers that have ended, as far as none of our own is
// in front of them: whoever waits for that one calls again.
func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		pid := endedChild()
		if pid <= 0 || r.own[pid] {
			return
		}
		syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
}

// endedChild is a child that has ended and is not collected yet, or 0. It is
// left as it is.
func endedChild() int {
	const all, nowait = 0, 0x01000000 // P_ALL, WNOWAIT
	const exited = 4                  // WEXITED
	// siginfo_t: three numbers, on 64 bits with a gap behind them, then the pid.
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, all, 0, uintptr(unsafe.Pointer(&info)), exited|nowait|syscall.WNOHANG, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return 0
		}
		at := 12
		if unsafe.Sizeof(uintptr(0)) == 8 {
			at = 16
		}
		return int(*(*int32)(unsafe.Pointer(&info[at])))
	}
}
