package localstore

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

const mayMount = "CRONCE_LOCALSTORE_TEST_MAY_MOUNT"

// withMount runs a test that mounts file systems: here where that is allowed,
// else in a mount namespace of its own.
func withMount(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err == nil {
		syscall.Unmount(dir, 0)
		test(t)
		return
	} else if os.Getenv(mayMount) != "" {
		t.Fatalf("mount in a namespace of its own: %v", err)
	}
	cmd := exec.Command("unshare", "-rm", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mayMount+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a namespace of its own: %v\n%s", err, out)
	}
}

// tmpfs mounts a small disk.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{4096, 64, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// refused makes claims until one is refused. What a former run had reserved
// and did not need may do for a few.
func refused(t *testing.T, d *driver, job string) *cronce.UnavailableError {
	t.Helper()
	for range 20 {
		l, err := cronce.NewStore(d).Claim(t.Context(), claimOf(job, time.Time{}))
		var e *cronce.UnavailableError
		if errors.As(err, &e) {
			return e
		}
		if err != nil {
			t.Fatal(err)
		}
		mustFinish(t, d, l)
	}
	t.Fatal("claims go on on a full disk")
	return nil
}

// On a full disk nothing is started, and the error says so. Once there is
// room, the tick can be decided.
func TestDisk_FullAtTheClaim(t *testing.T) {
	withMount(t, func(t *testing.T) {
		disk := tmpfs(t, "size=128k")
		d := newDriver(t, disk+"/store")
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
		fill(t, disk+"/rest")
		for _, job := range []string{"job", "new"} {
			e := refused(t, d, job)
			if !errors.Is(e, syscall.ENOSPC) || !strings.Contains(e.Error(), "disk is full") || !strings.Contains(e.Error(), "not started") {
				t.Errorf("%v", e)
			}
		}
		if jobs, err := d.Jobs(t.Context(), ""); err != nil || len(jobs) != 1 || len(jobs[0].Live) != 0 {
			t.Errorf("jobs %+v, %v; want the old one, idle", jobs, err)
		}
		before := len(rawRecords(t, d, "job"))
		answerAs[*cronce.UnavailableError](t, d, claimOf("job", tick(8)))
		if n := len(rawRecords(t, d, "job")); n != before {
			t.Errorf("a refused claim left %d records", n-before)
		}
		if err := os.Remove(disk + "/rest"); err != nil {
			t.Fatal(err)
		}
		for _, job := range []string{"job", "new"} {
			mustFinish(t, d, mustClaim(t, d, claimOf(job, tick(8))))
		}
	})
}

// A disk that fills up during the run takes its end all the same, and what it
// cannot take, the output, does not matter to the record.
func TestDisk_FullDuringTheRun(t *testing.T) {
	withMount(t, func(t *testing.T) {
		disk := tmpfs(t, "size=256k")
		d := newDriver(t, disk+"/store")
		var runs []cronce.Lease
		for i := range 5 {
			c := claimOf("job", tick(9-i))
			c.Overlap.Policy = cronce.OverlapAllow
			runs = append(runs, mustClaim(t, d, c))
		}
		fill(t, disk+"/rest")
		long := cronce.Result{
			Outcome: cronce.Failed, Signal: strings.Repeat("\x01", 1000), Message: strings.Repeat("\x01", 1000),
			Output: make([]byte, maxOutput), OutputBytes: 1 << 40, ExitCode: -1 << 31,
		}
		another := func() cronce.Claim {
			c := claimOf("job", time.Time{})
			c.Overlap.Policy = cronce.OverlapAllow
			return c
		}
		answerAs[*cronce.UnavailableError](t, d, another())
		for i := 0; i < len(runs); i++ {
			// A claim may take what an end left over, never what one needs.
			if i < 10 {
				if l, err := cronce.NewStore(d).Claim(t.Context(), another()); err == nil {
					runs = append(runs, l)
				}
			}
			l := runs[i]
			if err := d.Finish(t.Context(), l, long); err != nil {
				t.Fatalf("the end of a run on a full disk: %v", err)
			}
			if r := mustRun(t, newDriver(t, d.dir), l.Run.ID); r.Outcome != cronce.Failed || r.OutputBytes != 1<<40 || r.Output != nil {
				t.Errorf("on record: %+v, want all but the output", r)
			}
		}
	})
}

