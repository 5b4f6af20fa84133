package main

import (
	"os"
	"syscall"
	"unsafe"
)

// guard is the least that a guard in Go can do: lock, claim durably, start the
// command below a subreaper with a pipe for each stream of output, pass that on,
// and record the end durably. It decides nothing, and catches no signal.
func guard(file string, command []string) error {
	lock, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CREAT|syscall.O_APPEND|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	if err := record(lock, "claim"); err != nil {
		return err
	}
	const setChildSubreaper = 36
	syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	var out, errs [2]int
	if err := syscall.Pipe2(out[:], syscall.O_CLOEXEC); err != nil {
		return err
	}
	if err := syscall.Pipe2(errs[:], syscall.O_CLOEXEC); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(command[0], command, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, uintptr(out[1]), uintptr(errs[1])}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return err
	}
	syscall.Close(out[1])
	syscall.Close(errs[1])
	pass(out[0], errs[0])
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if err := record(lock, "end"); err != nil {
		return err
	}
	os.Exit(status.ExitStatus())
	return nil
}

// record writes a line of the usual length.
func record(fd int, event string) error {
	line := make([]byte, 240)
	copy(line, event)
	line[len(line)-1] = '\n'
	if _, err := syscall.Write(fd, line); err != nil {
		return err
	}
	return syscall.Fsync(fd)
}

// pass passes both streams on until their end.
func pass(out, errs int) {
	type pollFD struct {
		fd              int32
		events, revents int16
	}
	fds := []pollFD{{fd: int32(out), events: 1}, {fd: int32(errs), events: 1}}
	buf := make([]byte, 32<<10)
	for fds[0].fd >= 0 || fds[1].fd >= 0 {
		syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 2, 0, 0, 0, 0)
		for i := range fds {
			if fds[i].fd < 0 || fds[i].revents == 0 {
				continue
			}
			n, err := syscall.Read(int(fds[i].fd), buf)
			if n > 0 {
				syscall.Write(1+i, buf[:n])
			} else if err != syscall.EINTR {
				fds[i].fd = -1
			}
		}
	}
}
