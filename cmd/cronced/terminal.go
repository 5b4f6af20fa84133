package main

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// isTerminal reports whether what is written there is shown on a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	var t syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&t)))
	return errno == 0
}

// columns is how wide a terminal is, 80 where it does not say.
func columns(w io.Writer) int {
	var size struct{ rows, columns, x, y uint16 }
	if f, ok := w.(*os.File); ok {
		syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	}
	if size.columns == 0 {
		return 80
	}
	return int(size.columns)
}
