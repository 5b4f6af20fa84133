package localstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

func mustClaim(t *testing.T, d *driver, c cronce.Claim) cronce.Lease {
	t.Helper()
	l, err := cronce.NewStore(d).Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim of %s: %v", cronce.Stamp(c.Tick), err)
	}
	return l
}

func mustFinish(t *testing.T, d *driver, l cronce.Lease) {
	t.Helper()
	if err := cronce.NewStore(d).Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
}

func mustRun(t *testing.T, d *driver, id string) cronce.Run {
	t.Helper()
	run, ok, err := cronce.NewStore(d).Run(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("run %s: found %v, %v", id, ok, err)
	}
	return run
}

// answerAs claims and returns the error, which must be of type E.
func answerAs[E error](t *testing.T, d *driver, c cronce.Claim) E {
	t.Helper()
	_, err := cronce.NewStore(d).Claim(t.Context(), c)
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("claim of %s: %v, want %T", cronce.Stamp(c.Tick), err, e)
	}
	return e
}

// A crash may leave any part of the last record. Nothing before it is lost,
// the rest of it is never glued to what comes next, and its tick, which was
// never answered, can be decided.
func TestJournal_TornAtEveryByteOfTheLastRecord(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	first := mustClaim(t, d, claimOf("job", tick(5)))
	mustFinish(t, d, first)
	path := d.folder("job") + "/" + segmentName(1)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(4))))
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := len(before) + strings.IndexByte(string(after[len(before):]), '\n') + 1
	if record-len(before) < 100 {
		t.Fatalf("a start record of %d bytes", record-len(before))
	}
	// What a power failure leaves after it may be a page that was never written.
	for step, garbage := range map[int]string{1: "", 7: "\x00\x00\x00\x00", 9: "\x00\x00\n"} {
		for n := len(before); n < record; n += step {
			if err := os.WriteFile(path, append(after[:n:n], garbage...), 0o600); err != nil {
				t.Fatal(err)
			}
			d := quick(newDriver(t, d.dir))
			if runs, err := d.Runs(t.Context(), cronce.RunQuery{Job: "job"}); err != nil || len(runs) != 1 || runs[0].Outcome != cronce.Succeeded {
				t.Fatalf("cut at %d: runs %+v, %v", n, runs, err)
			}
			if e := answerAs[*cronce.TakenError](t, d, claimOf("job", tick(5))); e.Run.ID != first.Run.ID {
				t.Fatalf("cut at %d: taken by %+v", n, e.Run)
			}
			mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(4))))
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(b), string(before)) {
				t.Fatalf("cut at %d: what was there before has changed", n)
			}
			if recs := rawRecords(t, d, "job"); len(recs) != 5 {
				t.Fatalf("cut at %d: %d records, want 5:\n%s", n, len(recs), b)
			}
		}
	}
}

