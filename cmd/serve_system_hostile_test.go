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

	"github.com/cronce/cronce"
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

// A user who stops the process that serves him, again and again, does not keep
// root from stopping serve, nor his run from being on record.
func TestServeSystem_AStoppedProcessDoesNotHoldItUp(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.fifo("end")
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=long grace=1s\n@every 1s  nobody  echo up; read x </var/lib/did/end\n# cronce: grace=1s\n@every 1s  daemon  true\n")
	s := m.serve()
	at := s.await(t, 0, "nobody", "serves 1 job")
	s.await(t, at, "nobody", "| up")
	process := s.process(t, at)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for process.Signal(syscall.SIGSTOP) == nil {
			<-time.After(time.Millisecond)
		}
	}()
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.await(t, at, "daemon", "serve", "stopped")
	<-time.After(time.Second / 2) // sooner, it would be the same request
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.await(t, at, "serve", "the runs are ended; waiting for user ", "nobody, 6s at most")
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit %d", s.cmd.ProcessState.ExitCode())
	}
	<-stopped
	// Where it could not hear that the run is to be ended, the run goes on.
	end, err := os.OpenFile(m.root+"/var/lib/did/end", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	end.WriteString("go\n")
	for {
		switch first := firstRun(t, m.runs("nobody")); first.Outcome {
		case "":
			<-time.After(10 * time.Millisecond)
			continue
		case cronce.Succeeded, cronce.Cancelled:
		default:
			t.Errorf("the run is on record as %+v", first)
		}
		break
	}
}

// A process that its user stopped and that has no jobs for a while serves the
// jobs that come then, or ends before another does: there are never two for a user.
func TestServeSystem_OneProcessAUser(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	const his = "/var/spool/cron/crontabs/games"
	m.write(his, 0o600, "@every 1s echo first\n")
	s := m.serve()
	at := s.await(t, 0, "games", "serves 1 job")
	s.await(t, at, "games", "| first")
	process := s.process(t, at)
	process.Signal(syscall.SIGSTOP)
	for range 2 {
		if err := os.Remove(m.root + his); err != nil {
			t.Fatal(err)
		}
		at = s.await(t, at, "serve", "loaded", "0 jobs of 0 users")
		m.write(his, 0o600, "@every 1s echo last\n")
		at = s.await(t, at, "serve", "loaded", "1 job of 1 user")
	}
	process.Signal(syscall.SIGCONT)
	at = s.await(t, at, "games", "| last")
	if err := os.Remove(m.root + his); err != nil {
		t.Fatal(err)
	}
	at = s.await(t, at, "games", "no job any more: stopping")
	at = s.await(t, at, "games", "serve", "stopped")
	s.mu.Lock()
	serving := 0
	for _, line := range s.log {
		switch {
		case hasAll(line, []string{"games  serve", "cronce", "serves"}):
			if serving++; serving > 1 {
				t.Errorf("two processes for one user: %s", line)
			}
		case hasAll(line, []string{"games  serve", "stopped"}):
			serving--
		}
	}
	s.mu.Unlock()
	m.write(his, 0o600, "@every 1s echo anew\n")
	s.await(t, at, "games", "| anew")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}
