package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
)

// With standard streams closed the command finds /dev/null there, and no file
// of the store's.
func TestRun_ClosedStreams(t *testing.T) {
	t.Parallel()
	for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"} {
		t.Run(strings.NewReplacer("<&-", "in", "2>&-", "err", ">&-", "out").Replace(closed), func(t *testing.T) {
			p := newPlace(t)
			command := `ls -l /proc/self/fd >fds; echo out; echo err >&2; cat >did; exit 3`
			got := p.shell(`echo input | { $RUN closed -- sh -c "$1" `+closed+`; }`, command).wait()
			want := func(stream, text string) string {
				if strings.Contains(" "+closed, " "+stream) {
					return ""
				}
				return text
			}
			if got.code != 3 || got.out != want(">&-", "out\n") || got.err != want("2>&-", "err\n") {
				t.Errorf("%+v", got)
			}
			if did := string(must(os.ReadFile(filepath.Join(p.dir, "did")))); did != want("<&-", "input\n") {
				t.Errorf("its input was %q", did)
			}
			fds := string(must(os.ReadFile(filepath.Join(p.dir, "fds"))))
			if strings.Count(fds, p.store) != 1 || !strings.Contains(fds, " 198 -> "+p.store+"/jobs/closed/job.lock") {
				t.Errorf("of the store's files only the lock is to be seen:\n%s", fds)
			}
			if r := p.last(); r.Outcome != cronce.Failed || r.ExitCode != 3 {
				t.Errorf("on record: %+v", r)
			}
			// Nor does what cronce says itself need them.
			p.shell(`$RUN --frob closed -- touch ran `+closed).wait().want(t, 64, "", strings.Fields(want("2>&-", "--frob"))...)
			holder, gate := p.hold(0, "closed")
			p.shell(`$RUN `+tick(1)+` closed -- touch ran `+closed).wait().want(t, 0, "", strings.Fields(want("2>&-", "overlap"))...)
			p.open(gate)
			holder.wait().want(t, 0, "")
			p.mustNotExist("ran")
		})
	}
}

func (p *place) mustNotExist(name string) {
	p.t.Helper()
	if _, err := os.Lstat(filepath.Join(p.dir, name)); !errors.Is(err, os.ErrNotExist) {
		p.t.Errorf("%s is there: %v", name, err)
	}
}

// A working directory that is gone is the command's affair.
func TestRun_FolderGone(t *testing.T) {
	p := newPlace(t)
	in := `mkdir gone; cd gone; rmdir ../gone; `
	p.shell(in+`$RUN gone -- echo ran`).wait().want(t, 0, "ran\n")
	p.shell(in+`$RUN gone -- ./script`).wait().want(t, 127, "", "cannot start ./script: no such file")
	p.shell(in+`$RUN --status-file status gone -- sh -c "exit 3"`).wait().want(t, 3, "", "--status-file status: ")
	p.shell(in+`$RUN --store relative gone -- touch ran`).wait().want(t, 64, "", "--store")
}

// A command line or environment that is too large for the command, though not
// for cronce itself, is a clear failure.
func TestRun_LargeArgumentsAndEnvironment(t *testing.T) {
	p := newPlace(t)
	// So much that cronce starts, and no byte more, in the argument of 100 KiB
	// at most that the kernel takes.
	start := func(bytes int, env bool) *cronceRun {
		args := []string{"run", "large", "--", "sh", "-c", "echo ran $#", "sh"}
		var large []string
		for bytes > 0 {
			n := min(bytes, 100<<10)
			large = append(large, strings.Repeat("x", n))
			bytes -= n
		}
		cmd := exec.Command(filepath.Join(bin, "cronce"), args...)
		if !env {
			cmd.Args = append(cmd.Args, large...)
		}
		r, err := p.tryCommand(cmd, func() {
			for i, v := range large {
				if env {
					cmd.Env = append(cmd.Env, fmt.Sprintf("LARGE%d=%s", i, v))
				}
			}
		})
		if errors.Is(err, syscall.E2BIG) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, env := range []bool{false, true} {
		t.Run(map[bool]string{false: "arguments", true: "environment"}[env], func(t *testing.T) {
			p.t = t
			if got := start(1<<20, env).wait(); got.code != 0 || !strings.HasPrefix(got.out, "ran ") {
				t.Errorf("a megabyte: %+v", got)
			}
			fits, not := 1<<20, 16<<20
			for fits+1 < not {
				n := (fits + not) / 2
				if r := start(n, env); r == nil {
					not = n
				} else {
					r.cmd.Process.Kill()
					<-r.done
					fits = n
				}
			}
			got := start(fits, env).wait()
			got.want(t, 126, "", "cannot start /", "sh: its arguments and environment are larger than the system allows")
			got.oneLine(t)
		})
	}
}

// A store that cannot be used: nothing is run, and it is said why.
func TestRun_BadStores(t *testing.T) {
	p := newPlace(t)
	unshare := "unshare -m"
	if os.Getuid() != 0 {
		unshare = "unshare -r -m"
	}
	in := func(script string) ended {
		return p.shell(unshare + ` sh -c 'mkdir -p disk && mount -t tmpfs -o size=256k,mode=700 none disk || exit 1; export CRONCE_STORE=$PWD/disk/store
			$RUN job -- true; ` + script + `'`).wait()
	}
	full := `cat /dev/zero >disk/fill 2>/dev/null; `
	in(full+`$RUN `+tick(0)+` --status-file=status another -- touch ran`).want(t, 69, "", "cronce: another: store ", "disk is full", "the work was not started")
	if status := string(must(os.ReadFile(filepath.Join(p.dir, "status")))); !hasAll(status, []string{`"decision":"none"`, `"exit":69`, "disk is full"}) {
		t.Errorf("status: %s", status)
	}
	in(full+`$RUN --store disk/new job -- touch ran`).want(t, 69, "", "disk is full")
	in(`mount -o remount,ro disk; $RUN job -- touch ran`).want(t, 78, "", "read-only")
	// A run that has started ends on record also when the disk is full then.
	in(`$RUN job -- sh -c "cat /dev/zero >disk/fill 2>/dev/null; exit 3"; code=$?; `+filepath.Join(bin, "cronce")+` runs --json; exit $code`).
		wantOut(t, 3, `"exit":3`, "")
	write(t, filepath.Join(p.dir, "file"), "no store")
	for store, says := range map[string]string{"/proc/store": "/proc/store", p.dir + "/file": "file", "/no/such/store": "/no/such/store", "/dev/null": "/dev/null"} {
		got := p.run("--store="+store, "job", "--", "touch", "ran")
		if got.code != 78 && got.code != 69 || got.out != "" || !strings.Contains(got.err, says) {
			t.Errorf("%s: %+v", store, got)
		}
		got.oneLine(t)
	}
	p.mustNotExist("ran")
}

// wantOut is want for an output of which only words are known.
func (e ended) wantOut(t *testing.T, code int, word, stderr string) {
	t.Helper()
	if e.code != code || !strings.Contains(e.out, word) || e.err != stderr {
		t.Errorf("exit %d, stdout %q, stderr %q\nwant %d, …%q…, %q", e.code, e.out, e.err, code, word, stderr)
	}
}
