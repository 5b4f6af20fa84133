package cmd_test

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
)

// idsOf are the numbers of a user.
func idsOf(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return uid, gid
}

// give makes that user the owner of a file.
func (m *machine) give(path, name string) {
	m.Helper()
	uid, gid := idsOf(m.T, name)
	if err := os.Lchown(m.root+path, uid, gid); err != nil {
		m.Fatal(err)
	}
}

// cronce is a command of cronce on the machine, as root for whom ann has become
// it by sudo, from its start to its end.
func (m *machine) cronce(args ...string) ended {
	m.Helper()
	cmd := m.command(append([]string{filepath.Join(bin, "cronce")}, args...)...)
	cmd.Env = append(cmd.Env, "SUDO_USER=ann", "SECRET=roots")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code, _ := exitCode(err)
	if err != nil && code == 0 {
		m.Fatal(err)
	}
	return ended{code: code, out: out.String(), err: errs.String()}
}

// What root runs as another user, at a terminal, cannot reach that terminal.
func TestTrigger_AnotherUserHasNoTerminal(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, "# cronce: name=job\n@every 1h  nobody  if (: </dev/tty) 2>/dev/null; then echo has a terminal; else echo has none; fi\n")
	trigger := filepath.Join(bin, "cronce") + " trigger job --system"
	// Not the session's first process, which a shell that stays is.
	out, err := m.command("script", "-qec", "tty; "+trigger+"; echo that was $?", "/dev/null").CombinedOutput()
	if err != nil || !hasAll(string(out), []string{"/dev/pts/", "has none", "that was 0"}) {
		t.Errorf("%v: %s", err, out)
	}
}

// Root runs nothing that another user has written, or could: neither as root,
// nor beside that user's own run of it.
func TestRoot_NotAnothersFile(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	const line = "# cronce: name=job\n@every 1s  id -u >>/var/lib/did/ran\n"
	const yaml = "jobs:\n  job:\n    schedule: '@every 1s'\n    command: [/usr/bin/touch, /var/lib/did/ran]\n"
	const spool = "/var/spool/cron/crontabs/"
	for path, text := range map[string]string{spool + "daemon": line, "/var/lib/tab": line, "/var/lib/jobs.yaml": yaml} {
		m.write(path, 0o600, text)
		m.give(path, "daemon")
	}
	m.write(spool+"games", 0o600, line) // root's, with a user's name
	m.write("/var/lib/open", 0o666, line)
	m.write("/var/lib/group.yaml", 0o664, yaml)
	m.write("/var/lib/own", 0o644, line)
	for link, to := range map[string]string{"/var/lib/link": "/var/lib/own", "/var/lib/way": spool + "games"} {
		if err := os.Symlink(to, m.root+link); err != nil {
			t.Fatal(err)
		}
	}
	m.give("/var/lib/link", "daemon")
	for path, says := range map[string][]string{
		spool + "daemon":            {"user daemon", "serve --system", "trigger JOB --system --user daemon"},
		spool + "games":             {"user games", "serve --system", "trigger JOB --system --user games"},
		spool + "../crontabs/games": {"user games", "serve --system"},
		"/var/lib/way":              {"user games", "serve --system"},
		"/var/lib/tab":              {"user daemon", "chown root /var/lib/tab", "runuser -u daemon -- cronce"},
		"/var/lib/jobs.yaml":        {"user daemon", "chown root /var/lib/jobs.yaml", "runuser -u daemon -- cronce"},
		"/var/lib/open":             {"mode 0666", "chmod go-w /var/lib/open"},
		"/var/lib/group.yaml":       {"mode 0664", "chmod go-w /var/lib/group.yaml"},
		"/var/lib/link":             {"symbolic link", "user daemon"},
	} {
		flag := "--crontab"
		if strings.HasSuffix(path, ".yaml") {
			flag = "--config"
		}
		m.cronce("serve", flag, path).says(t, 78, append(slices.Clone(says), path)...)
		m.cronce("trigger", "job", flag, path).says(t, 78, append(slices.Clone(says), path)...)
		m.cronce("validate", path).says(t, 0, "job")
	}
	if text, err := os.ReadFile(m.root + "/var/lib/did/ran"); err == nil {
		t.Errorf("it was run all the same, as %s", text)
	}
	if got := m.cronce("trigger", "job", "--crontab", "/var/lib/own"); got.code != 0 {
		t.Errorf("root's own: %+v", got)
	}
	// While it is served, too.
	m.write("/var/lib/own", 0o644, "@every 1s  echo mine\n")
	s := startServer(t, m.command(filepath.Join(bin, "cronce"), "serve", "--crontab", "/var/lib/own"))
	s.await(t, 0, "| mine")
	m.write("/var/lib/next", 0o644, "@every 1s  echo ANOTHERS\n")
	m.give("/var/lib/next", "daemon")
	if err := os.Rename(m.root+"/var/lib/next", m.root+"/var/lib/own"); err != nil {
		t.Fatal(err)
	}
	at := s.await(t, 0, "serve", "NOT LOADED", "user daemon")
	s.await(t, at, "| mine")
	if s.says("| ANOTHERS") {
		t.Error("another's version of the file was served")
	}
}

