package cronce_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronce/cronce"
)

// ranTicks is what a job ran for, in order.
type ranTicks struct {
	mu    sync.Mutex
	ticks []time.Time
}

func (l *ranTicks) work(_ context.Context, run cronce.Run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticks = append(l.ticks, run.Tick)
	return nil
}

func (l *ranTicks) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ticks)
}

// minutes are the ticks' minutes since start.
func (l *ranTicks) minutes(start time.Time) (m []int) {
	for _, t := range l.ticks {
		m = append(m, int(t.Sub(start)/time.Minute))
	}
	return m
}

// toNextHour sleeps until the next whole hour and returns it.
func toNextHour() time.Time {
	next := time.Now().Truncate(time.Hour).Add(time.Hour)
	time.Sleep(time.Until(next))
	return next
}

// After downtime what passed is offered as the policy says: in order, within
// the window, never what was decided, never before the definition was known,
// never what was paused.
func TestScheduler_Catchup(t *testing.T) {
	for _, c := range []struct {
		name string
		job  cronce.Job
		down time.Duration
		want []int // minutes after the hour at which the first scheduler ends
	}{
		{"last", cronce.Job{Schedule: "*/10 * * * *"}, 35*time.Minute + 30*time.Second, []int{30, 40}},
		{"last, older than its window", cronce.Job{Schedule: "*/30 * * * *", CatchupWindow: 5 * time.Minute}, 38 * time.Minute, []int{60}},
		{"last, by default within an hour", cronce.Job{Schedule: "0 */2 * * *"}, 2*time.Hour + 30*time.Minute, []int{180}},
		{"skip", cronce.Job{Schedule: "*/10 * * * *", Catchup: cronce.CatchupSkip}, 35 * time.Minute, []int{40}},
		{"all", cronce.Job{Schedule: "*/10 * * * *", Catchup: cronce.CatchupAll, CatchupWindow: 24 * time.Hour}, 35 * time.Minute, []int{10, 20, 30, 40}},
		{"all, within the window", cronce.Job{Schedule: "*/10 * * * *", Catchup: cronce.CatchupAll, CatchupWindow: 12 * time.Minute}, 35 * time.Minute, []int{30, 40}},
		{"no downtime", cronce.Job{Schedule: "*/10 * * * *", Catchup: cronce.CatchupAll, CatchupWindow: 24 * time.Hour}, time.Minute, []int{10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir() + "/store"
			synctest.Test(t, func(t *testing.T) {
				c.job.Name, c.job.Zone = "job", "UTC"
				store := openStore(t, dir)
				run := func(until time.Time) *ranTicks {
					l := &ranTicks{}
					s := &cronce.Scheduler{Store: store}
					if err := s.Add(c.job, l.work); err != nil {
						t.Fatal(err)
					}
					runFor(time.Until(until), s)
					return l
				}
				toNextHour()
				time.Sleep(time.Second)
				first := run(time.Now().Truncate(time.Hour).Add(2*time.Hour + time.Second)) // up to a tick of all of them
				end := time.Now().Truncate(time.Hour)
				if len(first.ticks) == 0 || !first.ticks[len(first.ticks)-1].Equal(end) && c.job.Schedule != "0 */2 * * *" {
					t.Fatalf("the first scheduler ran %v", first.minutes(end))
				}
				time.Sleep(c.down)
				last := end.Add(time.Duration(c.want[len(c.want)-1]) * time.Minute)
				second := run(last.Add(time.Second))
				if got := second.minutes(end); !slices.Equal(got, c.want) {
					t.Errorf("ran for minutes %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A first start has missed nothing, and neither has a job whose definition is
// new, or one that was paused.
func TestScheduler_CatchupOnlyWhatWasDue(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, dir)
		run := func(schedule string, d time.Duration) []int {
			hour := time.Now().Truncate(time.Hour)
			l := &ranTicks{}
			s := &cronce.Scheduler{Store: store}
			job := cronce.Job{Name: "job", Schedule: schedule, Zone: "UTC", Catchup: cronce.CatchupAll, CatchupWindow: 24 * time.Hour}
			if err := s.Add(job, l.work); err != nil {
				t.Fatal(err)
			}
			runFor(d, s)
			return l.minutes(hour)
		}
		request := func(kind cronce.RequestKind) {
			t.Helper()
			if err := store.Request(t.Context(), cronce.Request{Kind: kind, Job: "job", By: "ops"}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(got []int, minutes ...int) {
			t.Helper()
			if !slices.Equal(got, minutes) {
				t.Errorf("ran for minutes %v, want %v", got, minutes)
			}
		}
		toNextHour()
		time.Sleep(25*time.Minute + time.Second)
		want(run("*/10 * * * *", time.Minute)) // a first start
		time.Sleep(10 * time.Minute)
		want(run("*/5 * * * *", time.Minute)) // another definition
		request(cronce.Pause)
		time.Sleep(10 * time.Minute)
		want(run("*/5 * * * *", time.Minute)) // paused
		request(cronce.Resume)
		time.Sleep(4 * time.Minute)               // :51, and :50 was after the resume
		want(run("*/5 * * * *", time.Minute), 50) // what passed since
	})
}

// What others ran until NotBefore is run neither by the scheduler that is told
// so nor by one that comes after it; what passes later is caught up as ever.
func TestScheduler_NotBefore(t *testing.T) {
	for policy, want := range map[cronce.Catchup][]int{cronce.CatchupLast: {50}, cronce.CatchupAll: {40, 50}} {
		dir := t.TempDir() + "/store"
		synctest.Test(t, func(t *testing.T) {
			store := openStore(t, dir)
			run := func(d time.Duration, notBefore time.Time) []int {
				hour := time.Now().Truncate(time.Hour)
				l := &ranTicks{}
				s := &cronce.Scheduler{Store: store, NotBefore: notBefore}
				job := cronce.Job{Name: "job", Schedule: "*/10 * * * *", Zone: "UTC", Catchup: policy, CatchupWindow: 24 * time.Hour}
				if err := s.Add(job, l.work); err != nil {
					t.Fatal(err)
				}
				runFor(d, s)
				return l.minutes(hour)
			}
			toNextHour()
			time.Sleep(time.Second)
			run(time.Minute, time.Time{}) // so that the job is known
			time.Sleep(34 * time.Minute)  // others run :10, :20 and :30
			if got := run(time.Minute, time.Now()); len(got) > 0 {
				t.Errorf("%v: ran for minutes %v all the same", policy, got)
			}
			cut := time.Now()
			if got := run(time.Minute, time.Time{}); len(got) > 0 {
				t.Errorf("%v: the next one ran for minutes %v", policy, got)
			}
			time.Sleep(16 * time.Minute) // :40 and :50 are nobody's
			if got := run(time.Minute, cut); !slices.Equal(got, want) {
				t.Errorf("%v: ran for minutes %v, want %v", policy, got, want)
			}
			runs, err := store.Runs(t.Context(), cronce.RunQuery{Job: "job"})
			if err != nil || len(runs) == 0 || runs[0].Skip != cronce.SkipLate {
				t.Errorf("%v: on record is %+v, %v", policy, runs, err)
			}
		})
	}
}

// A held job keeps its backlog: catch-up ticks are not skipped for a run that
// goes on, and run when it has ended, in order and one at a time.
func TestScheduler_HeldLeaseDoesNotEatTheBacklog(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, dir)
		job := cronce.Job{Name: "job", Schedule: "*/10 * * * *", Zone: "UTC", Catchup: cronce.CatchupAll, CatchupWindow: 2 * time.Hour}
		start := toNextHour()
		time.Sleep(time.Second)
		s := &cronce.Scheduler{Store: store}
		if err := s.Add(job, func(context.Context, cronce.Run) error { return nil }); err != nil {
			t.Fatal(err)
		}
		runFor(time.Second, s)
		time.Sleep(35 * time.Minute)
		// A run by hand holds the job.
		l, err := store.Claim(t.Context(), cronce.Claim{RunID: cronce.NewRunID(), Job: "job"})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(3 * time.Minute)
			if err := store.Finish(context.Background(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
				t.Error(err)
			}
		}()
		l2 := &ranTicks{}
		living := 0
		s = &cronce.Scheduler{Store: store}
		err = s.Add(job, func(ctx context.Context, run cronce.Run) error {
			if living++; living > 1 {
				t.Error("two runs at once")
			}
			time.Sleep(10 * time.Second)
			living--
			return l2.work(ctx, run)
		})
		if err != nil {
			t.Fatal(err)
		}
		runFor(4*time.Minute, s)
		if got := l2.minutes(start); !slices.Equal(got, []int{10, 20, 30}) {
			t.Errorf("ran for minutes %v, want 10, 20 and 30", got)
		}
	})
}

// Jitter delays the offer by the same time everywhere, not the tick's name.
func TestScheduler_Jitter(t *testing.T) {
	var lates [2]map[time.Time]time.Duration
	for i := range lates {
		dir := t.TempDir() + "/store"
		synctest.Test(t, func(t *testing.T) {
			lates[i] = map[time.Time]time.Duration{}
			s := &cronce.Scheduler{Store: openStore(t, dir)}
			err := s.Add(cronce.Job{Name: "job", Schedule: "* * * * *", Jitter: 30 * time.Second}, func(_ context.Context, run cronce.Run) error {
				lates[i][run.Tick] = time.Since(run.Tick)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			runFor(time.Hour, s)
		})
	}
	distinct := map[time.Duration]bool{}
	for tick, late := range lates[0] {
		if late < 0 || late >= 30*time.Second || lates[1][tick] != late {
			t.Errorf("tick %v was %v late here and %v there", tick, late, lates[1][tick])
		}
		distinct[late] = true
	}
	if len(distinct) < 30 {
		t.Errorf("only %d different delays in %d ticks", len(distinct), len(lates[0]))
	}
}

// At most MaxRunning runs go on at once, and a burst is worked off in the order
// of ticks.
func TestScheduler_MaxRunning(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		const bound, jobs = 4, 40
		toNextHour()
		time.Sleep(time.Hour - time.Second)
		s := &cronce.Scheduler{Store: openStore(t, dir), MaxRunning: bound}
		var mu sync.Mutex
		living, most := 0, 0
		l := &ranTicks{}
		for i := range jobs {
			job := cronce.Job{Name: fmt.Sprint("job", i), Schedule: fmt.Sprintf("%d 0 * * * *", i%3), StartDeadline: time.Hour}
			err := s.Add(job, func(ctx context.Context, run cronce.Run) error {
				mu.Lock()
				living++
				most = max(most, living)
				mu.Unlock()
				time.Sleep(20 * time.Second)
				mu.Lock()
				living--
				mu.Unlock()
				return l.work(ctx, run)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		runFor(20*time.Minute, s)
		if most != bound || len(l.ticks) != jobs {
			t.Errorf("at most %d at once, want %d; %d runs, want %d", most, bound, len(l.ticks), jobs)
		}
		// Those that go on at the same time end in any order.
		for i := bound; i < len(l.ticks); i++ {
			if l.ticks[i].Before(l.ticks[i-bound]) {
				t.Errorf("tick %v ran after %v", l.ticks[i], l.ticks[i-bound])
			}
		}
	})
}

// Over many replacements of all jobs no tick of those that stay is lost or run
// twice, and what is taken out does not run.
func TestScheduler_Set(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, dir)
		s := &cronce.Scheduler{Store: store, Report: func(e cronce.Event) {
			if e.Kind == cronce.EventRefused || e.Kind == cronce.EventSkipped || e.Kind == cronce.EventMissed {
				t.Errorf("%s: tick %v: %v", e.Job, e.Tick, e.Err)
			}
		}}
		stays, goes := &ranTicks{}, &ranTicks{}
		plan := func(name, schedule string, l *ranTicks) cronce.Plan {
			return cronce.Plan{Job: cronce.Job{Name: name, Schedule: schedule, Zone: "UTC"},
				Work: func(ctx context.Context, lease cronce.Lease, _ func()) (cronce.Result, error) {
					return store.Hold(ctx, lease, 0, func(ctx context.Context) cronce.Result {
						l.work(ctx, lease.Run)
						return cronce.Result{Outcome: cronce.Succeeded}
					})
				}}
		}
		if err := s.Set([]cronce.Plan{plan("stays", "@every 5s", stays)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		start := time.Now()
		for i := range 300 {
			plans := []cronce.Plan{plan("stays", []string{"@every 5s", "@every 5s | 0 * * * *"}[i%2], stays)}
			if i%3 == 0 {
				plans = append(plans, plan("goes", "@every 7s", goes))
			}
			if err := s.Set(plans); err != nil {
				t.Fatal(err)
			}
			time.Sleep(330 * time.Millisecond)
		}
		if err := s.Set([]cronce.Plan{plan("x", "61 * * * *", goes)}); err == nil {
			t.Error("a schedule that is none was taken")
		}
		if err := s.Set([]cronce.Plan{plan("stays", "@every 5s", stays)}); err != nil {
			t.Fatal(err)
		}
		ran := goes.count()
		time.Sleep(30 * time.Second)
		cancel()
		<-done
		if goes.count() != ran {
			t.Error("a job that was taken out ran")
		}
		seen := map[time.Time]bool{}
		for _, tick := range stays.ticks {
			if seen[tick.UTC()] {
				t.Errorf("tick %v ran twice", tick)
			}
			seen[tick.UTC()] = true
		}
		for tick := start.Truncate(time.Second); tick.Before(time.Now()); tick = tick.Add(time.Second) {
			if tick.After(start) && tick.Unix()%5 == 0 && !seen[tick.UTC()] {
				t.Errorf("tick %v was lost", tick)
			}
		}
	})
}
