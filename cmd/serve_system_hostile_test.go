package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
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

// A user who rewrites his crontab all the time keeps nobody else's from being
// loaded, also where serve begins amid that.
func TestServeSystem_AFileThatNeverRests(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	const his = "/var/spool/cron/crontabs/games"
	m.write(his, 0o600, "@every 1s echo old\n")
	m.write("/etc/cron.d/tab", 0o644, "@every 1s  daemon  echo first\n")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			aside := m.root + "/var/spool/cron/crontabs/tmp.X"
			err := os.WriteFile(aside, fmt.Appendf(nil, "@every 1s echo new %d\n", n), 0o600)
			if err = errors.Join(err, os.Rename(aside, m.root+his)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	rest := sync.OnceFunc(func() { close(stop); <-stopped })
	defer rest()
	s := m.serve()
	s.await(t, 0, "daemon", "| first")
	s.await(t, 0, "games", "serves 1 job")
	m.write("/etc/cron.d/tab", 0o644, "@every 1s  daemon  echo second\n")
	m.write("/etc/cron.d/more", 0o644, "@every 1s  nobody  echo more\n")
	at := s.await(t, 0, "serve", "loaded", "3 jobs of 3 users")
	s.await(t, at, "daemon", "| second")
	s.await(t, at, "nobody", "| more")
	s.await(t, 0, "serve", "NOT LOADED", his, "rewritten all the time", "what was served goes on")
	rest()
	m.write(his, 0o600, "@every 1s echo rested\n")
	s.await(t, at, "games", "| rested")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A crontab that is emptied is kept as it was, and one that is removed is not.
func TestServeSystem_AnEmptiedCrontabIsKept(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, "@every 1s  daemon  echo kept\n")
	m.write("/etc/cron.d/other", 0o644, "@every 1s  nobody  echo other\n")
	s := m.serve()
	s.await(t, 0, "daemon", "| kept")
	write(t, m.root+"/etc/cron.d/tab", "\n")
	m.write("/etc/cron.d/other", 0o644, "@every 1s  nobody  echo changed\n")
	at := s.await(t, 0, "serve", "NOT LOADED", "/etc/cron.d/tab is empty", "what was served goes on")
	at = s.await(t, at, "nobody", "| changed")
	at = s.await(t, s.await(t, at, "daemon", "| kept")+1, "daemon", "| kept")
	s.cmd.Process.Signal(syscall.SIGHUP)
	at = s.await(t, at, "serve", "NOT LOADED", "/etc/cron.d/tab is empty")
	at = s.await(t, at, "serve", "loaded", "2 jobs of 2 users")
	write(t, m.root+"/etc/cron.d/tab", "# no job any more\n")
	at = s.await(t, at, "serve", "loaded", "1 job of 1 user")
	if err := os.Remove(m.root + "/etc/cron.d/other"); err != nil {
		t.Fatal(err)
	}
	s.await(t, at, "serve", "loaded", "0 jobs of 0 users")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}
