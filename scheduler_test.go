package cronce_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/localstore"
)

// openStore opens the store in that folder, as one more program would.
func openStore(t testing.TB, dir string) *cronce.Store {
	t.Helper()
	s, err := localstore.Open(localstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// runFor runs the schedulers side by side for that long.
func runFor(d time.Duration, schedulers ...*cronce.Scheduler) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range schedulers {
		all.Go(func() { s.Run(ctx) })
	}
	all.Wait()
}

// Each tick runs once among schedulers that share a store, and is on record.
func TestScheduler_OnceAmongMany(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ran := map[string]int{}
		schedulers := make([]*cronce.Scheduler, 3)
		for i := range schedulers {
			schedulers[i] = &cronce.Scheduler{Store: openStore(t, dir)}
			for _, every := range []string{"5s", "7s"} {
				err := schedulers[i].Add(cronce.Job{Name: every, Schedule: "@every " + every},
					func(ctx context.Context, run cronce.Run) error {
						mu.Lock()
						defer mu.Unlock()
						ran[every+" "+cronce.Stamp(run.Tick)]++
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		start := time.Now()
		const span = 10 * time.Minute
		runFor(span+time.Millisecond, schedulers...)
		want := 0
		for _, every := range []time.Duration{5 * time.Second, 7 * time.Second} {
			for tick := start.Truncate(time.Second); !tick.After(start.Add(span)); tick = tick.Add(time.Second) {
				if tick.After(start) && tick.Unix()%int64(every/time.Second) == 0 {
					want++
					if key := fmt.Sprintf("%s %s", every, cronce.Stamp(tick)); ran[key] != 1 {
						t.Errorf("tick %s ran %d times", key, ran[key])
					}
				}
			}
		}
		runs, err := openStore(t, dir).Runs(t.Context(), cronce.RunQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) != want {
			t.Errorf("%d runs on record, want %d", len(runs), want)
		}
		for _, r := range runs {
			if r.Outcome != cronce.Succeeded {
				t.Errorf("on record: %+v", r)
			}
		}
	})
}

// How work ends is on record under the right name, with its reason.
func TestScheduler_Outcomes(t *testing.T) {
	untilDone := func(ctx context.Context, _ cronce.Run) error { <-ctx.Done(); return context.Cause(ctx) }
	for _, c := range []struct {
		name    string
		job     cronce.Job
		work    func(context.Context, cronce.Run) error
		disturb func(*cronce.Store) error // 90 seconds in, when the work has gone on for 30
		outcome cronce.Outcome
		message string
	}{
		{"success", cronce.Job{}, func(context.Context, cronce.Run) error { return nil }, nil, cronce.Succeeded, ""},
		{"error", cronce.Job{}, func(context.Context, cronce.Run) error { return errors.New("no paper") }, nil, cronce.Failed, "no paper"},
		{"panic", cronce.Job{}, func(context.Context, cronce.Run) error { panic("ink") }, nil, cronce.Failed, "panic: ink"},
		{"end of its goroutine", cronce.Job{}, func(context.Context, cronce.Run) error { runtime.Goexit(); return nil }, nil, cronce.Failed, "the job ended its goroutine"},
		{"timeout", cronce.Job{Timeout: 20 * time.Second}, untilDone, nil, cronce.TimedOut, cronce.ErrTimeout.Error()},
		{"stop", cronce.Job{}, untilDone, func(s *cronce.Store) error {
			return s.Request(context.Background(), cronce.Request{Kind: cronce.Stop, Job: "stop", By: "ops", Why: "too loud"})
		}, cronce.Cancelled, "asked to stop by ops: too loud"},
		{"end of the scheduler", cronce.Job{}, untilDone, nil, cronce.Cancelled, context.DeadlineExceeded.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir() + "/store"
			synctest.Test(t, func(t *testing.T) {
				store := openStore(t, dir)
				s := &cronce.Scheduler{Store: store}
				c.job.Name, c.job.Schedule, c.job.Zone = c.name, "* * * * *", "UTC"
				if err := s.Add(c.job, c.work); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute - time.Duration(time.Now().Second())*time.Second - time.Second)
				if c.disturb != nil {
					go func() {
						time.Sleep(30 * time.Second)
						if err := c.disturb(store); err != nil {
							t.Error(err)
						}
					}()
				}
				runFor(59*time.Second, s)
				runs, err := store.Runs(t.Context(), cronce.RunQuery{Job: c.name})
				if err != nil || len(runs) != 1 {
					t.Fatalf("runs %+v, %v", runs, err)
				}
				if r := runs[0]; r.Outcome != c.outcome || r.Message != c.message {
					t.Errorf("got %s %q, want %s %q", r.Outcome, r.Message, c.outcome, c.message)
				}
			})
		})
	}
}

// What happens is told as it happens: runs, skips with their reason, ticks
// that others decided.
func TestScheduler_Report(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		kinds := map[cronce.EventKind]int{}
		var skips []cronce.SkipReason
		report := func(e cronce.Event) {
			mu.Lock()
			defer mu.Unlock()
			kinds[e.Kind]++
			if e.Kind == cronce.EventSkipped {
				skips = append(skips, e.Run.Skip)
			}
		}
		a := &cronce.Scheduler{Store: openStore(t, dir), Report: report}
		b := &cronce.Scheduler{Store: openStore(t, dir), Report: report}
		for _, s := range []*cronce.Scheduler{a, b} {
			err := s.Add(cronce.Job{Name: "slow", Schedule: "@every 10s"}, func(context.Context, cronce.Run) error {
				time.Sleep(15 * time.Second)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Second - time.Duration(time.Now().Unix()%10)*time.Second)
		runFor(35*time.Second, a, b) // ticks at 10 (runs), 20 (skipped), 30 (runs), 40 (skipped)
		want := map[cronce.EventKind]int{cronce.EventStarted: 2, cronce.EventEnded: 2, cronce.EventSkipped: 2, cronce.EventTaken: 4}
		for kind, n := range want {
			if kinds[kind] != n {
				t.Errorf("%d events of kind %d, want %d (all: %v)", kinds[kind], kind, n, kinds)
			}
		}
		for _, reason := range skips {
			if reason != cronce.SkipOverlap {
				t.Errorf("skipped for %q", reason)
			}
		}
	})
}

// The end of a scheduler: it says what it leaves undecided and, when nothing
// starts any more, that it waits for what goes on. The next one says what goes
// on, and runs what was left.
func TestScheduler_HandsOver(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		said := map[string][]string{}
		start := func(name string, ctx context.Context) (s *cronce.Scheduler, ended chan struct{}) {
			kinds := map[cronce.EventKind]string{cronce.EventStarted: "started", cronce.EventEnded: "ended", cronce.EventTaken: "taken",
				cronce.EventLive: "live", cronce.EventLeft: "left", cronce.EventDraining: "draining"}
			s = &cronce.Scheduler{Store: openStore(t, dir), MaxRunning: 1, BaseContext: t.Context(), Report: func(e cronce.Event) {
				mu.Lock()
				defer mu.Unlock()
				said[name] = append(said[name], kinds[e.Kind]+" "+e.Job)
			}}
			for _, job := range []string{"a", "b"} {
				err := s.Add(cronce.Job{Name: job, Schedule: "@every 1h"}, func(context.Context, cronce.Run) error {
					time.Sleep(time.Minute)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			ended = make(chan struct{})
			go func() { defer close(ended); s.Run(ctx) }()
			return s, ended
		}
		ctx, cancel := context.WithCancel(t.Context())
		old, oldEnded := start("old", ctx)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 20*time.Second)))
		if n, waited := old.Behind(); n != 1 || waited != 20*time.Second {
			t.Errorf("%d ticks wait, the first for %s; want one, for 20s", n, waited)
		}
		cancel()
		synctest.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		next, nextEnded := start("next", ctx)
		<-oldEnded
		time.Sleep(2 * time.Minute)
		if n, waited := next.Behind(); n != 0 || waited != 0 {
			t.Errorf("%d ticks wait, the first for %s; want none", n, waited)
		}
		cancel()
		<-nextEnded

		first, second := "a", "b" // due at the same time, in any order
		if said["old"][0] != "started a" {
			first, second = "b", "a"
		}
		left := slices.Index(said["old"], "left "+second) // at any time, once it is to end
		if left < 1 || left > 2 {
			t.Fatalf("the old one said %q", said["old"])
		}
		rest := slices.Delete(slices.Clone(said["old"]), left, left+1)
		if want := []string{"started " + first, "draining ", "ended " + first}; !slices.Equal(rest, want) {
			t.Errorf("the old one said %q, want %q and %q", said["old"], want, "left "+second)
		}
		for _, want := range []string{"live " + first, "taken " + first, "started " + second, "ended " + second} {
			if !slices.Contains(said["next"], want) {
				t.Errorf("the next one did not say %q: %q", want, said["next"])
			}
		}
		if len(said["next"]) != 5 { // and draining
			t.Errorf("the next one said %q", said["next"])
		}
	})
}

