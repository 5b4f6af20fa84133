package cmd_test

import (
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

var itsPid = regexp.MustCompile(`, pid (\d+)$`)

// process is the process of a user's serve, by what it said in that line.
func (s *server) process(t *testing.T, at int) *os.Process {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := itsPid.FindStringSubmatch(s.log[at])
	if m == nil {
		t.Fatalf("no process in %q", s.log[at])
	}
	pid, _ := strconv.Atoi(m[1])
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// firstRun is the oldest of the runs that was no skip.
func firstRun(t *testing.T, runs []cronce.Run) cronce.Run {
	t.Helper()
	i := slices.IndexFunc(runs, func(r cronce.Run) bool { return r.Skip == "" })
	if i < 0 {
		t.Fatalf("nothing was run: %+v", runs)
	}
	return runs[i]
}

// Two serves of one machine run each tick once, also where the process of a
// user is killed; @reboot lines run once.
func TestServeSystem_TwoServesRunEachTickOnce(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	users := []string{"nobody", "daemon"}
	tab := "# cronce: name=boot\n@reboot  games  echo boot >>/var/lib/did/boot\n"
	for _, name := range users {
		tab += "# cronce: name=" + name + "\n@every 1s  " + name + "  echo $CRONCE_TICK $CRONCE_RUN_ID >>/var/lib/did/" + name + "\n"
	}
	m.write("/etc/cron.d/tab", 0o644, tab)
	servers := []*server{m.serve(), m.serve()}
	for i, s := range servers {
		at := s.await(t, 0, users[i], "serves 1 job")
		firstToSay(servers, users[i], "succeeded")
		s.process(t, at).Kill()
		at = s.await(t, at, users[i], "NOT SERVED", "killed")
		s.await(t, at, users[i], "serves 1 job")
		firstToSay(servers, users[i], "succeeded")
	}
	for _, s := range servers {
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	for _, name := range users {
		text, err := os.ReadFile(m.root + "/var/lib/did/" + name)
		if err != nil {
			t.Fatal(err)
		}
		ran := map[string]string{}
		for line := range strings.Lines(string(text)) {
			tick, run, _ := strings.Cut(strings.TrimSpace(line), " ")
			if ran[tick] != "" {
				t.Errorf("%s: tick %s ran twice, as %s and %s", name, tick, ran[tick], run)
			}
			ran[tick] = run
		}
		for _, r := range m.runs(name) {
			if r.Skip == "" && r.Outcome == cronce.Succeeded && ran[cronce.Stamp(r.Tick)] != r.ID {
				t.Errorf("%s: on record is %+v, and it was run as %q", name, r, ran[cronce.Stamp(r.Tick)])
			}
		}
	}
	if text, err := os.ReadFile(m.root + "/var/lib/did/boot"); string(text) != "boot\n" {
		t.Errorf("the @reboot line did %q, %v", text, err)
	}
}

// The process of a user is killed under a run: the run goes on under its guard,
// no other starts beside it, and its true end is on record.
func TestServeSystem_AKilledProcessLeavesItsRunGuarded(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	end := m.fifo("end")
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=long\n@every 1s  nobody  echo up; read x </var/lib/did/end; exit 3\n")
	s := m.serve()
	at := s.await(t, 0, "nobody", "serves 1 job")
	s.await(t, at, "nobody", "long", "| up")
	s.process(t, at).Kill()
	at = s.await(t, at, "nobody", "NOT SERVED")
	at = s.await(t, at, "nobody", "serves 1 job")
	at = s.await(t, at, "nobody", "long", "skipped", "overlap")
	end()
	s.await(t, at, "nobody", "long", "started")
	first := firstRun(t, m.runs("nobody"))
	if first.Outcome != cronce.Failed || first.ExitCode != 3 {
		t.Errorf("the run of the process that was killed is on record as %+v", first)
	}
	end()
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// serve --system itself is killed: its users' processes start no more runs and
// let those that go on end, and the next one runs none beside them.
func TestServeSystem_KilledItself(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	end := m.fifo("end")
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=long\n@every 1s  nobody  echo up; read x </var/lib/did/end\n")
	s := m.serve()
	at := s.await(t, 0, "nobody", "serves 1 job")
	left := s.process(t, at)
	s.await(t, at, "nobody", "long", "| up")
	s.stop(syscall.SIGKILL)
	s = m.serve()
	at = s.await(t, 0, "nobody", "long", "skipped", "overlap")
	end()
	s.await(t, at, "nobody", "long", "| up")
	first := firstRun(t, m.runs("nobody"))
	if first.Outcome != cronce.Succeeded {
		t.Errorf("the run that was left is on record as %+v", first)
	}
	for left.Signal(syscall.Signal(0)) == nil { // until it has gone as well
		<-time.After(10 * time.Millisecond)
	}
	end()
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// What a user makes of his store hurts no one else, and leads root nowhere.
func TestServeSystem_ABadStoreHurtsItsUserOnly(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	target := m.root + "/var/lib/target"
	for _, dir := range []string{m.root + "/var/lib/cronce", m.store("nobody"), m.store("www-data"), m.store("www-data") + "/kept", target} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(m.root+"/var/lib/cronce", 0o755); err != nil {
		t.Fatal(err)
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	for _, name := range []string{"jobs", "format"} {
		if err := os.Symlink("/var/lib/target", m.store("nobody")+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(m.store("nobody"), uid, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/var/lib/target", m.store("games")); err != nil {
		t.Fatal(err)
	}
	m.write("/etc/cron.d/tab", 0o644, "@every 1s  nobody  true\n@every 1s  www-data  true\n@every 1s  games  true\n@every 1s  daemon  echo well\n")
	s := m.serve()
	s.await(t, 0, "nobody", "symbolic link")
	s.await(t, 0, "nobody", "NOT SERVED")
	s.await(t, 0, "www-data", "NOT SERVED", "belongs to user 0")
	s.await(t, 0, "games", "NOT SERVED", "it is there already")
	s.await(t, s.await(t, 0, "daemon", "| well")+1, "daemon", "| well")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	info, err := os.Stat(target)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("%s is not root's any more: %v, %v", target, info, err)
	}
	if left, err := os.ReadDir(target); len(left) > 0 || err != nil {
		t.Errorf("%v was written to where a link led, %v", left, err)
	}
}

// TERM lets the runs of all users end; a second one ends them.
func TestServeSystem_TermDrainsAll(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	users := []string{"nobody", "daemon"}
	tells := map[string]func(){}
	tab := ""
	for _, name := range users {
		tells[name] = m.fifo(name)
		tab += "@every 1s  " + name + "  read x </var/lib/did/" + name + "; echo ended\n"
	}
	m.write("/etc/cron.d/tab", 0o644, tab)
	s := m.serve()
	for _, name := range users {
		s.await(t, 0, name, "started")
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	for _, name := range users {
		at := s.await(t, 0, name, "waiting for those that go on")
		tells[name]()
		s.await(t, s.await(t, at, name, "| ended"), name, "succeeded")
	}
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit %d", s.cmd.ProcessState.ExitCode())
	}

	s = m.serve()
	for _, name := range users {
		s.await(t, 0, name, "started")
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	for _, name := range users {
		s.await(t, 0, name, "waiting for those that go on")
	}
	<-time.After(time.Second / 2) // sooner, it would be the same request
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, name := range users {
		s.await(t, 0, name, "cancelled")
	}
}

// --max-running is for the whole machine: with 1, no two users' jobs are
// ever run at once, and all of them are run.
func TestServeSystem_MaxRunningIsForAllUsers(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	users := []string{"nobody", "daemon", "games"}
	tab := ""
	for _, name := range users {
		tab += "# cronce: name=" + name + " start-deadline=10m\n@every 1s  " + name + "  mkdir /var/lib/did/one && sleep 0.1 && rmdir /var/lib/did/one\n"
	}
	m.write("/etc/cron.d/tab", 0o644, tab)
	s := m.serve("--max-running", "1")
	for range 3 {
		for _, name := range users {
			s.await(t, s.lines(), name, "succeeded")
		}
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if s.says("failed") {
		t.Error("two runs at once")
	}
}
