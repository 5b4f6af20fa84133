//go:build amd64 || arm64

package cronce

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// random fills b, of at most 256 bytes, from the kernel's generator, as
// crypto/rand does: but that begins with a timer, and so with the network
// poller, and brings half of the standard library's cryptography into a program
// that is started for every job.
func random(b []byte) {
	getrandom := uintptr(278)
	if runtime.GOARCH == "amd64" {
		getrandom = 318
	}
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		_, _, errno = syscall.Syscall(getrandom, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0)
	}
	if errno == 0 {
		return
	}
	// Linux before 3.17, or a sandbox that knows no such call.
	f, err := os.Open("/dev/urandom")
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, b)
	}
	if err != nil {
		panic("no randomness is to be had: " + err.Error())
	}
}
