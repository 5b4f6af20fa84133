//go:build amd64 || arm64

package guard

import (
	"syscall"
	"unsafe"
)

// handle lets the signal go to the bell: in place of the handler that Go's
// runtime has set, with everything else as the runtime wants it, such as the
// stack of its own on which handlers run. The runtime takes any handler back in
// a child that it forks.
func handle(sig syscall.Signal) {
	const setBytes = 8
	var action [8]uintptr // handler, flags, …: struct sigaction of the kernel
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), setBytes, 0, 0); errno != 0 {
		return
	}
	action[0] = handlerAddress()
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, setBytes, 0, 0)
}

// handlerAddress is where the handler is: code that writes the number of the
// signal, as one byte, to the bell. A handler cannot be written in Go.
func handlerAddress() uintptr
