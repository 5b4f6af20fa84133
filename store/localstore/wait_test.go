package localstore

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

func waitFor(job string, n int) cronce.Claim {
	c := claimOf(job, tick(n))
	c.Overlap = cronce.Overlap{Policy: cronce.OverlapWait, Wait: time.Hour}
	return c
}

// When the holder has ended, the waiter goes first, though it looks only ten
// times a second: a later tick that comes in between is skipped.
func TestWait_WaiterGoesFirst(t *testing.T) {
	dir := t.TempDir() + "/store"
	d, waiter, other := newDriver(t, dir), newDriver(t, dir), newDriver(t, dir)
	l := mustClaim(t, d, claimOf("job", tick(9)))
	c := waitFor("job", 8)
	c.Holder = cronce.Holder{Host: "elsewhere", PID: 12}
	c.Offered = answerAs[*cronce.HeldError](t, waiter, c).Offered
	mustFinish(t, d, l)
	e := answerAs[*cronce.SkippedError](t, other, claimOf("job", tick(7)))
	if e.Run.Skip != cronce.SkipOverlap || e.Run.Held != c.RunID || e.Holder == nil || e.Holder.Holder != c.Holder {
		t.Errorf("skipped with %+v, holder %+v; want the waiter %s", e.Run, e.Holder, c.RunID)
	}
	late := claimOf("job", tick(10))
	late.CatchUp = true
	if e := answerAs[*cronce.HeldError](t, other, late); e.Holder.ID != c.RunID {
		t.Errorf("held by %+v, want the waiter", e.Holder)
	}
	mustFinish(t, waiter, mustClaim(t, waiter, c))
	mustFinish(t, other, mustClaim(t, other, late))
	mustFinish(t, other, mustClaim(t, other, claimOf("job", tick(6))))
}

// A waiter whose time is over is no longer waited for, even if its process is
// stopped and cannot say so.
func TestWait_StoppedWaiterBlocksNobodyForEver(t *testing.T) {
	dir := t.TempDir() + "/store"
	d, waiter := newDriver(t, dir), newDriver(t, dir)
	l := mustClaim(t, d, claimOf("job", tick(9)))
	answerAs[*cronce.HeldError](t, waiter, waitFor("job", 8))
	mustFinish(t, d, l)
	answerAs[*cronce.SkippedError](t, d, claimOf("job", tick(7)))
	d.clock = func() time.Time { return time.Now().Add(time.Hour + waitMargin + time.Second) }
	mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(6))))
}

// A program that goes on and merely stops asking gives up its place.
func TestWait_ForgottenPlaceIsFreed(t *testing.T) {
	dir := t.TempDir() + "/store"
	d, waiter := newDriver(t, dir), newDriver(t, dir)
	waiter.waitForgotten = 10 * time.Millisecond
	mustClaim(t, d, claimOf("job", tick(9)))
	answerAs[*cronce.HeldError](t, waiter, waitFor("job", 8))
	f, err := os.OpenFile(d.folder("job")+"/"+waitLock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := retry(func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	answerAs[*cronce.HeldError](t, d, waitFor("job", 7)) // the place, not a skip
}