// Where the disk cannot reserve, a claim is as good as without.
func TestDisk_WithoutReservation(t *testing.T) {
	withMount(t, func(t *testing.T) {
		disk := t.TempDir()
		if err := syscall.Mount("none", disk, "ramfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
		f, err := os.Create(disk + "/f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Fallocate(int(f.Fd()), fallocKeepSize, 0, 4096); err != syscall.EOPNOTSUPP {
			t.Fatalf("fallocate on ramfs: %v; the test needs a file system without it", err)
		}
		d := newDriver(t, disk+"/store")
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
		answerAs[*cronce.TakenError](t, d, claimOf("job", tick(9)))
	})
}

// A disk that became read-only, as after an error, starts nothing.
func TestDisk_ReadOnly(t *testing.T) {
	withMount(t, func(t *testing.T) {
		disk := tmpfs(t, "size=256k")
		d := newDriver(t, disk+"/store")
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(9))))
		if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=256k"); err != nil {
			t.Fatal(err)
		}
		if e := answerAs[*cronce.UnavailableError](t, d, claimOf("job", tick(8))); !errors.Is(e, syscall.EROFS) || !strings.Contains(e.Error(), "not started") {
			t.Errorf("%v", e)
		}
		var config *cronce.ConfigError
		if _, err := openDriver(Options{Dir: d.dir}, testHost(t)); !errors.As(err, &config) || !strings.Contains(config.What, "read-only") {
			t.Errorf("opening it: %v", err)
		}
		// It can still be looked at.
		looker, err := openDriver(Options{Dir: d.dir, ReadOnly: true}, testHost(t))
		if err != nil {
			t.Fatal(err)
		}
		if runs, err := looker.Runs(t.Context(), cronce.RunQuery{}); err != nil || len(runs) != 1 {
			t.Errorf("runs %+v, %v", runs, err)
		}
		if jobs, err := looker.Jobs(t.Context(), ""); err != nil || len(jobs) != 1 {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
		answerAs[*cronce.ConfigError](t, looker, claimOf("job", tick(7)))
	})
}

// An fsync that fails leaves it unknown whether the decision will be there
// after a crash: nothing is started, the record is taken back, and the same
// claim can be made again.
func TestDisk_FsyncFails(t *testing.T) {
	for _, failAt := range []int{1, 2} { // the segment's own, and its folder's
		d := newDriver(t, t.TempDir()+"/store")
		calls := 0
		d.fsync = func(fd int) error {
			if calls++; calls == failAt {
				return syscall.EIO
			}
			return fsync(fd)
		}
		c := claimOf("job", tick(9))
		if e := answerAs[*cronce.UnavailableError](t, d, c); !errors.Is(e, syscall.EIO) {
			t.Errorf("%v", e)
		}
		if runs, err := newDriver(t, d.dir).Runs(t.Context(), cronce.RunQuery{}); err != nil || len(runs) != 0 {
			t.Errorf("after fsync %d failed: %+v, %v", failAt, runs, err)
		}
		mustFinish(t, d, mustClaim(t, d, c))
		if calls = 0; failAt == 1 { // now in a segment that exists: its own only
			answerAs[*cronce.UnavailableError](t, d, claimOf("job", tick(8)))
		}
		d.fsync = fsync
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(8))))
		if n := len(rawRecords(t, d, "job")); n != 5 {
			t.Errorf("%d records, want 5", n)
		}
	}
}

// Where the record could not even be taken back, the same claim finds it and
// gets its lease; any other claim finds the tick decided.
func TestClaim_RepeatedAfterAnUnknownOutcome(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := claimOf("job", tick(9))
	l := mustClaim(t, d, c)
	// The claim's answer is lost, and its lock with it; the record stands.
	kill(d)
	again := mustClaim(t, d, c)
	if again.Run.Fence != l.Run.Fence || again.Lock == nil {
		t.Errorf("the lease is %+v, was %+v", again, l)
	}
	e := answerAs[*cronce.TakenError](t, newDriver(t, d.dir), claimOf("job", tick(9)))
	if !e.Run.Live() {
		t.Errorf("taken by %+v, want it alive", e.Run)
	}
	mustFinish(t, d, again)
}

