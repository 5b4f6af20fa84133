package cmd_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// machineScript hides what a whole machine's crontabs, stores and daemons are
// kept in behind empty folders, for this mount namespace alone, and holds it.
const machineScript = `set -e
umask 022
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=755 none /var/lib
mount -t tmpfs -o mode=755 none /etc/cron.d
mount -t tmpfs -o mode=1730 none /var/spool/cron/crontabs
: >/run/none
[ ! -e /etc/crontab ] || mount --bind /run/none /etc/crontab
{ cat /etc/group; echo cronce-test:x:4999:nobody,daemon; } >/run/group
mount --bind /run/group /etc/group
(umask 077; awk -F: -v OFS=: '$1 == "man" { $8 = 1 } 1' /etc/shadow >/run/shadow) # expired
mount --bind /run/shadow /etc/shadow
mount -t tmpfs -o mode=755 none /etc/cron.hourly
mkdir -m 1777 /var/lib/did
echo ready
exec cat
`

// A machine has crontabs and stores of its own, and the users of this one.
type machine struct {
	*testing.T
	ns   string // its mount namespace
	root string // its files, as the test sees them
}

// newMachine makes a machine. Only root can: ok is false for anyone else.
func newMachine(t *testing.T) (m *machine, ok bool) {
	t.Helper()
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("not root: serve --system is only seen to be refused")
		cmd := exec.Command(filepath.Join(bin, "cronced"), "serve", "--system")
		refusedToOthers(t, cmd)
		return nil, false
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", machineScript)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("no machine: %v", err)
	}
	proc := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
	return &machine{t, proc + "/ns/mnt", proc + "/root"}, true
}

// write writes a file with that mode, by rename.
func (m *machine) write(path string, mode os.FileMode, text string) {
	m.Helper()
	path = m.root + path
	aside := filepath.Join(filepath.Dir(path), ".new")
	write(m.T, aside, text)
	if err := os.Chmod(aside, mode); err != nil {
		m.Fatal(err)
	}
	if err := os.Rename(aside, path); err != nil {
		m.Fatal(err)
	}
}

// command is a command on the machine.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--mount=" + m.ns, "--"}, args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	return cmd
}

// serve starts a serve --system, and waits until it serves.
func (m *machine) serve(args ...string) *server {
	m.Helper()
	s := startServer(m.T, m.command(append([]string{filepath.Join(bin, "cronce"), "serve", "--system"}, args...)...))
	s.await(m.T, 0, "serve", "cronce", "from")
	return s
}

// fifo makes a pipe that everybody can read; tell writes into it, once
// somebody does.
func (m *machine) fifo(name string) (tell func()) {
	m.Helper()
	path := m.root + "/var/lib/did/" + name
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		m.Fatal(err)
	}
	return func() {
		m.Helper()
		if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
			m.Fatal(err)
		}
	}
}

// store is the store of a user.
func (m *machine) store(name string) string {
	m.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		m.Fatal(err)
	}
	return m.root + "/var/lib/cronce/" + u.Uid
}

// runs are what is on record in a user's store.
func (m *machine) runs(name string) []cronce.Run {
	m.Helper()
	store := strings.TrimPrefix(m.store(name), m.root)
	return runsSaid(m.T, m.command(filepath.Join(bin, "cronce"), "runs", "--json", "-n", "0", "--store", store))
}