func TestScheduler_BadInput(t *testing.T) {
	var s cronce.Scheduler
	work := func(context.Context, cronce.Run) error { return nil }
	for _, job := range []cronce.Job{
		{}, {Name: "x"}, {Name: "x", Schedule: "61 * * * *"}, {Name: "x", Schedule: "0 0 30 2 *"},
		{Name: "a\x00b", Schedule: "* * * * *"}, {Name: "x", Schedule: "* * * * *", Zone: "Mars/Olympus"},
	} {
		if err := s.Add(job, work); err == nil {
			t.Errorf("%+v was added", job)
		}
	}
	ok := cronce.Job{Name: "x", Schedule: "* * * * *"}
	if err := s.Add(ok, work); err != nil {
		t.Error(err)
	}
	if err := s.Add(ok, work); err == nil {
		t.Error("one name was added twice")
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("ran without a store")
	}
}

func ExampleScheduler() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := localstore.Open(localstore.Options{Dir: dir + "/store"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx, cancel := context.WithCancel(context.Background())
	s := &cronce.Scheduler{Store: store}
	err = s.Add(cronce.Job{Name: "invoices", Schedule: "@every 1s"}, func(ctx context.Context, run cronce.Run) error {
		fmt.Println("sending invoices")
		cancel() // enough for an example
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	s.Run(ctx)
	// Output: sending invoices
}

// The store knows of a job, and of its definition, before its first tick.
func TestScheduler_JobsAreKnownBeforeTheirFirstTick(t *testing.T) {
	dir := t.TempDir() + "/store"
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, dir)
		for _, schedule := range []string{"0 0 1 1 *", "0 0 1 6 *"} {
			s := &cronce.Scheduler{Store: store}
			if err := s.Add(cronce.Job{Name: "yearly", Schedule: schedule, Zone: "UTC"}, func(context.Context, cronce.Run) error { return nil }); err != nil {
				t.Fatal(err)
			}
			runFor(time.Second, s)
			state, known, err := store.Job(t.Context(), "yearly")
			if err != nil || !known || state.Definition.Schedule != schedule || state.Last != nil {
				t.Errorf("the store knows %+v (%v, %v)", state, known, err)
			}
		}
	})
}
