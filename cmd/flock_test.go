package cmd_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// programs are what the cases are tried with: $FLOCK, and who holds the lock.
func programs() map[string]string {
	return map[string]string{"flock(1)": "flock", "cronce": bin + "/cronce flock"}
}

// TestFlock_asFlock1 defends that cronce can take the place of flock(1) in any
// line: exit code, output and what becomes of the lock are the same, whoever
// of the two has the lock.
func TestFlock_asFlock1(t *testing.T) {
	for _, c := range flockCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			holders := []string{""}
			if c.held != "" {
				holders = []string{"flock(1)", "cronce"}
			}
			for _, holder := range holders {
				want := c.run(t, "flock(1)", holder)
				got := c.run(t, "cronce", holder)
				if got.String() != want.String() {
					t.Errorf("%s\nheld by %q\ncronce:   %v\nflock(1): %v\nstderr:   %q\nflock(1): %q",
						c.script, holder, got, want, got.stderr, want.stderr)
				}
			}
		})
	}
}

// flockOutcome is what can be seen of a case from outside.
type flockOutcome struct {
	exit   int
	stdout string
	stderr string
	free   bool // flock(1) can lock the file now
	files  string
}

func (o flockOutcome) String() string {
	return fmt.Sprintf("exit %d, says %q, complains %t, lock is free %t, files %s", o.exit, o.stdout, o.stderr != "", o.free, o.files)
}

func (c flockCase) run(t *testing.T, program, holder string) flockOutcome {
	t.Helper()
	e := newFlockEnv(t)
	if c.held != "" {
		release := e.hold(t, programs()[holder], c.held)
		defer release()
	}
	const probe = `flock -n lock true && echo free || echo locked`
	args := []string{"sh", "-c", "probe() { " + probe + "; }\n" + c.script}
	if c.weak && os.Geteuid() == 0 {
		args = append([]string{"setpriv", "--bounding-set=-all"}, args...)
	}
	cmd := e.command(t, args...)
	cmd.Env = append(cmd.Env, "FLOCK="+programs()[program], "PROBE="+probe)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var o flockOutcome
	o.exit = exitOf(t, cmd.Run())
	o.stdout, o.stderr = tidyFlock(stdout.String(), filepath.Dir(e.dir)), stderr.String()
	o.files = listFiles(t, e.dir)
	o.free = exitOf(t, e.command(t, "flock", "-n", "lock", "true").Run()) == 0
	return o
}

var tookSeconds = regexp.MustCompile(`took \d+\.\d{6} seconds`)

// tidyFlock takes out of an output what no two runs have in common. flock(1)
// writes what --verbose says behind what the command says, unless to a terminal.
func tidyFlock(out, dir string) string {
	out = strings.ReplaceAll(tookSeconds.ReplaceAllString(out, "took a while"), dir, "DIR")
	lines := strings.SplitAfter(out, "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		return boolInt(strings.HasPrefix(b, "flock: ")) - boolInt(strings.HasPrefix(a, "flock: "))
	})
	return strings.Join(lines, "")
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// flockEnv is a folder to work in and a store beside it.
type flockEnv struct {
	dir, store string
	bin        string // the folder with the programs
	clock      string // CRONCE_TEST_CLOCK, for programs that follow it
}

func newFlockEnv(t *testing.T) flockEnv {
	t.Helper()
	top := t.TempDir()
	e := flockEnv{dir: top + "/work", store: top + "/store", bin: bin}
	for _, err := range []error{
		os.Mkdir(e.dir, 0o755),
		os.Mkdir(e.dir+"/dir", 0o755),
		os.Symlink("target", e.dir+"/dangling"),
		os.WriteFile(e.dir+"/plain", []byte("no program\n"), 0o644),
		os.WriteFile(e.dir+"/script", []byte("echo \"$0\" \"$@\"\n"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// A case may have made a folder that nobody can delete from.
	t.Cleanup(func() { os.Chmod(e.dir+"/dir", 0o755) })
	return e
}

// command is a program run in the folder, with little more than a PATH.
func (e flockEnv) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = e.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "CRONCE_STORE=" + e.store, "GORACE=" + os.Getenv("GORACE"), "CRONCE_TEST_CLOCK=" + e.clock}
	return cmd
}

// cronce runs a cronce command that must succeed.
func (e flockEnv) cronce(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.command(t, append([]string{bin + "/cronce"}, args...)...).Output()
	if err != nil {
		t.Fatalf("cronce %q: %v", args, err)
	}
	return string(out)
}

// runs is what the store has on record.
func (e flockEnv) runs(t *testing.T) (runs []cronce.Run) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(e.cronce(t, "runs", "--json")))
	for {
		var r cronce.Run
		if err := d.Decode(&r); err == io.EOF {
			return runs
		} else if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
}

