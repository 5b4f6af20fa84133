package cronce

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronce/cronce/schedule"
)

func mustParse(t testing.TB, expr string) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(expr, schedule.Options{Zone: time.UTC, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runTimetable runs the timetable for that long and returns when it has ended.
func runTimetable(tt *Timetable, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	tt.Run(ctx)
}

// Every tick of every entry is called once, on time and in order.
func TestTimetable_CallsEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tt Timetable
		start := time.Now()
		exprs := []string{"* * * * *", "*/5 * * * *", "0 * * * *", "@every 7s", "30 2 * * *", "*/10 * * * * *"}
		got := make([][]time.Time, len(exprs))
		var order []time.Time
		for i, expr := range exprs {
			tt.Add(mustParse(t, expr), func(tick time.Time) {
				if late := time.Since(tick); late != 0 {
					t.Errorf("%s: tick %v called %v late", expr, tick, late)
				}
				got[i] = append(got[i], tick.UTC())
				order = append(order, tick)
			})
		}
		const span = 26 * time.Hour
		runTimetable(&tt, span+time.Millisecond)
		for i, expr := range exprs {
			var want []time.Time
			s := mustParse(t, expr)
			for at := s.Next(start); !at.After(start.Add(span)); at = s.Next(at) {
				want = append(want, at.UTC())
			}
			if !slices.EqualFunc(got[i], want, time.Time.Equal) {
				t.Errorf("%s: called %d ticks, want %d", expr, len(got[i]), len(want))
			}
		}
		if !slices.IsSortedFunc(order, time.Time.Compare) {
			t.Error("ticks were called out of order")
		}
	})
}

// Entries that come and go while it runs are called exactly while they are in.
func TestTimetable_AddAndRemoveWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tt Timetable
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { tt.Run(ctx); close(done) }()

		time.Sleep(90 * time.Minute) // long idle: an addition must wake it
		rng := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			calls := 0
			e := tt.Add(mustParse(t, "@every 1s"), func(time.Time) { calls++ })
			seconds := rng.IntN(5)
			time.Sleep(time.Duration(seconds)*time.Second + time.Millisecond)
			tt.Remove(e)
			time.Sleep(3 * time.Second)
			// The first second is whole only by chance.
			if calls < seconds || calls > seconds+1 {
				t.Fatalf("in for %d s and called %d times", seconds, calls)
			}
		}
		cancel()
		<-done
	})
}

// After a stall only the newest tick is called, and the others are named.
func TestTimetable_StallCallsTheNewestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tt Timetable
		start := time.Now()
		var ticks, missed []time.Time
		stall := true
		tt.Missed = func(_ *Entry, first, last time.Time) { missed = append(missed, first, last) }
		tt.Add(mustParse(t, "@every 10s"), func(tick time.Time) {
			ticks = append(ticks, tick)
			if stall {
				stall = false
				time.Sleep(44 * time.Second) // as a stopped process: the clock goes on
			}
		})
		runTimetable(&tt, 75*time.Second)
		at := func(seconds ...int) (list []time.Time) {
			for _, s := range seconds {
				list = append(list, start.Add(time.Duration(s)*time.Second))
			}
			return list
		}
		if want := at(10, 50, 60, 70); !slices.EqualFunc(ticks, want, time.Time.Equal) {
			t.Errorf("called %v, want %v", ticks, want)
		}
		if want := at(20, 40); !slices.EqualFunc(missed, want, time.Time.Equal) {
			t.Errorf("missed %v, want %v", missed, want)
		}
	})
}

// A schedule that ends (the horizon of package schedule) is no busy loop, and
// an empty timetable waits.
func TestTimetable_EmptyAndZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tt Timetable
		runTimetable(&tt, time.Hour)
		tt.Add(mustParse(t, "0 0 1 1 *"), func(time.Time) {})
		runTimetable(&tt, time.Hour)
	})
}

// A clock that is set back is followed, and so is one set forward by a year.
func TestTimetable_ClockSet(t *testing.T) {
	var tt Timetable
	var ticks []time.Time
	tt.Add(mustParse(t, "@every 1h"), func(tick time.Time) { ticks = append(ticks, tick) })
	noon := time.Now().Truncate(time.Hour).Add(24 * time.Hour)
	want := []time.Time{}
	for _, step := range []struct {
		to    time.Time
		calls bool
	}{
		{noon, true},
		{noon.Add(59 * time.Minute), false},
		{noon.Add(time.Hour), true},
		{noon.Add(-time.Minute), false}, // an hour back
		{noon, true},                    // the store knows that it ran already
		{noon.AddDate(1, 0, 0), true},   // a year ahead
		{noon.Add(time.Minute), false},  // and back
		{noon.Add(time.Hour), true},
	} {
		tt.look(t.Context(), step.to)
		if step.calls {
			want = append(want, step.to)
		}
		if !slices.EqualFunc(ticks, want, time.Time.Equal) {
			t.Fatalf("at %v: called %v, want %v", step.to, ticks, want)
		}
	}
}

// Over changes of its schedule an entry is called at every tick that both the
// old and the new schedule have, exactly once.
func TestTimetable_Reschedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tt Timetable
		calls := map[time.Time]int{}
		seconds := mustParse(t, "* * * * * *")
		both := []*schedule.Schedule{seconds, mustParse(t, "* * * * * * | 0 * * * *")}
		e := tt.Add(seconds, func(tick time.Time) { calls[tick]++ })
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { tt.Run(ctx); close(done) }()
		const changes = 2000
		for i := range changes {
			tt.Reschedule(e, both[i%2])
			time.Sleep(37 * time.Millisecond) // often, and often at a tick
		}
		cancel()
		<-done
		for tick := start.Truncate(time.Second).Add(time.Second); tick.Before(time.Now().Add(-time.Second)); tick = tick.Add(time.Second) {
			if calls[tick] != 1 {
				t.Errorf("tick %v was called %d times", tick, calls[tick])
			}
		}
		// And to a schedule with other ticks, while the bucket of the old one is due.
		tt.Reschedule(e, mustParse(t, "0 0 1 1 *"))
		before := len(calls)
		runTimetable(&tt, time.Hour)
		if len(calls) != before {
			t.Errorf("the old schedule was called after the change")
		}
	})
}
