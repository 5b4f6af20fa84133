package cronce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rerunJob is due each hour, and is run again when its run was lost.
var rerunJob = Job{Name: "j", Schedule: "0 * * * *", Zone: "UTC", OnLost: OnLostRerun, Idempotent: true}

// atTheHour lets a bubble's time pass to the next whole hour.
func atTheHour() time.Time {
	hour := time.Now().Truncate(time.Hour).Add(time.Hour)
	time.Sleep(time.Until(hour))
	return hour
}

// dies is the claim of a host that gets a tick and is never heard of again.
func (f *fleet) dies(t *testing.T, job Job, tick time.Time) Run {
	t.Helper()
	l, err := NewStore(f.store).Claim(t.Context(), Claim{RunID: NewRunID(), Job: job.Name, Definition: job.Definition(), Tick: tick, TTL: DefaultTTL})
	if err != nil {
		t.Fatal(err)
	}
	return l.Run
}

// again is how often the job was run again.
func (f *fleet) again() (n int) {
	for _, r := range f.store.jobs["j"].runs {
		if r.Attempt == 2 {
			n++
		}
	}
	return n
}

// Rule 3.7, rerun: of several hosts one runs a lost tick again, soon after the lease of
// the run has ended and long before the next tick; what goes on that long is not.
func TestRerun_Once(t *testing.T) {
	for hosts := 1; hosts <= 3; hosts++ {
		t.Run(fmt.Sprint(hosts, " hosts"), func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				hour := atTheHour()
				lost := f.dies(t, rerunJob, hour)
				var all []*Scheduler
				for range hosts {
					all = append(all, f.host(t, 10*time.Minute, rerunJob))
				}
				runAll(50*time.Minute, all...)
				runs := f.store.jobs["j"].runs
				if len(runs) != 2 {
					t.Fatalf("%d runs on record, want the lost one and its re-run", len(runs))
				}
				if r := runs[0]; r.ID != lost.ID || r.Outcome != Lost {
					t.Errorf("the first run is %+v", r.Run)
				}
				again := runs[1]
				if again.Attempt != 2 || !again.Tick.Equal(hour) || again.Outcome != Succeeded {
					t.Errorf("the second run is %+v", again.Run)
				}
				if after := again.Start.Sub(lost.Start); after < DefaultTTL || after > DefaultTTL+time.Second {
					t.Errorf("it started %s after the first one, whose lease was for %s", after, DefaultTTL)
				}
				if n := f.ran["j "+Stamp(hour)]; n != 1 {
					t.Errorf("they ran it %d times", n)
				}
				if n := f.events(EventRefused); n > 0 {
					t.Errorf("told %+v", f.told)
				}
			})
		})
	}
}

// A host that dies while others look on, at a tick that all of them offered.
func TestRerun_AHostDies(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		atTheHour()
		time.Sleep(59 * time.Minute)
		dead := f.host(t, 30*time.Minute, rerunJob)
		cut := &cutOff{Driver: f.store}
		dead.Store = NewStore(cut)
		dead.Store.Overrun = func(Run) {}
		other := f.host(t, 10*time.Minute, rerunJob)
		// The one that is cut off when it has the tick has it for sure.
		var began sync.Once
		dead.Report = func(e Event) {
			if e.Kind == EventStarted {
				began.Do(cut.off)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { dead.Run(ctx) })
		time.AfterFunc(time.Minute+time.Second, func() { all.Go(func() { other.Run(ctx) }) })
		time.Sleep(2 * time.Minute)
		all.Wait()
		runs := f.store.jobs["j"].runs
		if len(runs) != 2 || runs[0].Outcome != Lost || runs[1].Attempt != 2 || runs[1].Outcome != Succeeded {
			for _, r := range runs {
				t.Errorf("on record: %+v", r.Run)
			}
		}
	})
}

// cutOff is a host's way to the store, until it is off.
type cutOff struct {
	Driver
	mu   sync.Mutex
	gone bool
}

func (c *cutOff) off() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

func (c *cutOff) away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errAway
	}
	return nil
}

func (c *cutOff) Now(ctx context.Context) (time.Time, error) {
	if err := c.away(); err != nil {
		return time.Time{}, err
	}
	return c.Driver.Now(ctx)
}

func (c *cutOff) Claim(ctx context.Context, q Claim) (Lease, error) {
	if err := c.away(); err != nil {
		return Lease{}, err
	}
	return c.Driver.Claim(ctx, q)
}

func (c *cutOff) Renew(ctx context.Context, l Lease) (Lease, error) {
	if err := c.away(); err != nil {
		return l, err
	}
	return c.Driver.Renew(ctx, l)
}