// hold locks the file "lock" until release is called.
func (e flockEnv) hold(t *testing.T, program string, options ...string) (release func()) {
	t.Helper()
	args := append(strings.Fields(program), options...)
	cmd := e.command(t, append(args, "lock", "sh", "-c", "echo held; cat")...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("%v: %q %v", cmd, line, err)
	}
	return func() {
		t.Helper()
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", cmd, err)
		}
	}
}

func exitOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	code, ok := exitCode(err)
	if !ok || code < 0 {
		t.Fatal(err)
	}
	return code
}

// listFiles is what is in a folder, with modes.
func listFiles(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path == dir || err != nil {
			return nil // a folder that cannot be read has been listed itself
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintf(&b, "%s %v %d; ", strings.TrimPrefix(path, dir+"/"), info.Mode(), info.Size()*int64(boolInt(info.Mode().IsRegular())))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFlock_waitsItsTurn defends that a waiter of ours stands in the kernel's
// queue, with and without a time limit, and is served when the lock is given up.
func TestFlock_waitsItsTurn(t *testing.T) {
	for name, options := range map[string][]string{
		"for ever":   nil,
		"for a time": {"-w", "600"},
		"shared":     {"-s", "-w", "600"},
	} {
		for holder, program := range programs() {
			t.Run(name+" for "+holder, func(t *testing.T) {
				t.Parallel()
				e := newFlockEnv(t)
				release := e.hold(t, program)
				cmd := e.command(t, slices.Concat([]string{bin + "/cronce", "flock"}, options, []string{"lock", "echo", "in"})...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				waitQueued(t, e.dir+"/lock")
				release()
				if err := cmd.Wait(); err != nil || out.String() != "in\n" {
					t.Errorf("%v: %v %q", cmd, err, &out)
				}
			})
		}
	}
}

// waitQueued waits until a process stands in the kernel's queue for the file.
func waitQueued(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
	}
	t.Fatalf("nobody waits for %s", file)
}

// TestFlock_timeoutLeavesNoLock defends that a waiter whose time is over does
// not have the lock after all: on a descriptor that a shell keeps, nobody would
// ever free it.
func TestFlock_timeoutLeavesNoLock(t *testing.T) {
	t.Parallel()
	e := newFlockEnv(t)
	for i := range 30 {
		release := e.hold(t, "flock")
		// The shell keeps descriptor 9 open, and tells what it was told. The
		// lock is given up before some of the times are over, and after others.
		cmd := e.command(t, "sh", "-c", `exec 9>>lock; echo ready; "$0" flock -w $1 9; echo $?; cat`, bin+"/cronce", fmt.Sprintf("0.%03d", i+1))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(out)
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		release()
		code, err := said.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		free := exitOf(t, e.command(t, "flock", "-n", "lock", "true").Run()) == 0
		if got := code == "0\n"; got == free {
			t.Fatalf("after %d ms: exit %q, and the lock is free: %t", i+1, code, free)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlock_diesOfSignals defends that a signal does to ours what it does to
// flock(1): it ends at once, the command goes on and keeps the lock.
func TestFlock_diesOfSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT,
		syscall.SIGUSR1, syscall.SIGXCPU, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			ends := map[string]string{}
			for name, program := range programs() {
				e := newFlockEnv(t)
				if name == "cronce" {
					e.patient(t)
					program = e.bin + "/cronce flock"
				}
				if err := syscall.Mkfifo(e.dir+"/p", 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := e.command(t, append(strings.Fields(program), "lock", "sh", "-c", "echo held; exec >/dev/null 2>&1; cat p")...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				cmd.Process.Signal(sig)
				cmd.Wait()
				status := cmd.ProcessState.Sys().(syscall.WaitStatus)
				free := exitOf(t, e.command(t, "flock", "-n", "lock", "true").Run()) == 0
				ends[name] = fmt.Sprintf("signal %d, says %q, lock is free: %t", status.Signal(), &stderr, free)
				if name == "cronce" {
					// The command still has the run's own lock.
					if runs := e.runs(t); len(runs) != 1 || !runs[0].Live() {
						t.Errorf("while the command goes on: %+v", runs)
					}
					e.flock(t, 1, "-n", "lock", "true")
					if runs := e.runs(t); len(runs) != 2 || runs[1].Skip != cronce.SkipOrphans {
						t.Errorf("refused by what is left: %+v", runs)
					}
				}
				p, err := os.OpenFile(e.dir+"/p", os.O_WRONLY, 0) // waits for its reader, who then sees the end
				if err != nil {
					t.Fatal(err)
				}
				p.Close()
			}
			if ends["cronce"] != ends["flock(1)"] {
				t.Errorf("cronce: %s\nflock(1): %s", ends["cronce"], ends["flock(1)"])
			}
		})
	}
}

// TestFlock_withoutStore defends that the record is no condition: a store that
// cannot be used, or hangs, changes nothing and is only spoken of if asked.
func TestFlock_withoutStore(t *testing.T) {
	format := func(e *flockEnv, text string) error {
		return cmp.Or(os.Mkdir(e.store, 0o700), os.WriteFile(e.store+"/format", []byte(text), 0o600))
	}
	for name, breakStore := range map[string]func(e *flockEnv) error{
		"no absolute path":  func(e *flockEnv) error { e.store = "store"; return nil },
		"a shared store":    func(e *flockEnv) error { e.store = "redis://localhost"; return nil },
		"a file":            func(e *flockEnv) error { return os.WriteFile(e.store, nil, 0o600) },
		"a device":          func(e *flockEnv) error { e.store = "/dev/null"; return nil },
		"no folder for it":  func(e *flockEnv) error { e.store += "/a/b"; return nil },
		"others can write":  func(e *flockEnv) error { return cmp.Or(os.Mkdir(e.store, 0o700), os.Chmod(e.store, 0o777)) },
		"an unknown format": func(e *flockEnv) error { return format(e, "cronce local store, format 999\n") },
		"jobs is no folder": func(e *flockEnv) error {
			return cmp.Or(format(e, "cronce local store, format 1\n"), os.WriteFile(e.store+"/jobs", nil, 0o600))
		},
		"it hangs": func(e *flockEnv) error {
			return cmp.Or(os.Mkdir(e.store, 0o700), syscall.Mkfifo(e.store+"/format", 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlockEnv(t)
			if err := breakStore(&e); err != nil {
				t.Fatal(err)
			}
			for script, want := range map[string]string{
				`"$0" flock lock sh -c 'flock -n lock true || echo locked; exit 7'; echo $?`: "locked\n7\n",
				`"$0" flock -F lock sh -c 'flock -n lock true || echo locked'; echo $?`:      "locked\n0\n",
				`"$0" flock lock "$0" flock -n -E 9 lock true; echo $?`:                      "9\n",
				`exec 9>lock; "$0" flock -n 9; echo $?; flock -n lock true; echo $?`:         "0\n1\n",
				`"$0" flock lock ./none 2>/dev/null; echo $?`:                                "69\n",
			} {
				out, err := e.command(t, "sh", "-c", script, bin+"/cronce").CombinedOutput()
				if err != nil || string(out) != want {
					t.Errorf("%s: %v %q, want %q", script, err, out, want)
				}
			}
			cmd := e.command(t, bin+"/cronce", "flock", "--verbose", "lock", "true")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Run(); err != nil || !strings.HasPrefix(stderr.String(), "cronce: flock: not on record: ") {
				t.Errorf("--verbose: %v %q", err, &stderr)
			}
		})
	}
}

// flock runs ours and checks its exit code.
func (e flockEnv) flock(t *testing.T, want int, args ...string) {
	t.Helper()
	if got := exitOf(t, e.command(t, append([]string{e.bin + "/cronce", "flock"}, args...)...).Run()); got != want {
		t.Fatalf("cronce flock %q: exit %d, want %d", args, got, want)
	}
}

// patient lets the store have a minute for each of its steps, where it has a
// second and no more: on a busy machine a record may be given up, by design.
func (e *flockEnv) patient(t *testing.T) {
	t.Helper()
	bin, err := clockBin()
	if err != nil {
		t.Fatal(err)
	}
	e.bin, e.clock = bin, "slow=60"
}

// TestFlock_isOnRecord defends what is gained: runs and conflicts are on
// record, as one job for one file.
func TestFlock_isOnRecord(t *testing.T) {
	t.Parallel()
	e := newFlockEnv(t)
	dir, err := filepath.EvalSymlinks(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	e.patient(t)
	e.flock(t, 0, "lock", "true")
	e.flock(t, 7, dir+"/dir/../lock", "sh", "-c", "exit 7")
	e.flock(t, 137, "lock", "-c", "kill -9 $$")
	e.flock(t, 69, "lock", "./none")
	e.flock(t, 0, "-F", "lock", "true")
	e.flock(t, 0, "-u", "lock", "true") // has no lock, and is no run under it
	e.flock(t, 66, "none/lock", "true")
	e.flock(t, 64, "-n", "lock")
	release := e.hold(t, e.bin+"/cronce flock", "-s")
	e.flock(t, 75, "-n", "-E", "75", "lock", "true")
	e.flock(t, 1, "-w", "0.01", "lock", "true")
	e.flock(t, 0, "-s", "lock", "true")
	release()
	release = e.hold(t, "flock")
	e.flock(t, 1, "-n", "lock", "true")
	release()
	want := []string{
		"succeeded 0 ", "failed 7 ", "failed 137 SIGKILL", "failed 69 ", "lost 0 ",
		"succeeded 0 ", "skip overlap", "skip overlap", "succeeded 0 ", "cancelled 1 ",
	}
	var got []string
	for _, r := range e.runs(t) {
		text := fmt.Sprintf("%s %d %s", r.Outcome, r.ExitCode, r.Signal)
		if r.Skip != "" {
			text = "skip " + string(r.Skip)
		}
		got = append(got, text)
		if r.Job != "flock:"+dir+"/lock" || r.Holder.Via != "flock" || !r.Tick.IsZero() {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("on record: %q, want %q", got, want)
	}
}

// TestFlock_leftBehindIsNamed defends that a lock which a run's child keeps
// after its end, the old riddle of flock(1), has a name when asked for.
func TestFlock_leftBehindIsNamed(t *testing.T) {
	t.Parallel()
	e := newFlockEnv(t)
	e.patient(t)
	if err := syscall.Mkfifo(e.dir+"/p", 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := e.command(t, e.bin+"/cronce", "flock", "lock", "sh", "-c", "cat p >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(out))
	cmd := e.command(t, e.bin+"/cronce", "flock", "-n", "--verbose", "lock", "true")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if code := exitOf(t, cmd.Run()); code != 1 || !strings.Contains(stderr.String(), "lock is locked: overlap: pid "+pid+" on ") {
		t.Errorf("exit %d, %q; pid %s was left behind", code, &stderr, pid)
	}
	p, err := os.OpenFile(e.dir+"/p", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if runs := e.runs(t); len(runs) != 2 || runs[0].Outcome != cronce.Succeeded || runs[1].Skip != cronce.SkipOverlap {
		t.Errorf("on record: %+v", runs)
	}
}

// TestFlock_anyPathIsAJob defends that what no job may be called has a name
// of its own all the same.
func TestFlock_anyPathIsAJob(t *testing.T) {
	t.Parallel()
	e := newFlockEnv(t)
	e.patient(t)
	long := strings.Repeat("ä/", 30)
	if err := os.MkdirAll(e.dir+"/"+strings.Repeat(long, 3), 0o755); err != nil {
		t.Fatal(err)
	}
	paths := []string{"a b", " ", "a\nb", "a?b", "\xff", "\xfe", strings.Repeat(long, 2) + "lock", strings.Repeat(long, 3) + "lock"}
	for _, path := range paths {
		e.flock(t, 0, path, "true")
		e.flock(t, 0, path, "true")
	}
	count := map[string]int{}
	for _, r := range e.runs(t) {
		count[r.Job]++
		if err := cronce.CheckName(r.Job); err != nil || !strings.HasPrefix(r.Job, "flock:") {
			t.Errorf("%q: %v", r.Job, err)
		}
	}
	for job, n := range count {
		if n != 2 {
			t.Errorf("%d runs of %q, want 2", n, job)
		}
	}
	if len(count) != len(paths) {
		t.Errorf("%d jobs for %d files: %q", len(count), len(paths), slices.Sorted(maps.Keys(count)))
	}
}