// The same for the first record of a new segment: a process that died while it
// began one leaves a file without a head.
func TestJournal_TornHeadOfANewSegment(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	l := mustClaim(t, d, claimOf("job", tick(5)))
	mustFinish(t, d, l)
	head, err := os.ReadFile(d.folder("job") + "/" + segmentName(1))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.IndexByte(string(head), '\n') + 1
	for n := range line {
		path := d.folder("job") + "/" + segmentName(2)
		if err := os.WriteFile(path, head[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		d := newDriver(t, d.dir)
		answerAs[*cronce.TakenError](t, d, claimOf("job", tick(5)))
		if runs, err := d.Runs(t.Context(), cronce.RunQuery{Job: "job"}); err != nil || len(runs) != 1 {
			t.Fatalf("cut at %d: %+v, %v", n, runs, err)
		}
		d.segmentBytes = 1 // so that the next claim begins it again
		mustFinish(t, d, mustClaim(t, d, claimOf("job", time.Time{})))
		if recs := rawRecords(t, d, "job"); len(recs) != 6 {
			t.Fatalf("cut at %d: %d records, want 3 in each segment", n, len(recs))
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A damaged line may have been a decision: readers show the others, a claim is
// refused.
func TestJournal_DamagedLineIsNotPassedOver(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(5))))
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(4))))
	path := d.folder("job") + "/" + segmentName(1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	lines[1] = lines[1][4:]
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	d = newDriver(t, d.dir)
	if e := answerAs[*cronce.ConfigError](t, d, claimOf("job", tick(3))); !strings.Contains(e.What, "line 2") || !strings.Contains(e.What, path) {
		t.Errorf("refused with %v", e)
	}
	if runs, err := d.Runs(t.Context(), cronce.RunQuery{}); err != nil || len(runs) != 1 || !runs[0].Tick.Equal(tick(4)) {
		t.Errorf("runs %+v, %v; want the one that can be read", runs, err)
	}
	if jobs, err := d.Jobs(t.Context(), ""); err != nil || len(jobs) != 1 {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

// A newer program's journal is left alone.
func TestJournal_UnknownFormatIsRefused(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(5))))
	path := d.folder("job") + "/" + segmentName(1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.Replace(string(b), `"format":1`, `"format":2`, 1))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	answerAs[*cronce.ConfigError](t, newDriver(t, d.dir), claimOf("job", tick(4)))
	if after, _ := os.ReadFile(path); string(after) != string(b) {
		t.Error("the journal was changed")
	}
}

// What a newer program adds within the format is passed over.
func TestJournal_UnknownEventsAndFieldsAreIgnored(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(5))))
	f, err := os.OpenFile(d.folder("job")+"/"+segmentName(1), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, `{"event":"marvel","at":"2030-01-01T00:00:00Z","wonder":[1,2]}`)
	f.Close()
	answerAs[*cronce.TakenError](t, d, claimOf("job", tick(5)))
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(4))))
}

// A claimer that is stopped while it decides must not be waited for without
// end, and must be named.
func TestClaim_StoppedClaimerIsNamed(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := start(t, "stopped", d.dir)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.pid(), &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the claimer has not stopped: %v, %v", status, err)
	}
	d.patience = 50 * time.Millisecond
	e := answerAs[*cronce.UnavailableError](t, d, claimOf("job", tick(5)))
	if want := fmt.Sprintf("pid %d ", c.pid()); !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "stopped") {
		t.Errorf("%q does not name the stopped %s", e, want)
	}
	syscall.Kill(c.pid(), syscall.SIGCONT)
	if line := c.read(); line != "left" {
		t.Fatal(line)
	}
	mustClaim(t, d, claimOf("job", tick(5)))
}

// Deleting the lock file of a run, "to get rid of a stale lock", lets nobody in.
func TestClaim_DeletedLockFileStillHolds(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := start(t, "holder", d.dir)
	_, id, _ := strings.Cut(c.read(), " ")
	for i, harm := range []func() error{
		func() error { return os.Remove(d.folder("job") + "/" + jobLock) },
		func() error { return os.WriteFile(d.folder("job")+"/"+jobLock, nil, 0o600) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(5-i)))
		if e.Run.Skip != cronce.SkipOverlap || e.Holder == nil || e.Holder.ID != id || e.Holder.Holder.PID != c.pid() {
			t.Errorf("skipped by %+v, holder %+v; want run %s of pid %d", e.Run, e.Holder, id, c.pid())
		}
	}
	c.kill()
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(2))))
	if r := mustRun(t, d, id); r.Outcome != cronce.Lost {
		t.Errorf("the killed run is %+v, want lost", r)
	}
	// Nor does deleting it between runs do harm.
	if err := os.Remove(d.folder("job") + "/" + jobLock); err != nil {
		t.Fatal(err)
	}
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(1))))
}

// A run whose lock file was deleted can still report its end.
func TestFinish_AfterItsLockFileWasDeleted(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := start(t, "holder", d.dir)
	_, id, _ := strings.Cut(c.read(), " ")
	if err := os.Remove(d.folder("job") + "/" + jobLock); err != nil {
		t.Fatal(err)
	}
	answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(5)))
	c.stdin.Close()
	if line := c.read(); line != "finished" {
		t.Fatal(line)
	}
	if r := mustRun(t, d, id); r.Outcome != cronce.Succeeded {
		t.Errorf("the run is %+v", r)
	}
	mustClaim(t, d, claimOf("job", tick(4)))
}

