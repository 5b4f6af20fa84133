package cronce

import (
	"testing"
	"testing/synctest"
	"time"
)

// local is a store in memory that is one machine's.
type local struct{ *shared }

func (local) Local() {}

// A tick that comes while a machine is busy adding its job is neither before the
// job was added nor after it, if the two are asked of the clock twice: then no
// start catches it up, and no timetable calls it.
func TestScheduler_StartsOnATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{ran: map[string]int{}}
		job := Job{Name: "j", Schedule: "* * * * *", Zone: "UTC", Catchup: CatchupAll}
		store := NewStore(local{newShared()})
		if err := store.Request(t.Context(), Request{Kind: Define, Job: "j", Definition: job.Definition()}); err != nil {
			t.Fatal(err)
		}
		tick := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(tick) - 50*time.Millisecond)
		s := f.scheduler(store)
		s.timetable.clock = func() time.Time {
			if s.ctx == nil { // it is being added
				time.Sleep(100 * time.Millisecond)
			}
			return time.Now()
		}
		f.add(t, s, time.Second, job)
		runAll(30*time.Second, s)
		if f.ran["j "+Stamp(tick)] != 1 || len(f.ran) != 1 {
			t.Errorf("the runs were %v, want one of %v", f.ran, tick)
		}
	})
}
