package cronce

import (
	"syscall"
	"time"
	"unsafe"
)

// bootClock is CLOCK_BOOTTIME: it also goes on while the machine sleeps, and
// nobody can set it.
func bootClock() time.Duration {
	const clockBoottime = 7
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}