// With the whole folder gone the record is gone, but not the exclusion: the
// holder is found by the file that it has open.
func TestClaim_DeletedFolderStillHolds(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := start(t, "holder", d.dir)
	c.read()
	if err := os.RemoveAll(d.folder("job")); err != nil {
		t.Fatal(err)
	}
	e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(5)))
	if e.Holder == nil || e.Holder.Holder.PID != c.pid() {
		t.Errorf("holder %+v, want pid %d", e.Holder, c.pid())
	}
	c.stdin.Close()
	if line := c.read(); !strings.HasPrefix(line, "finish: ") || !strings.Contains(line, cronce.ErrLost.Error()) {
		t.Errorf("its end is answered with %q, want that the lease is lost", line)
	}
	mustClaim(t, d, claimOf("job", tick(4)))
}

// Only the journal gone: the lock holds, whoever has it.
func TestClaim_DeletedJournalStillHolds(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := start(t, "holder", d.dir)
	c.read()
	if err := os.Remove(d.folder("job") + "/" + segmentName(1)); err != nil {
		t.Fatal(err)
	}
	e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(5)))
	if e.Holder == nil || e.Holder.Holder.PID != c.pid() {
		t.Errorf("holder %+v, want pid %d", e.Holder, c.pid())
	}
}

// The guard is killed and its work goes on: the job stays guarded, what keeps
// it is named, and the reason is that only left-overs do.
func TestClaim_WorkThatOutlivesItsGuardHolds(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	d.settle = 0
	g := start(t, "guard", d.dir)
	f := strings.Fields(g.read())
	id, work := f[1], f[2]
	workPID, err := strconv.Atoi(work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(workPID, syscall.SIGKILL) })
	if e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(5))); e.Run.Skip != cronce.SkipOverlap || e.Holder.Holder.PID != g.pid() {
		t.Errorf("while the guard lives: %+v, holder %+v", e.Run, e.Holder)
	}
	g.kill()
	e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(4)))
	if e.Run.Skip != cronce.SkipOrphans || e.Holder == nil || e.Holder.ID != id || e.Holder.Holder.PID != workPID {
		t.Errorf("skipped with %+v, holder %+v; want orphans, run %s, pid %d", e.Run, e.Holder, id, workPID)
	}
	if jobs, err := d.Jobs(t.Context(), "job"); err != nil || len(jobs[0].Live) != 1 || jobs[0].Live[0].Holder.PID != workPID {
		t.Errorf("jobs %+v, %v; want pid %d", jobs, err, workPID)
	}
	if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job"}); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, d, claimOf("job", tick(3)))
	if r := mustRun(t, d, id); r.Outcome != cronce.Lost {
		t.Errorf("the run is %+v, want lost", r)
	}
}

// Work that is left over when its run has been recorded as ended holds the job
// too, unless the run said that it should not.
func TestFinish_LeftoversHoldUnlessFreed(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	d.settle = 0
	leave := func(tick time.Time, free bool) *exec.Cmd {
		l := mustClaim(t, d, claimOf("job", tick))
		cmd := exec.Command("sleep", "1000")
		cmd.ExtraFiles = []*os.File{l.Lock}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		l.FreeLock = free
		mustFinish(t, d, l)
		return cmd
	}
	leave(tick(9), true)
	cmd := leave(tick(8), false) // let in beside the first
	e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(7)))
	if e.Run.Skip != cronce.SkipOrphans || e.Holder == nil || e.Holder.Holder.PID != cmd.Process.Pid || !e.Holder.Tick.Equal(tick(8)) {
		t.Errorf("skipped with %+v, holder %+v; want orphans of pid %d", e.Run, e.Holder, cmd.Process.Pid)
	}
	cmd.Process.Kill()
	cmd.Wait()
	mustClaim(t, d, claimOf("job", tick(6)))
}