func (c *cutOff) Finish(ctx context.Context, l Lease, r Result) error {
	if err := c.away(); err != nil {
		return err
	}
	return c.Driver.Finish(ctx, l, r)
}

// What is not run again: a tick that failed, that lives, or whose next one is due; and
// nothing where the job does not say so.
func TestRerun_Not(t *testing.T) {
	for _, c := range []struct {
		name   string
		job    Job
		before func(t *testing.T, f *fleet, hour time.Time)
	}{
		{"on-lost=skip", Job{Name: "j", Schedule: "0 * * * *", Zone: "UTC"}, func(t *testing.T, f *fleet, hour time.Time) {
			f.dies(t, Job{Name: "j", Schedule: "0 * * * *", Zone: "UTC"}, hour)
		}},
		{"it failed", rerunJob, func(t *testing.T, f *fleet, hour time.Time) {
			f.dies(t, rerunJob, hour)
			f.store.jobs["j"].runs[0].Outcome = Failed
		}},
		{"nobody decided it", rerunJob, func(t *testing.T, f *fleet, hour time.Time) {
			f.dies(t, rerunJob, time.Time{})
			f.store.jobs["j"].runs[0].Outcome = Lost
		}},
		{"the next tick is due", rerunJob, func(t *testing.T, f *fleet, hour time.Time) {
			f.dies(t, rerunJob, hour)
			time.Sleep(time.Hour)
		}},
		{"it was run again and lost again", rerunJob, func(t *testing.T, f *fleet, hour time.Time) {
			f.dies(t, rerunJob, hour)
			time.Sleep(time.Minute)
			if _, err := NewStore(f.store).Claim(t.Context(), Claim{RunID: NewRunID(), Job: "j", Tick: hour, Attempt: 2}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				hour := atTheHour()
				c.before(t, f, hour)
				n := f.again()
				runAll(50*time.Minute, f.host(t, time.Second, c.job), f.host(t, time.Second, c.job))
				if f.again() != n {
					t.Errorf("it was run again: told %+v", f.told)
				}
			})
		})
	}
}

// A run that goes on is watched to its end, and not run again when that is good.
func TestRerun_NotWhileItLives(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		atTheHour()
		runAll(3*time.Hour, f.host(t, 40*time.Minute, rerunJob), f.host(t, 40*time.Minute, rerunJob))
		if n := f.again(); n > 0 || len(f.ran) < 2 {
			t.Errorf("%d re-runs; ran %v", n, f.ran)
		}
	})
}

// A watch that cannot reach the store goes on when it can, and gives up when the next
// tick is due.
func TestRerun_StoreAway(t *testing.T) {
	for minutes, want := range map[int]int{20: 1, 80: 0} {
		inFleet(t, func(t *testing.T, f *fleet) {
			hour := atTheHour()
			f.dies(t, rerunJob, hour)
			time.AfterFunc(5*time.Second, func() { f.store.set(func() { f.store.away = true }) })
			time.AfterFunc(time.Duration(minutes)*time.Minute, func() { f.store.set(func() { f.store.away = false }) })
			runAll(110*time.Minute, f.host(t, time.Second, rerunJob), f.host(t, time.Second, rerunJob))
			if n := f.again(); n != want {
				t.Errorf("away for %d minutes: %d re-runs, want %d: %+v", minutes, n, want, f.told)
			}
		})
	}
}

// The answers to the claims of re-runs may be lost: the same claims are made again.
func TestRerun_LostAnswers(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		hour := atTheHour()
		f.dies(t, rerunJob, hour)
		var n atomic.Int64
		f.store.lose = func(op string) bool { return op == "claim" && n.Add(1)%2 == 0 }
		runAll(50*time.Minute, f.host(t, time.Second, rerunJob), f.host(t, time.Second, rerunJob))
		if n := f.ran["j "+Stamp(hour)]; n != 1 || f.again() != 1 {
			t.Errorf("they ran it %d times, %d re-runs", n, f.again())
		}
	})
}

// rerun needs a job that says that it may be run twice.
func TestJob_RerunNeedsIdempotent(t *testing.T) {
	job := rerunJob
	if err := job.Check(); err != nil {
		t.Error(err)
	}
	if got := job.Definition().Policies; got != "on-lost=rerun idempotent=yes" {
		t.Errorf("policies %q", got)
	}
	job.Idempotent = false
	var bad *SettingError
	if err := job.Check(); !errors.As(err, &bad) || bad.Key != "on-lost" {
		t.Errorf("Check: %v, want a *SettingError", err)
	}
	if err := (&Scheduler{}).Add(job, func(context.Context, Run) error { return nil }); !errors.As(err, &bad) {
		t.Errorf("Add: %v, want a *SettingError", err)
	}
}
