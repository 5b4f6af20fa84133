package main

import (
	"os"
	"syscall"
	"unsafe"
)

// isTerminal reports whether the file is a terminal, as isatty(3) does.
func isTerminal(f *os.File) bool {
	var t syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&t)))
	return errno == 0
}
