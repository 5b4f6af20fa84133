package localstore

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// soon fails the test when f has not ended: it must not wait for anybody.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it hangs")
	}
}

// A pipe in the place of a file, which would be waited for without end, is
// refused by name.
func TestClaim_PipesAreRefused(t *testing.T) {
	for _, name := range []string{jobLock, segmentName(1), segmentName(2), waitLock} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, t.TempDir()+"/store")
			mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
			path := d.folder("job") + "/" + name
			os.Remove(path)
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			soon(t, func() {
				for _, d := range []*driver{d, newDriver(t, d.dir)} {
					if e := answerAs[*cronce.ConfigError](t, d, claimOf("job", tick(8))); e.What != path+" is not a file" {
						t.Errorf("refused with %q", e.What)
					}
					if jobs, err := d.Jobs(t.Context(), ""); err != nil || len(jobs) != 1 || name != waitLock && jobs[0].Problem != path+" is not a file" {
						t.Errorf("jobs %+v, %v", jobs, err)
					}
					d.Runs(t.Context(), cronce.RunQuery{})
				}
			})
		})
	}
	d := newDriver(t, t.TempDir()+"/store")
	l := mustClaim(t, d, claimOf("job", tick(9)))
	for _, name := range []string{"control.json", "output"} {
		if err := syscall.Mkfifo(d.folder("job")+"/"+name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	soon(t, func() {
		if _, err := d.Renew(t.Context(), l); err == nil {
			t.Error("a renewal without a look at the requests")
		}
		if err := d.Finish(context.Background(), l, cronce.Result{Outcome: cronce.Succeeded, Output: []byte("x")}); err != nil {
			t.Error(err)
		}
	})
}

// Where claims of a job are refused, whoever looks at it sees that and why, not
// a healthy job or none.
func TestJobs_TellWhyClaimsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		harm func(dir, journal string) error
		says string
		runs int // that can be read
	}{
		"a damaged line": {func(dir, journal string) error {
			b, err := os.ReadFile(journal)
			lines := strings.SplitAfter(string(b), "\n")
			lines[2] = lines[2][4:]
			os.WriteFile(journal, []byte(strings.Join(lines, "")), 0o600)
			return err
		}, "line 3", 2},
		"a damaged head":       {func(dir, journal string) error { return os.WriteFile(journal, []byte("{}\n{}\n"), 0o600) }, "line 1", 0},
		"another format":       {func(dir, journal string) error { return replaceIn(journal, `"format":1`, `"format":9`) }, "format is 9", 0},
		"another job's":        {func(dir, journal string) error { return replaceIn(journal, `"job":"job"`, `"job":"other"`) }, "journal of job", 0},
		"a link to its folder": {func(dir, journal string) error { os.Rename(dir, dir+".x"); return os.Symlink(dir+".x", dir) }, "is a symbolic link", 0},
		"a link to a lock":     {func(dir, journal string) error { os.Remove(dir + "/job.lock"); return os.Symlink("x", dir+"/job.lock") }, "symbolic link", 2},
		"a folder as journal":  {func(dir, journal string) error { os.Remove(journal); return os.Mkdir(journal, 0o700) }, "is not a file", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, t.TempDir()+"/store")
			mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
			mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(8))))
			mustFinish(t, d, mustClaim(t, d, claimOf("fine", tick(8))))
			if err := test.harm(d.folder("job"), d.folder("job")+"/"+segmentName(1)); err != nil {
				t.Fatal(err)
			}
			if e := answerAs[*cronce.ConfigError](t, newDriver(t, d.dir), claimOf("job", tick(7))); !strings.Contains(e.What, test.says) {
				t.Errorf("refused with %v, want %q", e, test.says)
			}
			for _, job := range []string{"job", ""} {
				if name == "another job's" && job == "" {
					continue // a copy of some folder; only claims by its name are refused
				}
				jobs, err := d.Jobs(t.Context(), job)
				if err != nil || len(jobs) == 0 || job == "" && len(jobs) != 2 || !strings.Contains(jobs[len(jobs)-1].Problem, test.says) || jobs[len(jobs)-1].Job != "job" {
					t.Errorf("jobs %+v, %v; want the problem %q", jobs, err, test.says)
				}
				if len(jobs) == 2 && jobs[0].Problem != "" {
					t.Errorf("the other job: %q", jobs[0].Problem)
				}
			}
			if runs, err := d.Runs(t.Context(), cronce.RunQuery{}); err != nil || len(runs) < 1 {
				t.Errorf("runs %+v, %v", runs, err)
			}
			if runs, err := d.Runs(t.Context(), cronce.RunQuery{Job: "job"}); len(runs) != test.runs || err == nil && test.runs == 0 {
				t.Errorf("runs of the job: %d, %v; want %d", len(runs), err, test.runs)
			}
		})
	}
}

// A folder whose name is not the job's is named by what its journal says.
func TestJobs_NameOfADamagedJob(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("Night Report", tick(9))))
	if err := replaceIn(d.folder("Night Report")+"/"+segmentName(1), `"format":1`, `"format":9`); err != nil {
		t.Fatal(err)
	}
	jobs, err := d.Jobs(t.Context(), "")
	if err != nil || len(jobs) != 1 || jobs[0].Job != "Night Report" || jobs[0].Problem == "" {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

// jobs replaced by a link under a server that has the store open.
func TestClaim_JobsMovedBehindALink(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
	inStore(t, d.dir, "mv STORE/jobs AWAY; ln AWAY STORE/jobs")
	for _, job := range []string{"job", "new"} {
		if e := answerAs[*cronce.ConfigError](t, d, claimOf(job, tick(8))); !strings.Contains(e.What, "jobs is a symbolic link") {
			t.Errorf("%s: %v", job, e)
		}
	}
	if _, err := d.Jobs(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "jobs is a symbolic link") {
		t.Errorf("jobs: %v", err)
	}
}

func replaceIn(path, old, new string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(b), old, new)), 0o600)
}