// Each line is run as its user, with all that cron gives it, and on record in
// that user's own store, of which nothing is anybody else's.
func TestServeSystem_EachLineAsItsUser(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	const tell = `echo "is $(id -u) $(id -G) $HOME $LOGNAME $SHELL $PATH $(umask) $(pwd) $OF"`
	m.write("/etc/cron.d/three", 0o644, `OF=cron.d
LOGNAME=root
@every 1s  nobody    `+tell+`
@every 1s  daemon    `+tell+`
@every 1s  root      `+tell+`
`)
	m.write("/var/spool/cron/crontabs/games", 0o600, "@every 1s "+tell+"\n")
	// What cron would not read.
	m.write("/etc/cron.d/three.dpkg-new", 0o644, "@every 1s  daemon  echo DOTTED\n")
	m.write("/etc/cron.d/writable", 0o664, "@every 1s  root  echo WRITABLE\n")
	m.write("/var/spool/cron/crontabs/www-data", 0o644, "@every 1s echo READABLE\n")
	m.write("/var/spool/cron/crontabs/nosuch", 0o600, "@every 1s echo NOBODYS\n")
	m.write("/etc/cron.d/unknown", 0o644, "@every 1s  nosuch  true\n@every 1s  daemon  echo beside the unknown\n")
	said, err := m.command(filepath.Join(bin, "cronce"), "validate", "--system").CombinedOutput()
	if code, _ := exitCode(err); code != 78 || !hasAll(string(said), []string{"nosuch", "/etc/cron.d/writable: ", "4 problems", "/etc/cron.d/three:4 ", "games ", "/var/spool/cron/crontabs/games:1 "}) {
		t.Errorf("validate --system: exit %d:\n%s", code, said)
	}
	m.write("/etc/cron.d/expired", 0o644, "@every 1s  man  echo EXPIRED\n")
	// As Debian's own crontab has it.
	m.write("/etc/cron.hourly/script", 0o755, "#!/bin/sh\necho from run-parts as $(id -un)\n")
	m.write("/etc/cron.d/stock", 0o644, "SHELL=/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin\n"+
		"@every 1s	root	test -x /nowhere/anacron || { cd / && run-parts --report /etc/cron.hourly; }\n")
	s := m.serve()
	s.await(t, 0, "root", "| from run-parts as root")
	for _, words := range [][]string{
		{"/etc/cron.d/expired:1: ", `"man" expired on 1970-01-02`},
		{"/etc/cron.d/writable: ", "chmod go-w"},
		{"crontabs/www-data: ", "0644"},
		{"crontabs/nosuch: ", "no user"},
		{"/etc/cron.d/unknown:1: ", `no user "nosuch"`},
	} {
		s.await(t, 0, words...)
	}
	s.await(t, 0, "daemon", "| beside the unknown")

	for name, more := range map[string]struct{ groups, of string }{
		"nobody": {" 4999", " cron.d"}, "daemon": {" 4999", " cron.d"}, "root": {"", " cron.d"}, "games": {"", ""},
	} {
		u, err := user.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := u.HomeDir
		if _, err := os.Stat(m.root + dir); err != nil {
			dir = "/"
		}
		groups := u.Gid
		if name == "root" || name == "games" {
			ids, err := u.GroupIds()
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(ids)
			ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == u.Gid })
			groups = strings.Join(append([]string{u.Gid}, ids...), " ")
		}
		s.await(t, 0, fmt.Sprintf("| is %s %s%s %s %s /bin/sh /usr/bin:/bin 0022 %s%s", u.Uid, groups, more.groups, u.HomeDir, name, dir, more.of))
		s.await(t, 0, name, "succeeded")

		uid, _ := strconv.Atoi(u.Uid)
		store := m.store(name)
		err = filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return nil // gone meanwhile
			}
			if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != uid {
				t.Errorf("%s belongs to user %d, not to %s", path, owner, name)
			}
			if path == store && info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if runs := m.runs(name); len(runs) == 0 || runs[0].Holder.User == "" {
			t.Errorf("%s: on record is %+v", name, runs)
		}
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, word := range []string{"DOTTED", "WRITABLE", "READABLE", "NOBODYS", "EXPIRED"} {
		if s.says("| " + word) {
			t.Errorf("%s was run", word)
		}
	}
}