// Left-overs that are just going cost no tick: nothing is decided for a moment.
func TestClaim_LeftoversGetAMoment(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	now := time.Now()
	d.clock = func() time.Time { return now }
	l := mustClaim(t, d, claimOf("job", tick(9)))
	copy, err := syscall.Dup(int(l.Lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	mustFinish(t, d, l)
	c := claimOf("job", tick(8))
	e := answerAs[*cronce.HeldError](t, d, c)
	if e.Holder.ID != l.Run.ID || !e.Offered.Equal(d.now()) {
		t.Errorf("held by %+v since %v, want run %s", e.Holder, e.Offered, l.Run.ID)
	}
	c.Offered = e.Offered
	syscall.Close(copy)
	l = mustClaim(t, d, c)
	if copy, err = syscall.Dup(int(l.Lock.Fd())); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(copy)
	mustFinish(t, d, l)
	c = claimOf("job", tick(7))
	c.Offered = answerAs[*cronce.HeldError](t, d, c).Offered
	now = now.Add(d.settle)
	if e := answerAs[*cronce.SkippedError](t, d, c); e.Run.Skip != cronce.SkipOrphans {
		t.Errorf("skipped with %+v, want orphans", e.Run)
	}
}

// A lease can be handed to another process with its lock: that is the holder
// then, though the one that claimed it has gone, and it can finish the run.
func TestRenew_LeaseIsHandedOver(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	d.settle = 0
	l := mustClaim(t, d, claimOf("job", tick(9)))
	// As if its claimer had been another process, which is gone.
	st := d.take("job")
	st.Open[0].Proc.Start--
	d.put("job", st)
	fd, err := syscall.Dup(int(l.Lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	kill(d)
	if e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(8))); e.Run.Skip != cronce.SkipOrphans {
		t.Errorf("before: %+v, want orphans", e.Run)
	}
	other := newDriver(t, d.dir)
	l.Lock = os.NewFile(uintptr(fd), "lock")
	l.Run.Holder.Via = "guard"
	if l, err = other.Renew(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(7)))
	if e.Run.Skip != cronce.SkipOverlap || e.Holder.Holder != l.Run.Holder {
		t.Errorf("after: %+v, holder %+v; want overlap with %+v", e.Run, e.Holder, l.Run.Holder)
	}
	for _, d := range []*driver{d, newDriver(t, d.dir)} {
		if r := mustRun(t, d, l.Run.ID); r.Holder != l.Run.Holder {
			t.Errorf("on record: %+v, want holder %+v", r, l.Run.Holder)
		}
	}
	l.Orphaned = true
	if l, err = other.Renew(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	d.segmentBytes = 1 // the next claim begins a segment: what was noted goes with it
	for n := 6; n > 4; n-- {
		if e := answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(n))); e.Run.Skip != cronce.SkipOrphans || e.Holder.Holder != l.Run.Holder {
			t.Errorf("orphaned: %+v, holder %+v", e.Run, e.Holder)
		}
	}
	lines := len(rawRecords(t, d, "job"))
	if l, err = other.Renew(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if n := len(rawRecords(t, d, "job")); n != lines {
		t.Errorf("a renewal without news wrote %d records", n-lines)
	}
	mustFinish(t, other, l)
	mustClaim(t, d, claimOf("job", tick(4)))
}

// Revocation ends the work first, so that its guard can still tell how it ended.
func TestRevoke_EndsTheWorkAndTheGuardRecordsIt(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	g := start(t, "guard", d.dir)
	id := strings.Fields(g.read())[1]
	if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if line := g.read(); line != "finished" {
		t.Fatal(line)
	}
	if r := mustRun(t, d, id); r.Outcome != cronce.Cancelled {
		t.Errorf("the run is %+v, want cancelled", r)
	}
	mustClaim(t, d, claimOf("job", tick(5)))
}

// A program that has other jobs as well is not ended for one of them, even if
// that one does not listen: it is named.
func TestRevoke_SparesAProgram(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	d.grace = 50 * time.Millisecond
	p := start(t, "program", d.dir)
	_, id, _ := strings.Cut(p.read(), " ")
	err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job", By: "ann"})
	var unavailable *cronce.UnavailableError
	if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d, which is there for other jobs too and is not ended for one", p.cmd.Process.Pid)) {
		t.Errorf("%v", err)
	}
	p.stdin.Close()
	if line := p.read(); line != "finished" {
		t.Fatal(line)
	}
	if r := mustRun(t, d, id); r.Outcome != cronce.Succeeded {
		t.Errorf("the run is %+v", r)
	}
}

