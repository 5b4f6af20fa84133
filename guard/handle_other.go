//go:build !amd64 && !arm64

package guard

import (
	"os"
	"os/signal"
	"syscall"
)

// handle lets the signal go to the bell, by package os/signal.
func handle(sig syscall.Signal) {
	got := make(chan os.Signal, 8)
	signal.Notify(got, sig)
	go func() {
		for range got {
			syscall.Write(int(bell.Load()), []byte{byte(sig)})
		}
	}()
}