// The folder disappears while a claim is made in it: the claim does not count.
func TestClaim_FolderDeletedMeanwhile(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	d.fsync = func(fd int) error {
		os.RemoveAll(d.folder("job"))
		return fsync(fd)
	}
	if e := answerAs[*cronce.UnavailableError](t, d, claimOf("job", tick(9))); !strings.Contains(e.Error(), "not started") {
		t.Errorf("%v", e)
	}
	d.fsync = fsync
	mustClaim(t, d, claimOf("job", tick(9)))
}

// The clock set back an hour does not make ticks that ran run again, and the
// hours until then can be decided as ever.
func TestClock_SetBack(t *testing.T) {
	d := quick(newDriver(t, t.TempDir()+"/store"))
	now := time.Date(2030, 3, 1, 12, 0, 30, 0, time.UTC)
	d.clock = func() time.Time { return now }
	minute := func(n int) time.Time { return time.Date(2030, 3, 1, 12, n, 0, 0, time.UTC) }
	var last int64
	for n := -90; n <= 0; n++ {
		l := mustClaim(t, d, claimOf("job", minute(n)))
		last = l.Run.Fence
		mustFinish(t, d, l)
	}
	now = now.Add(-time.Hour)
	for n := -90; n <= 0; n++ {
		answerAs[*cronce.TakenError](t, d, claimOf("job", minute(n)))
	}
	answerAs[*cronce.SkewError](t, d, claimOf("job", minute(1)))
	l := mustClaim(t, d, claimOf("job", minute(-91)))
	if l.Run.Fence <= last {
		t.Errorf("fence %d after %d", l.Run.Fence, last)
	}
	mustFinish(t, d, l)
}

// A clock that was in the far future for a day blocks no tick afterwards, also
// when history was pruned in that time.
func TestClock_OnceInTheFarFuture(t *testing.T) {
	for _, prune := range []bool{false, true} {
		d := quick(newDriver(t, t.TempDir()+"/store"))
		d.segmentBytes, d.keepBytes = 2<<10, 8<<10
		now := time.Date(2030, 3, 1, 12, 0, 30, 0, time.UTC)
		d.clock = func() time.Time { return now }
		run := func() {
			t.Helper()
			mustFinish(t, d, mustClaim(t, d, claimOf("job", now.Truncate(time.Minute))))
			answerAs[*cronce.TakenError](t, d, claimOf("job", now.Truncate(time.Minute)))
		}
		for range 30 {
			run()
			now = now.Add(time.Minute)
		}
		right := now
		now = time.Date(2099, 1, 1, 0, 0, 30, 0, time.UTC)
		for range 30 {
			run()
			now = now.Add(time.Minute)
		}
		if prune {
			if _, err := d.Prune(t.Context(), "", right.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		// All of it is dropped that may be: what was decided stays so.
		future := now.Add(-time.Minute).Truncate(time.Minute)
		now = right
		for range 300 {
			run()
			now = now.Add(time.Minute)
		}
		if n := len(segments(t, d, "job")); n > 6 {
			t.Errorf("%d segments of 2 KiB kept, of at most 8 KiB", n)
		}
		if n, err := d.Prune(t.Context(), "", time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil || n == 0 {
			t.Errorf("pruned %d, %v", n, err)
		}
		run()
		answerAs[*cronce.TakenError](t, d, claimOf("job", future))
	}
}

// A wait is measured by the time that passes, not by the clock: set back an
// hour, it does not make a wait of a minute one of an hour more.
func TestClock_SetBackDuringAWait(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	elapsed := time.Duration(0)
	// Add changes the clock's reading and the monotonic one alike.
	d.clock = func() time.Time { return time.Now().Add(elapsed) }
	mustClaim(t, d, claimOf("job", tick(120)))
	c := claimOf("job", tick(119))
	c.Overlap = cronce.Overlap{Policy: cronce.OverlapWait, Wait: time.Minute}
	c.Offered = answerAs[*cronce.HeldError](t, d, c).Offered
	elapsed = 61 * time.Second
	c.Offered = c.Offered.Add(time.Hour) // as it looks after the clock was set back
	answerAs[*cronce.SkippedError](t, d, c)
}
