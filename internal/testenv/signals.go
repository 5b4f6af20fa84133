package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// OwnSignals takes signals that were ignored when the test began (under nohup,
// or in a shell's background) away from the programs that it starts: what
// is caught here is at its default there.
func OwnSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