// A holder that does not listen is killed after the grace.
func TestRevoke_KillsWhatDoesNotEnd(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	d.grace = 50 * time.Millisecond
	w := start(t, "wedged", d.dir)
	_, id, _ := strings.Cut(w.read(), " ")
	if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "job", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, d, claimOf("job", tick(5)))
	if r := mustRun(t, d, id); r.Outcome != cronce.Lost {
		t.Errorf("the run is %+v, want lost", r)
	}
	if state, _ := w.cmd.Process.Wait(); state == nil || state.Success() {
		t.Errorf("the holder ended with %v, want killed", state)
	}
}

// A symbolic link in the place of a lock file would lock another file.
func TestClaim_LinksAreRefused(t *testing.T) {
	for _, name := range []string{jobLock, segmentName(1)} {
		d := newDriver(t, t.TempDir()+"/store")
		l := mustClaim(t, d, claimOf("job", tick(6)))
		mustFinish(t, d, l)
		path := d.folder("job") + "/" + name
		os.Remove(path)
		if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path); err != nil {
			t.Fatal(err)
		}
		answerAs[*cronce.ConfigError](t, newDriver(t, d.dir), claimOf("job", tick(5)))
	}
}

// Jobs marks runs of dead processes as lost, so that they are seen before the
// next tick.
func TestJobs_FindsTheDead(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := start(t, "holder", d.dir)
	_, id, _ := strings.Cut(c.read(), " ")
	if jobs, err := d.Jobs(t.Context(), ""); err != nil || len(jobs) != 1 || len(jobs[0].Live) != 1 {
		t.Fatalf("jobs %+v, %v; want a live run", jobs, err)
	}
	c.kill()
	jobs, err := d.Jobs(t.Context(), "")
	if err != nil || len(jobs) != 1 || len(jobs[0].Live) != 0 || jobs[0].Last == nil || jobs[0].Last.Outcome != cronce.Lost {
		t.Fatalf("jobs %+v, %v; want none alive", jobs, err)
	}
	if r := mustRun(t, d, id); r.Outcome != cronce.Lost {
		t.Errorf("the run is %+v, want lost", r)
	}
}

// Somebody's files among the store's do no harm.
func TestJobs_ForeignFilesAreIgnored(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(5))))
	jobs := d.dir + "/jobs/"
	for _, dir := range []string{jobs + "lost+found", jobs + "job/sub", jobs + "copy-of-job"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(jobs + "job/" + segmentName(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		jobs + "README": "hello", jobs + "job/.nfs0001": "", jobs + "job/journal.000002.jsonl.bak": "x", jobs + "job/journal.2.jsonl": "x",
		jobs + "job/run.01.lock": "", jobs + "job/core": "x", d.dir + "/notes": "x", jobs + "copy-of-job/" + segmentName(1): string(b),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = newDriver(t, d.dir)
	if jobs, err := d.Jobs(t.Context(), ""); err != nil || len(jobs) != 1 || jobs[0].Job != "job" {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	if runs, err := d.Runs(t.Context(), cronce.RunQuery{}); err != nil || len(runs) != 1 {
		t.Errorf("runs %+v, %v", runs, err)
	}
	if n, err := d.Prune(t.Context(), "", time.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}
	mustClaim(t, d, claimOf("job", tick(4)))
	// The copy has the name of a job, and the journal of another.
	answerAs[*cronce.ConfigError](t, d, claimOf("copy-of-job", tick(4)))
}
