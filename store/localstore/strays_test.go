package localstore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronce/cronce"
)

// inStore runs a shell's commands in a store, as people do to "clean up".
func inStore(t *testing.T, dir string, harm string) {
	t.Helper()
	old := filepath.Dir(dir)
	for _, step := range strings.Split(harm, "; ") {
		f := strings.Fields(strings.NewReplacer("STORE", dir, "AWAY", old+"/away").Replace(step))
		var err error
		switch f[0] {
		case "rm":
			var paths []string
			for _, pattern := range f[1:] {
				found, _ := filepath.Glob(pattern)
				paths = append(paths, found...)
			}
			if len(paths) == 0 {
				t.Fatalf("%s: nothing there", step)
			}
			for _, p := range paths {
				if err == nil {
					err = os.RemoveAll(p)
				}
			}
		case "mv":
			err = os.Rename(f[1], f[2])
		case "ln":
			err = os.Symlink(f[1], f[2])
		case "mkdir":
			err = os.Mkdir(f[1], 0o700)
		case "empty":
			err = os.WriteFile(f[1], nil, 0o600)
		default:
			t.Fatal(step)
		}
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
}

// Whatever is deleted or moved under a run, no claim starts another one while it
// goes on, be it the first, the second or a later one, and of whichever process.
func TestClaim_NoFolderTakenFromUnderARunLetsAnotherIn(t *testing.T) {
	for _, harm := range []string{
		"rm STORE/jobs/job",
		"rm STORE/jobs",
		"rm STORE",
		"rm STORE/jobs/job/journal.* STORE/jobs/job/job.lock",
		"rm STORE/jobs/job/journal.*; mv STORE/jobs/job/job.lock STORE/jobs/job/job.lock.stale",
		"rm STORE/jobs/job/journal.* STORE/jobs/job/*.lock; mkdir STORE/jobs/job/output",
		"mv STORE/jobs/job STORE/jobs/job.old",
		"mv STORE/jobs/job AWAY",
		"mv STORE/jobs/job STORE/jobs/job.old; rm STORE/jobs/job.old",
		"mv STORE/jobs STORE/jobs.old",
		"mv STORE/jobs AWAY",
		"mv STORE AWAY",
		"mv STORE AWAY; mkdir AWAY.new; ln AWAY.new STORE",
		"mv STORE/jobs/job/job.lock STORE/jobs/job/job.lock.stale",
		"mv STORE/jobs/job/job.lock STORE/stale",
		"empty STORE/jobs/job/job.lock; rm STORE/jobs/job",
		"rm STORE/jobs/job/job.lock",
		"rm STORE/jobs/job/journal.*",
	} {
		for _, role := range []string{"holder", "beside"} {
			if role == "beside" {
				if strings.Contains(harm, "job.lock.stale") || strings.Contains(harm, "empty") || strings.Contains(harm, "STORE/stale") {
					continue
				}
				harm = strings.ReplaceAll(harm, "job.lock", "run.001.lock")
			}
			t.Run(role+": "+harm, func(t *testing.T) {
				dir := t.TempDir() + "/store"
				old := newDriver(t, dir)
				c := start(t, role, dir)
				c.read()
				inStore(t, dir, harm)
				open := func() *driver { return newDriver(t, dir) }
				claims := []func() *driver{open, open, open}
				if !strings.Contains(harm, "STORE;") && harm != "rm STORE" && !strings.HasPrefix(harm, "mv STORE AWAY") {
					claims = append(claims, func() *driver { return old }, open, func() *driver { return old })
				}
				for i, d := range claims {
					e := answerAs[*cronce.SkippedError](t, d(), claimOf("job", tick(9-i)))
					if e.Run.Skip != cronce.SkipOverlap || e.Holder == nil || e.Holder.Holder.PID != c.pid() {
						t.Errorf("claim %d: skipped by %+v, holder %+v; want pid %d", i, e.Run, e.Holder, c.pid())
					}
				}
				c.stdin.Close()
				c.read()
				c.cmd.Wait()
				d := open()
				looks := countLooks(d)
				l := mustClaim(t, d, claimOf("job", tick(2)))
				if l.Run.Fence < tick(0).UnixMicro() {
					t.Errorf("fence %d is not above the earlier ones", l.Run.Fence)
				}
				mustFinish(t, d, l)
				if *looks > 1 {
					t.Errorf("%d looks through /proc", *looks)
				}
				*looks = 0
				mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(1))))
				if *looks != 0 {
					t.Errorf("with nothing amiss a claim looked through /proc %d times", *looks)
				}
			})
		}
	}
}

