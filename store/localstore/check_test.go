package localstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
)

// A store that is well is said to be so, with what holds its jobs; of one that
// is not, every fault is named, not the first only.
func TestCheck(t *testing.T) {
	h := testHost(t)
	d := newDriver(t, t.TempDir()+"/store")
	found := func() (is, wrong string) {
		t.Helper()
		all, err := check(t.Context(), Options{Dir: d.dir}, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			is += f.What + ": " + f.Is + "\n"
			if f.Problem != nil {
				wrong += f.What + ": " + f.Problem.Error() + "\n"
			}
		}
		return is, wrong
	}
	want := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in:\n%s", w, text)
			}
		}
	}
	is, wrong := found()
	want(is, "place: "+d.dir, fmt.Sprintf("of user %d, mode 0700", os.Geteuid()), "free", "format 1", "no job yet")
	if wrong != "" {
		t.Errorf("a new store: %s", wrong)
	}
	g := start(t, "guard", d.dir)
	f := strings.Fields(g.read())
	work, err := strconv.Atoi(f[2])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(work, syscall.SIGKILL) })
	mustFinish(t, d, mustClaim(t, d, claimOf("other", tick(1))))
	is, wrong = found()
	want(is, `job "job" is held by run `+f[1], fmt.Sprintf("pid %d (", work), "jobs: 2, files: 2")
	if wrong != "" {
		t.Errorf("a store in use: %s", wrong)
	}

	// As what people and disks do to it.
	if err := os.Chmod(d.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(d.dir + "/jobs/other/journal.000001.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(first)))
	lines[1] = "gone\n"
	for name, text := range map[string]string{
		"/jobs/other/journal.000001.jsonl":   strings.Join(lines, ""),
		"/jobs/job/control.json":             "{",
		"/jobs/another/journal.000001.jsonl": string(first),
	} {
		mkdir(t, parent(d.dir+name))
		if err := os.WriteFile(d.dir+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, wrong = found()
	want(wrong, "others can write to it", "line 2 is not a record", "control.json", `has the journal of job "other"`)

	if err := os.WriteFile(d.dir+"/format", []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, wrong = found()
	want(wrong, "others can write to it", `its format is "another\n"`)
	if strings.Contains(wrong, "journal") {
		t.Errorf("files of an unknown format were guessed at: %s", wrong)
	}
	if _, err := check(t.Context(), Options{Dir: d.dir + "/none"}, h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no store: %v", err)
	}
}

// Whoever wants a job freed is told what keeps it: also what goes on when the
// process that watched over it is gone, and what an ended run left behind.
func TestLocks(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	locks := func() []Lock {
		t.Helper()
		all, err := Locks(t.Context(), Options{Dir: d.dir}, "job")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := locks(); len(all) != 0 {
		t.Errorf("of a job never seen: %v", all)
	}
	g := start(t, "guard", d.dir)
	f := strings.Fields(g.read())
	work, err := strconv.Atoi(f[2])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(work, syscall.SIGKILL) })
	all := locks()
	if len(all) != 1 || all[0].Run.ID != f[1] || !all[0].Guarded || len(all[0].Processes) != 2 {
		t.Errorf("with its guard: %+v", all)
	}
	g.kill()
	all = locks()
	if len(all) != 1 || all[0].Run.ID != f[1] || all[0].Guarded || len(all[0].Processes) != 1 || all[0].Processes[0].PID != work {
		t.Errorf("without its guard: %+v", all)
	}
	if s := all[0].String(); !strings.Contains(s, "nothing watches over") || !strings.Contains(s, f[2]) {
		t.Errorf("said as %q", s)
	}
	if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job"}); err != nil {
		t.Fatal(err)
	}
	if all := locks(); len(all) != 0 {
		t.Errorf("when all is ended: %v", all)
	}
}

// Nobody is made the owner of what somebody else has there.
func TestInit_RefusesWhatIsThere(t *testing.T) {
	h, _ := own(t)
	dir := fmt.Sprintf("%s/%d", h.shared, h.uid)
	var config *cronce.ConfigError
	mkdir(t, h.shared)
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := h.init(h.uid, os.Getegid(), ""); !errors.As(err, &config) || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("over a symbolic link: %v", err)
	}
	other := fmt.Sprintf("%s/%d", h.shared, h.uid+1)
	mkdir(t, other+"/jobs") // of this user
	if _, err := h.init(h.uid+1, os.Getegid(), ""); !errors.As(err, &config) || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("over another user's folder: %v", err)
	}
}
