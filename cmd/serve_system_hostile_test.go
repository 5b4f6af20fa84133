package cmd_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

// What root's serve runs for users cannot reach the terminal that it was
// started at, where it could type commands for root.
func TestServeSystem_JobsHaveNoTerminal(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, "@every 1s  nobody  if (: </dev/tty) 2>/var/lib/did/why; then echo has a terminal; else echo has none; fi\n")
	serve := filepath.Join(bin, "cronce") + " serve --system"
	s := startServer(t, m.command("script", "-qec", "tty; "+serve, "/dev/null"))
	s.await(t, 0, "/dev/pts/")
	at := s.await(t, 0, "nobody", "| has ")
	if s.says("nobody", "| has a terminal") {
		t.Errorf("line %d: a user's job has root's terminal", at)
	}
	s.stop(syscall.SIGTERM)
}