// countLooks counts the searches through /proc.
func countLooks(d *driver) *int {
	n := new(int)
	look := d.flocked
	d.flocked = func() []openFile { *n++; return look() }
	return n
}

// A folder that was moved away and is put back knows nothing of the run that
// began in the one that stood in for it.
func TestClaim_FolderPutBackUnderARun(t *testing.T) {
	for name, what := range map[string]string{"job": "STORE/jobs/job", "jobs": "STORE/jobs", "store": "STORE"} {
		for how, put := range map[string]string{"deleted": "rm WHAT; mv AWAY WHAT", "moved": "mv WHAT WHAT.new; mv AWAY WHAT"} {
			t.Run(name+" "+how, func(t *testing.T) {
				dir := t.TempDir() + "/store"
				d := newDriver(t, dir)
				mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(20))))
				mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(19))))
				inStore(t, dir, "mv "+what+" AWAY")
				c := start(t, "holder", dir)
				c.read()
				inStore(t, dir, strings.ReplaceAll(put, "WHAT", what))
				for i := range 3 {
					e := answerAs[*cronce.SkippedError](t, newDriver(t, dir), claimOf("job", tick(9-i)))
					if e.Holder == nil || e.Holder.Holder.PID != c.pid() {
						t.Errorf("claim %d: holder %+v; want pid %d", i, e.Holder, c.pid())
					}
				}
				c.stdin.Close()
				c.read()
				mustClaim(t, newDriver(t, dir), claimOf("job", tick(1)))
			})
		}
	}
}

// A process that knows a journal by heart must not take another one in its
// place for the same, though the kernel gives it the same inode number.
func TestClaim_JournalReplacedUnderAServer(t *testing.T) {
	dir := t.TempDir() + "/store"
	d, other := newDriver(t, dir), newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(20))))
	for n := 9; n > 5; n-- {
		mustFinish(t, other, mustClaim(t, other, claimOf("job", tick(n))))
	}
	b, err := os.ReadFile(other.folder("job") + "/" + segmentName(1))
	if err != nil {
		t.Fatal(err)
	}
	inStore(t, dir, "mv STORE/jobs/job AWAY")
	if err := os.WriteFile(filepath.Dir(dir)+"/away/"+segmentName(1), b, 0o600); err != nil { // in place
		t.Fatal(err)
	}
	inStore(t, dir, "mv AWAY STORE/jobs/job")
	for n := 9; n > 5; n-- {
		answerAs[*cronce.TakenError](t, d, claimOf("job", tick(n)))
	}
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(20))))
	answerAs[*cronce.TakenError](t, newDriver(t, dir), claimOf("job", tick(20)))
}

// What a killed guard left behind is found like the guard itself.
func TestClaim_MovedFolderOfOrphans(t *testing.T) {
	dir := t.TempDir() + "/store"
	g := start(t, "guard", dir)
	g.read()
	g.kill()
	inStore(t, dir, "mv STORE/jobs/job STORE/jobs/job.old")
	d := newDriver(t, dir)
	for i := range 2 {
		if e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(9-i))); e.Holder == nil || e.Holder.Holder.PID == 0 {
			t.Errorf("holder %+v", e.Holder)
		}
	}
	d.grace = cronce.DefaultGrace
	if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, d, claimOf("job", tick(2)))
}

// A revocation ends a run also where its folder was deleted.
func TestRevoke_AfterItsFolderWasDeleted(t *testing.T) {
	for _, harm := range []string{"rm STORE/jobs/job", "mv STORE/jobs/job STORE/jobs/job.old"} {
		dir := t.TempDir() + "/store"
		w := start(t, "wedged", dir)
		w.read()
		inStore(t, dir, harm)
		d := newDriver(t, dir)
		d.grace = 0
		answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(9)))
		if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job", By: "ann"}); err != nil {
			t.Fatal(err)
		}
		mustClaim(t, d, claimOf("job", tick(8)))
	}
}