// Root triggers a job of another user as serve --system would run it: as that
// user, and on record in that user's store, with who asked.
func TestTrigger_System(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	const tell = `echo "is $(id -u) $(id -G) $HOME $LOGNAME $SHELL $PATH $(umask) $OF $SECRET."; cat; exit 7` + "%from the line"
	m.write("/var/spool/cron/crontabs/games", 0o600, "OF=spool\n# cronce: name=job\n0 0 1 1 *  "+tell+"\n# cronce: name=alone\n0 0 1 1 * true\n")
	m.write("/etc/cron.d/tab", 0o644, "OF=cron.d\n# cronce: name=job\n0 0 1 1 *  daemon "+tell+"\n# cronce: name=roots\n0 0 1 1 * root  exit $(id -u)\n")
	for name, of := range map[string]string{"games": "spool", "daemon": "cron.d"} {
		u, err := user.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		groups := map[string]string{"games": " ", "daemon": " 4999 "}[name]
		m.cronce("trigger", "job", "--system", "--user", name).says(t, 7,
			"is "+u.Uid+" "+u.Gid+groups+u.HomeDir+" "+name+" /bin/sh /usr/bin:/bin 0022 "+of+" .\nfrom the line")
		runs := m.runs(name)
		if len(runs) != 1 || runs[0].ExitCode != 7 || runs[0].Outcome != cronce.Failed || runs[0].Holder.Via != "trigger" ||
			!hasAll(runs[0].Holder.User, []string{"root (uid 0)@", " via sudo by ann"}) {
			t.Errorf("%s: on record is %+v", name, runs)
		}
	}
	m.cronce("trigger", "job", "--system").says(t, 78, "daemon and games", "--user NAME")
	m.cronce("trigger", "alone", "--system").says(t, 0)
	m.cronce("trigger", "roots", "--system").says(t, 0)
	m.cronce("trigger", "alone", "--system", "--user", "daemon").says(t, 1, `no job "alone" of user daemon`, "validate --system")
	m.cronce("trigger", "nosuch", "--system").says(t, 1, `no job "nosuch"`, "validate --system")
	m.cronce("trigger", "job", "--system", "--user", "nosuch").says(t, 64, `no user "nosuch"`)
	// A line of another user leads there.
	m.cronce("trigger", "job", "--crontab", "/etc/cron.d/tab").says(t, 78, "user \"daemon\"", "cronce trigger job --system --user daemon")
	// A paused job, and one that is held.
	m.cronce("pause", "job", "--user", "games", "--why", "too loud").says(t, 0, "paused")
	m.cronce("trigger", "job", "--system", "--user", "games").says(t, 7, "paused by root (uid 0)@", "too loud")
	// Other crontabs than cron's.
	m.write("/var/lib/other", 0o644, "# cronce: name=other\n0 0 1 1 *  daemon  id -un\n")
	m.cronce("trigger", "other", "--system", "--crontab", "/var/lib/other").says(t, 0, "daemon\n")
}

// Root acts on a job of another user as that user, and is told how where it
// has tried otherwise.
func TestRoot_AsAnotherUser(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/var/spool/cron/crontabs/games", 0o600, "# cronce: name=job\n@every 1s  echo up; sleep 1000\n")
	s := m.serve()
	s.await(t, 0, "games", "| up")
	store := strings.TrimPrefix(m.store("games"), m.root)
	for _, args := range [][]string{{"pause", "job", "--store", store}, {"run", "--store", store, "job", "--", "true"}} {
		got := m.cronce(args...)
		if got.says(t, 78, "belongs to user", "--user games", "runuser -u games -- cronce"); strings.Contains(got.err, "chown") {
			t.Errorf("%q: it is to be taken away from its user: %s", args, got.err)
		}
	}
	m.cronce("pause", "job", "--user=games", "--why", "it is loud").says(t, 0, "job: paused")
	m.cronce("status", "job", "--user", "games").says(t, 0, "running for", "paused by root (uid 0)@", "via sudo by ann", "it is loud")
	m.cronce("job", "show", "job", "--user", "games").says(t, 0, "held by", "pause", "root (uid 0)@")
	m.cronce("release", "--user", "games", "job", "--force", "--wait", "1m").says(t, 64) // one or the other
	m.cronce("release", "--user", "games", "job").says(t, 0, "what held it has ended")
	s.await(t, 0, "games", "job", "cancelled", "asked to stop by root (uid 0)@", "via sudo by ann")
	m.cronce("runs", "--user", "games").says(t, 0, "cancelled")
	m.cronce("resume", "job", "--user", "games").says(t, 0, "resumed")
	m.cronce("status", "--user", "nosuch").says(t, 64, `no user "nosuch"`)
	m.cronce("pause", "job", "--user").says(t, 64, "--user")
	s.await(t, s.await(t, 0, "cancelled"), "games", "| up")
	m.cronce("pause", "job", "--user", "games").says(t, 0) // or another run comes before the end
	m.cronce("release", "--user", "games", "job").says(t, 0)
	// Nothing in the store has become root's.
	uid, _ := idsOf(t, "games")
	err := filepath.WalkDir(m.store("games"), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		if info, err := d.Info(); err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != uid {
			t.Errorf("%s is not the user's any more", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	s.stop(syscall.SIGTERM)
}
