package cmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/testenv"
)

// fleet is a store that hosts share, and programs that use it.
type fleet struct {
	url string
	dir string
	bin string // where the programs are
}

// newFleet makes a store known that is at that URL.
func newFleet(t *testing.T, url string) *fleet {
	f := &fleet{url: url, dir: t.TempDir(), bin: bin}
	t.Cleanup(func() { endAllThatName(t, f.dir) })
	f.ok(t, "store", "init")
	return f
}

func (f *fleet) command(args ...string) *exec.Cmd { return f.on("host", args...) }

// on is cronce on that host, which is another one by its local store.
func (f *fleet) on(host string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(f.bin, "cronce"), args...)
	cmd.Env = append(os.Environ(), "CRONCE_STORE="+f.url, "CRONCE_LOCAL_STORE="+filepath.Join(f.dir, host), "TZ=UTC")
	return cmd
}

// ok runs a command to its good end and returns what it printed.
func (f *fleet) ok(t *testing.T, args ...string) string {
	t.Helper()
	cmd := f.command(args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

func (f *fleet) runs(t *testing.T) (runs []cronce.Run) {
	t.Helper()
	for line := range strings.Lines(f.ok(t, "runs", "-n", "0", "--json")) {
		var r cronce.Run
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// holdOn is a command that ignores TERM and has a child in another session that does too.
func (f *fleet) holdOn() string {
	for name, text := range map[string]string{
		"hold.sh":  "trap '' TERM; setsid sh " + f.dir + "/child.sh & echo up; sleep 600",
		"child.sh": "trap '' TERM; sleep 600",
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	return "exec sh " + f.dir + "/hold.sh"
}

// commands are the shells of holdOn.
func (f *fleet) commands() (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		args, _ := os.ReadFile(path)
		words := strings.Split(string(args), "\x00")
		if len(words) > 1 && words[0] == "sh" && (words[1] == f.dir+"/hold.sh" || words[1] == f.dir+"/child.sh") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone reports whether there is none of them.
func (f *fleet) gone() bool { return len(f.commands()) == 0 }

// Whichever of the two processes of a run is killed, or stopped, the other ends the work
// before the store lets another run in.
func TestShared_RunKilled(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"lender", "guard"} {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
			t.Run(fmt.Sprint(who, " gets ", guard.SignalName(sig)), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, testenv.Redis(t))
				command := f.holdOn()
				cmd := f.command("run", "--manual", "job", "--", "sh", "-c", command)
				first := startServer(t, cmd)
				first.await(t, 0, "up")
				children := childrenOf(cmd.Process.Pid)
				if len(children) != 1 {
					t.Fatalf("the lease process has the children %v", children)
				}
				victim := children[0]
				if who == "lender" {
					victim = cmd.Process.Pid
				}
				syscall.Kill(victim, sig)
				// Waits for the lease to end, then looks for what the first has left.
				next := f.command("run", "--manual", "--overlap", "wait=1m", "job", "--", "echo", "next")
				if out, err := next.CombinedOutput(); err != nil || !strings.Contains(string(out), "next") {
					t.Errorf("the next run: %v\n%s", err, out)
				}
				if !f.gone() {
					t.Error("work goes on while the next run has started")
				}
				for _, pid := range append(children, cmd.Process.Pid) {
					syscall.Kill(pid, syscall.SIGCONT)
				}
				<-first.gone
				if code := cmd.ProcessState.ExitCode(); who == "guard" && code != 70 {
					t.Errorf("exit %d, want 70", code)
				}
				if r := f.runs(t)[0]; r.Outcome != cronce.Cancelled && r.Outcome != cronce.Lost {
					t.Errorf("on record: %+v", r)
				}
			})
		}
	}
}

// Two serves on one store run each tick once between them. When one gets kill -9, what it
// ran is ended before the other runs the job again.
func TestShared_Serve(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	command := f.holdOn()
	crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=often
@every 1s  echo often
# cronce: name=long overlap=wait=1h
@every 1s  test -e %[1]s/second && echo second && exit; %[2]s
`, f.dir, command))
	serve := func() *server { return startServer(t, f.command("serve", "--crontab", crontab)) }
	first := serve()
	first.await(t, 0, "long", "| up")
	next := serve()
	next.await(t, 0, "often", "started")
	first.await(t, first.lines(), "often", "started")
	write(t, filepath.Join(f.dir, "second"), "")
	first.cmd.Process.Kill()
	<-first.gone
	next.await(t, 0, "long", "| second")
	if !f.gone() {
		t.Error("the work of the killed serve goes on beside the next run")
	}
	if code := next.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	ticks := map[string]int{}
	for _, r := range f.runs(t) {
		ticks[r.Job+cronce.Stamp(r.Tick)]++
	}
	for tick, n := range ticks {
		if n != 1 {
			t.Errorf("%s was decided %d times", tick, n)
		}
	}
}

// Each kind of store does for the programs what it does for the library: two serves have
// each tick once, a run is ended from elsewhere, and the other commands find what they left.
func TestShared_EveryStore(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			f.ok(t, "store", "check")
			crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=often\n@every 1s echo often\n")
			serve := func() *server { return startServer(t, f.command("serve", "--crontab", crontab)) }
			first, next := serve(), serve()
			first.await(t, 0, "often", "started")
			next.await(t, 0, "often", "started")
			for _, s := range []*server{first, next} {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
			}
			by := startServer(t, f.command("run", "--manual", "long", "--", "sh", "-c", "echo up; exec sleep 600"))
			by.await(t, 0, "up")
			if out := f.ok(t, "release", "long", "--wait", "1m"); !strings.Contains(out, "what held it has ended") {
				t.Errorf("release: %s", out)
			}
			<-by.gone
			f.ok(t, "pause", "often")
			if out := f.ok(t, "status", "often"); !strings.Contains(out, "paused") {
				t.Errorf("status: %s", out)
			}
			ticks := map[string]int{}
			for _, r := range f.runs(t) {
				if ticks[r.Job+cronce.Stamp(r.Tick)]++; r.Job == "often" && r.Skip == "" && r.Outcome != cronce.Succeeded {
					t.Errorf("on record: %+v", r)
				}
			}
			for tick, n := range ticks {
				if n != 1 {
					t.Errorf("%s was decided %d times", tick, n)
				}
			}
		})
	}
}

// A guard under serve that gets kill -9: what it has left is ended by serve, and that is on
// record.
func TestShared_ServeGuardKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	command := f.holdOn()
	crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=long overlap=wait=1h\n@every 1s  "+command+"\n")
	s := startServer(t, f.command("serve", "--crontab", crontab))
	at := s.await(t, 0, "long", "| up")
	guards := childrenOf(s.cmd.Process.Pid)
	if len(guards) != 1 {
		t.Fatalf("serve has the children %v", guards)
	}
	syscall.Kill(guards[0], syscall.SIGKILL)
	s.await(t, at, "long", "cancelled", "its guard process was killed")
	if r := f.runs(t)[0]; r.Outcome != cronce.Cancelled {
		t.Errorf("on record: %+v", r)
	}
}

// Fleets that share a host do not end each other's work, also where their runs have one
// id, as those of an @reboot line of one name have.
func TestShared_ServeGuardKilledBesideAnother(t *testing.T) {
	t.Parallel()
	var fleets []*fleet
	var serves []*server
	for range 2 {
		f := newFleet(t, testenv.Redis(t))
		crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=long\n@reboot  "+f.holdOn()+"\n# cronce: name=long\n0 0 29 2 *  "+f.holdOn()+"\n")
		s := startServer(t, f.command("serve", "--crontab", crontab))
		s.await(t, 0, "long", "| up")
		fleets, serves = append(fleets, f), append(serves, s)
	}
	if a, b := fleets[0].runs(t)[0].ID, fleets[1].runs(t)[0].ID; a != b {
		t.Fatalf("the runs are %s and %s", a, b)
	}
	guards := childrenOf(serves[0].cmd.Process.Pid)
	if len(guards) != 1 {
		t.Fatalf("serve has the children %v", guards)
	}
	syscall.Kill(guards[0], syscall.SIGKILL)
	serves[0].await(t, 0, "long", "cancelled", "its guard process was killed")
	if !fleets[0].gone() {
		t.Error("what the killed guard has left goes on")
	}
	if n := len(fleets[1].commands()); n != 2 {
		t.Errorf("of the other fleet's two processes %d are left", n)
	}
}

// A store that goes away: serve says so once, ends what runs before its lease does, starts
// nothing, and goes on when it is back. A run is not started, with exit code 69.
func TestShared_StoreAway(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	f := newFleet(t, redis.URL())
	command := f.holdOn()
	crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=often catchup=skip\n@every 1s  echo often\n")
	long := startServer(t, f.command("run", "--manual", "long", "--", "sh", "-c", command))
	long.await(t, 0, "up")
	s := startServer(t, f.command("serve", "--crontab", crontab))
	s.await(t, 0, "often", "| often")
	redis.Kill()
	at := s.await(t, 0, "AWAY")
	cmd := f.command("run", "--manual", "--store-timeout", "2s", "other", "--", "touch", f.dir+"/ran")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 69 {
		t.Errorf("a run while the store is away: %v\n%s", err, out)
	}
	<-long.gone
	if code := long.cmd.ProcessState.ExitCode(); code != 70 || !f.gone() {
		t.Errorf("what ran when the store went: exit %d, all gone: %v", code, f.gone())
	}
	redis.Restart(testenv.Kept)
	at = s.await(t, at, "back")
	s.await(t, at, "often", "started")
	s.stop(syscall.SIGTERM)
	if _, err := os.Stat(f.dir + "/ran"); err == nil {
		t.Error("it was run")
	}
}

// A password in a file, and no secret in any process's arguments.
func TestShared_PasswordFile(t *testing.T) {
	t.Parallel()
	withPassword := testenv.Redis(t)
	scheme, rest, _ := strings.Cut(withPassword, "://:")
	password, host, _ := strings.Cut(rest, "@")
	f := newFleet(t, withPassword)
	f.url = scheme + "://" + host
	file := write(t, filepath.Join(f.dir, "password"), password+"\n")
	cmd := f.command("run", "--manual", "job", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
	cmd.Env = append(cmd.Env, "CRONCE_STORE_PASSWORD_FILE="+file)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "cronced lend run") || strings.Contains(string(out), ":"+password+"@"+host) {
		t.Errorf("%v\n%s", err, out)
	}
}