// Another job's run, or another store's, holds nothing up.
func TestClaim_StrangersLocksDoNotHold(t *testing.T) {
	dir := t.TempDir()
	c := start(t, "holder", dir+"/store")
	c.read()
	if err := os.Rename(dir+"/store/jobs/job", dir+"/store/jobs/other"); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, dir+"/store2")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
	d = newDriver(t, dir+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("jobs", tick(9))))
}

// A store that was moved with its folders goes on, and its locks are known by
// the new place from then on.
func TestClaim_MovedStoreGoesOn(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(20))))
	inStore(t, dir+"/store", "mv STORE AWAY")
	d = newDriver(t, dir+"/away")
	answerAs[*cronce.TakenError](t, d, claimOf("job", tick(20)))
	c := start(t, "holder", dir+"/away")
	c.read()
	inStore(t, dir+"/away", "mv STORE/jobs/job STORE/old")
	for i := range 2 {
		answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(9-i)))
	}
}

// status shows what keeps a job from running, on record or not.
func TestJobs_ShowsTheHolderOfAnotherFolder(t *testing.T) {
	dir := t.TempDir() + "/store"
	c := start(t, "holder", dir)
	c.read()
	inStore(t, dir, "mv STORE/jobs/job STORE/jobs/job.old")
	d := newDriver(t, dir)
	answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(9)))
	jobs, err := d.Jobs(t.Context(), "")
	if err != nil || len(jobs) != 1 || len(jobs[0].Live) != 1 || jobs[0].Live[0].Holder.PID != c.pid() {
		t.Errorf("jobs %+v, %v; want pid %d", jobs, err, c.pid())
	}
}

// What a lock file says of itself can be read with jq, and is read back as it
// was, whatever the job's name.
func TestLabel(t *testing.T) {
	for _, job := range []string{"job", `a "b" <c> & \d`, "nächtlich"} {
		d := newDriver(t, t.TempDir()+"/store")
		d.named = "/srv/link"
		mustFinish(t, d, mustClaim(t, d, claimOf(job, tick(9))))
		b, err := os.ReadFile(d.folder(job) + "/" + jobLock)
		if err != nil {
			t.Fatal(err)
		}
		var l label
		if err := json.Unmarshal(b, &l); err != nil || l != (label{jobLock, job, d.dir, "/srv/link"}) {
			t.Errorf("%s is read as %+v, %v", b, l, err)
		}
		if job == "job" && string(b) != `{"lock":"job.lock","job":"job","store":"`+d.dir+`","named":"/srv/link"}`+"\n" {
			t.Errorf("it is %s", b)
		}
		mustFinish(t, d, mustClaim(t, d, claimOf(job, tick(8))))
		if again, _ := os.ReadFile(d.folder(job) + "/" + jobLock); string(again) != string(b) {
			t.Errorf("the next claim made it %s", again)
		}
	}
}

// A path need not be UTF-8.
func TestClaim_MovedFolderOfAStrangelyNamedStore(t *testing.T) {
	dir := t.TempDir() + "/st\xff\xfeore \n"
	c := start(t, "holder", dir)
	c.read()
	d := newDriver(t, dir)
	if err := os.Rename(d.folder("job"), d.dir+"/away"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(9-i)))
	}
}

// A run in a container that has the store too is found like any other. One of
// another store, which only has the same path in there, holds nothing.
func TestClaim_RunsInContainers(t *testing.T) {
	withMount(t, func(t *testing.T) {
		dir := t.TempDir()
		store := dir + "/store"
		other := start(t, "container", store, dir)
		if line := other.read(); !strings.HasPrefix(line, "won ") {
			t.Fatal(line)
		}
		d := newDriver(t, store)
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(20))))

		c := start(t, "container", store)
		if line := c.read(); !strings.HasPrefix(line, "won ") {
			t.Fatal(line)
		}
		for i, harm := range []string{"mv STORE/jobs/job AWAY", "rm STORE/jobs/job AWAY"} {
			inStore(t, store, harm)
			for n := range 2 {
				e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(9-3*i-n)))
				if e.Holder == nil || e.Holder.Holder.PID != c.pid() {
					t.Errorf("%s: holder %+v, want pid %d", harm, e.Holder, c.pid())
				}
			}
		}
		c.kill()
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(1))))
	})
}