// Crontabs that come, change and go are taken up without a restart, as are
// users with them; an @reboot line that comes later is not due.
func TestServeSystem_Reload(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=kept\n@every 1s  daemon  echo first\n")
	s := m.serve()
	s.await(t, 0, "daemon", "| first")
	m.write("/var/spool/cron/crontabs/games", 0o600, "@every 1s echo came\n@reboot echo REBOOTED\n")
	at := s.await(t, 0, "serve", "loaded", "3 jobs of 2 users")
	at = s.await(t, s.await(t, at, "games", "| came")+1, "games", "| came")
	if s.says("  daemon  serve  loaded") {
		t.Error("what did not change was loaded anew")
	}
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=kept\n@every 1s  daemon  echo second\n61 * * * * daemon true\n")
	at = s.await(t, at, "serve", "PROBLEM", "/etc/cron.d/tab:3:1: ")
	at = s.await(t, at, "daemon", "| second")
	if err := os.Remove(m.root + "/var/spool/cron/crontabs/games"); err != nil {
		t.Fatal(err)
	}
	at = s.await(t, at, "games", "serve", "stopped")
	s.await(t, at, "daemon", "| second")
	if s.says("| REBOOTED") {
		t.Error("an @reboot line that came later was run")
	}
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.await(t, at, "serve", "loaded", "1 job of 1 user")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// Where a cron daemon runs the same lines, they are not run a second time.
func TestServeSystem_NotBesideCron(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, "@every 1s  daemon  echo well\n@reboot  daemon  echo REBOOTED\n")
	m.write("/etc/cron.d/boot", 0o644, "@reboot  games  echo >/var/lib/did/booted\n")
	startCron := func() *exec.Cmd {
		cron := m.command("cron", "-f")
		cron.Env = append(cron.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
		if err := cron.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cron.Process.Kill()
			cron.Wait()
		})
		for { // it is nsenter(1) at first
			if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cron.Process.Pid)); string(comm) == "cron\n" {
				return cron
			}
		}
	}
	cron := startCron()
	for { // cron has run its @reboot lines, and nobody else does
		if _, err := os.Stat(m.root + "/var/lib/did/booted"); err == nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	out, err := m.command(filepath.Join(bin, "cronce"), "serve", "--system").CombinedOutput()
	if code, _ := exitCode(err); code != 78 || !strings.Contains(string(out), fmt.Sprintf("pid %d", cron.Process.Pid)) || !strings.Contains(string(out), "systemctl disable --now cron") {
		t.Errorf("beside cron: exit %d:\n%s", code, out)
	}
	s := m.serve("--beside-cron")
	s.await(t, 0, "daemon", "| well")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("--beside-cron: exit %d", code)
	}
	// Other crontabs than cron's are served all the same.
	other := write(t, filepath.Join(t.TempDir(), "other"), "@every 1s  daemon  echo other\n")
	s = m.serve("--crontab", other)
	s.await(t, 0, "daemon", "| other")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("--crontab: exit %d", code)
	}

	// One that comes later takes over.
	cron.Process.Kill()
	cron.Wait()
	s = m.serve()
	s.await(t, 0, "daemon", "| well")
	startCron()
	if s.says("| REBOOTED") {
		t.Error("an @reboot line was run a second time")
	}
	s.await(t, 0, "serve", "a cron daemon is running")
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 78 {
		t.Errorf("exit %d", s.cmd.ProcessState.ExitCode())
	}
}

// Whoever is not root is told what to do.
func TestServeSystem_OnlyRoot(t *testing.T) {
	cmd, done := asNobody(t, "serve", "--system")
	defer done()
	refusedToOthers(t, cmd)
}

// asNobody is a command of cronced by a user who is not root.
func asNobody(t *testing.T, args ...string) (cmd *exec.Cmd, done func()) {
	t.Helper()
	program, err := os.Open(filepath.Join(bin, "cronced"))
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("/proc/self/fd/3", args...) // the way to it may be closed to others
	cmd.ExtraFiles = []*os.File{program}
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return cmd, func() { program.Close() }
}

func refusedToOthers(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if code, _ := exitCode(err); code != 78 || !strings.Contains(string(out), "sudo cronce serve --system") {
		t.Errorf("not as root: exit %d, %v:\n%s", code, err, out)
	}
}
