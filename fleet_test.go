package cronce

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is a few schedulers on one store, and what they tell.
type fleet struct {
	store *shared
	mu    sync.Mutex
	told  []Event
	ran   map[string]int // by job and tick
}

// host is a scheduler with jobs whose runs take that long.
func (f *fleet) host(t *testing.T, takes time.Duration, jobs ...Job) *Scheduler {
	s := f.scheduler(NewStore(f.store))
	f.add(t, s, takes, jobs...)
	return s
}

func (f *fleet) scheduler(store *Store) *Scheduler {
	return &Scheduler{Store: store, Report: func(e Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.told = append(f.told, e)
	}}
}

// add adds jobs whose runs take that long.
func (f *fleet) add(t *testing.T, s *Scheduler, takes time.Duration, jobs ...Job) {
	for _, job := range jobs {
		err := s.Add(job, func(ctx context.Context, r Run) error {
			f.mu.Lock()
			f.ran[r.Job+" "+Stamp(r.Tick)]++
			f.mu.Unlock()
			pause(ctx, takes)
			return context.Cause(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fleet) events(kind EventKind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.told {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// runAll runs schedulers side by side for that long.
func runAll(d time.Duration, schedulers ...*Scheduler) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range schedulers {
		all.Go(func() { s.Run(ctx) })
	}
	all.Wait()
}

func inFleet(t *testing.T, f func(t *testing.T, f *fleet)) {
	onBubbleClock(t)
	synctest.Test(t, func(t *testing.T) { f(t, &fleet{store: newShared(), ran: map[string]int{}}) })
}

// Ticks are the store's, whatever the hosts' clocks show, and run once.
func TestFleet_TheStoresTime(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.store.offset = -17 * time.Second // as if each host were ahead
		f.store.takes = func(string) (to, fro time.Duration) { return 3 * time.Millisecond, 9 * time.Millisecond }
		job := Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"}
		runAll(10*time.Minute+30*time.Second, f.host(t, time.Second, job), f.host(t, time.Second, job), f.host(t, time.Second, job))
		if len(f.ran) != 11 { // 23:59:43 to 00:10:13
			t.Errorf("%d ticks ran in ten and a half minutes: %v", len(f.ran), f.ran)
		}
		for tick, n := range f.ran {
			if n != 1 {
				t.Errorf("tick %s ran %d times", tick, n)
			}
		}
		for _, r := range f.store.jobs["j"].runs {
			if late := r.Start.Sub(r.Tick); late < 0 || late > time.Second {
				t.Errorf("tick %s started %s after it by the store's clock", Stamp(r.Tick), late)
			}
		}
		if n := f.events(EventSkew); n != 3 {
			t.Errorf("%d hosts told of their clocks, want 3, once each", n)
		}
	})
}

// A host whose clock is too far off starts nothing until it is set.
func TestFleet_SkewRefused(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.store.offset = 45 * time.Second
		time.AfterFunc(5*time.Minute, func() { f.store.set(func() { f.store.offset = 0 }) })
		runAll(10*time.Minute, f.host(t, 0, Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"}))
		if n := len(f.ran); n < 3 || n > 6 {
			t.Errorf("%d ticks ran, want those of about the second half", n)
		}
		if n := f.events(EventSkew); n != 2 {
			t.Errorf("told %d times of the clock, want when it was off and when it was right", n)
		}
	})
}

// While the store is away nothing starts; what passed is caught up as the policy says,
// and the going and coming is told once each.
func TestFleet_Away(t *testing.T) {
	for _, c := range []struct {
		catchup Catchup
		missed  int // how many of those ten
	}{{CatchupAll, 0}, {CatchupLast, 9}, {CatchupSkip, 9}} {
		t.Run(c.catchup.String(), func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				time.AfterFunc(5*time.Minute+30*time.Second, func() { f.store.set(func() { f.store.away = true }) })
				time.AfterFunc(15*time.Minute+10*time.Second, func() { f.store.set(func() { f.store.away = false }) })
				job := Job{Name: "j", Schedule: "* * * * *", Zone: "UTC", Catchup: c.catchup, CatchupWindow: time.Hour}
				start := time.Now()
				runAll(20*time.Minute+30*time.Second, f.host(t, time.Second, job))
				missed := 0
				for tick := start.Truncate(time.Minute).Add(time.Minute); tick.Before(start.Add(20 * time.Minute)); tick = tick.Add(time.Minute) {
					switch n := f.ran["j "+Stamp(tick)]; n {
					case 1:
					case 0:
						missed++
					default:
						t.Errorf("tick %s ran %d times", Stamp(tick), n)
					}
				}
				if missed != c.missed {
					t.Errorf("%d ticks did not run, want %d: %v", missed, c.missed, f.ran)
				}
				if away, back := f.events(EventAway), f.events(EventBack); away != 1 || back != 1 {
					t.Errorf("told %d times that it went, %d that it came back", away, back)
				}
			})
		})
	}
}

// A store that answers and takes no writes, as one that a failover has made a replica of, is
// away as much as one that does not answer: that is said once, and once that it is back.
func TestFleet_TakesNoWrites(t *testing.T) {
	for _, schedule := range []string{"* * * * * *", "* * * * *", "*/3 * * * *"} {
		for _, catchup := range []Catchup{CatchupAll, CatchupLast, CatchupSkip} {
			t.Run(schedule+" "+catchup.String(), func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					time.AfterFunc(5*time.Minute+30*time.Second, func() { f.store.set(func() { f.store.rigid = true }) })
					time.AfterFunc(15*time.Minute+10*time.Second, func() { f.store.set(func() { f.store.rigid = false }) })
					job := Job{Name: "j", Schedule: schedule, Zone: "UTC", Catchup: catchup, CatchupWindow: time.Hour}
					start := time.Now()
					runAll(21*time.Minute+30*time.Second, f.host(t, 100*time.Millisecond, job))
					s, err := job.Parse()
					if err != nil {
						t.Fatal(err)
					}
					for tick := s.Next(start); tick.Before(start.Add(21 * time.Minute)); tick = s.Next(tick) {
						rigid := tick.After(start.Add(5*time.Minute)) && tick.Before(start.Add(16*time.Minute))
						whole := catchup == CatchupAll && s.Interval(tick) >= time.Minute // else too many are missed
						if n := f.ran["j "+Stamp(tick)]; n > 1 || n == 0 && (whole || !rigid) {
							t.Errorf("tick %s ran %d times", Stamp(tick), n)
						}
					}
					if away, back := f.events(EventAway), f.events(EventBack); away != 1 || back != 1 {
						t.Errorf("told %d times that it went, %d that it came back", away, back)
					}
					if n := f.events(EventMissed); n > 120 { // one job is tried at each look
						t.Errorf("told %d times what was missed", n)
					}
				})
			})
		}
	}
}

// Work that goes on when the store goes away ends before its lease does.
func TestFleet_AwayEndsWork(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		time.AfterFunc(90*time.Second, func() { f.store.set(func() { f.store.away = true }) })
		s := f.host(t, time.Hour, Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"})
		runAll(3*time.Minute, s)
		ended := slices.IndexFunc(f.told, func(e Event) bool { return e.Kind == EventEnded })
		if ended < 0 || f.told[ended].Run.Outcome != Cancelled {
			t.Fatalf("told %+v", f.told)
		}
	})
}

// A claim whose answer is lost is made again, and gets the same answer: nothing is
// lost or run twice.
func TestFleet_LostAnswers(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var n atomic.Int64
		f.store.lose = func(op string) bool { return op == "claim" && n.Add(1)%2 == 0 }
		job := Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"}
		runAll(30*time.Minute+30*time.Second, f.host(t, time.Second, job), f.host(t, time.Second, job))
		if len(f.ran) != 30 {
			t.Errorf("%d ticks ran of 30", len(f.ran))
		}
		for _, r := range f.store.jobs["j"].runs {
			if r.Outcome != Succeeded {
				t.Errorf("on record: %+v", r.Run)
			}
		}
	})
}

// A scheduler that starts while the store is away starts nothing, and waits.
func TestFleet_AwayAtStart(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.store.away = true
		time.AfterFunc(10*time.Minute, func() { f.store.set(func() { f.store.away = false }) })
		runAll(15*time.Minute+30*time.Second, f.host(t, time.Second, Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"}))
		if len(f.ran) < 5 {
			t.Errorf("ran %v", f.ran)
		}
		if f.events(EventAway) != 1 || f.events(EventBack) != 1 || f.events(EventRefused) != 0 {
			t.Errorf("told %+v", f.told)
		}
	})
}

// The definition that was registered last stands: who has another stops offering the
// job and says so once, until the store keeps his again.
func TestFleet_Conflict(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		old := f.host(t, time.Second, Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"})
		newer := f.host(t, time.Second, Job{Name: "j", Schedule: "30 * * * *", Zone: "UTC"})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { old.Run(ctx) })
		time.Sleep(10*time.Minute + time.Second)
		all.Go(func() { newer.Run(ctx) })
		time.Sleep(10 * time.Minute)
		f.mu.Lock()
		n := len(f.ran)
		f.mu.Unlock()
		if n != 10 || f.events(EventConflict) != 1 || f.events(EventRefused) != 0 {
			t.Errorf("%d ticks ran of 10; told %+v", n, f.told)
		}
		err := old.Store.Request(ctx, Request{Kind: Define, Job: "j", Definition: old.planned["j"].definition})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		f.mu.Lock()
		n = len(f.ran) - n
		f.mu.Unlock()
		if n < 8 || f.events(EventAgreed) != 1 {
			t.Errorf("%d ticks ran of the next 10; told %+v", n, f.told)
		}
		cancel()
		all.Wait()
	})
}

// Catch-up, two schedulers on one store: a backlog is run once between them, in order, and
// a run that goes on decides none of it.
func TestFleet_TwoCatchUp(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		job := Job{Name: "j", Schedule: "*/10 * * * *", Zone: "UTC", Catchup: CatchupAll, CatchupWindow: 24 * time.Hour}
		hour := atTheHour()
		time.Sleep(time.Second)
		runAll(time.Minute, f.host(t, 0, job)) // so that the job is known
		time.Sleep(58*time.Minute + 30*time.Second)
		held, err := NewStore(f.store).Claim(t.Context(), Claim{RunID: NewRunID(), Job: "j"}) // a run by hand
		if err != nil {
			t.Fatal(err)
		}
		stop := time.Now().Add(3 * time.Minute)
		go func() {
			for time.Now().Before(stop) {
				held, _ = NewStore(f.store).Renew(context.Background(), held)
				time.Sleep(5 * time.Second)
			}
			NewStore(f.store).Finish(context.Background(), held, Result{Outcome: Succeeded})
		}()
		runAll(9*time.Minute, f.host(t, 20*time.Second, job), f.host(t, 20*time.Second, job))
		last := held.Run.Start
		for minutes := 10; minutes < 50; minutes += 10 {
			tick := hour.Add(time.Duration(minutes) * time.Minute)
			if n := f.ran["j "+Stamp(tick)]; n != 1 {
				t.Errorf("the tick of minute %d ran %d times", minutes, n)
			}
			for _, r := range f.store.jobs["j"].runs {
				if r.Tick.Equal(tick) && (r.Skip != "" || !r.Start.After(last)) {
					t.Errorf("on record: %+v", r.Run)
				} else if r.Tick.Equal(tick) {
					last = r.Start
				}
			}
		}
	})
}

// A program that is told to end while claims are on their way waits for the answers: what it
// has won it runs, and nothing is left to be lost.
func TestFleet_EndsWhileItClaims(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.store.takes = func(op string) (to, fro time.Duration) {
			if op == "claim" {
				return 0, time.Second
			}
			return 0, 0
		}
		s := f.host(t, 0, Job{Name: "j", Schedule: "* * * * *", Zone: "UTC"})
		s.BaseContext = context.Background()
		runAll(time.Minute+staggerOver+time.Second/2, s) // the answer is under way
		if n := f.events(EventStarted); n != 1 || len(f.ran) != 1 {
			t.Errorf("%d runs started, and %d did their work", n, len(f.ran))
		}
		if n := f.events(EventLeft); n != 0 {
			t.Errorf("%d ticks are said to be undecided", n)
		}
		for _, r := range f.store.jobs["j"].runs {
			if r.Outcome != Succeeded {
				t.Errorf("on record: %+v", r.Run)
			}
		}
	})
}

// A tick that nobody could decide before the next one was due is one of the backlog, however
// long it may be late: none of those that come at once when the store is back is skipped for
// another of them.
func TestFleet_BacklogRunsWhole(t *testing.T) {
	for name, hurt := range map[string]func(*shared, bool){
		"away":            func(s *shared, on bool) { s.away = on },
		"takes no writes": func(s *shared, on bool) { s.rigid = on },
		"holds up writes, as one that waits for room on its disk": func(s *shared, on bool) {
			s.takes = nil
			if on {
				s.takes = func(op string) (to, fro time.Duration) {
					if op == "now" || op == "jobs" {
						return 0, 0
					}
					return time.Hour, 0
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				start := time.Now()
				time.AfterFunc(90*time.Second+500*time.Millisecond, func() { f.store.set(func() { hurt(f.store, true) }) })
				time.AfterFunc(120*time.Second+200*time.Millisecond, func() { f.store.set(func() { hurt(f.store, false) }) })
				job := Job{Name: "j", Schedule: "* * * * * *", Zone: "UTC", Catchup: CatchupAll, CatchupWindow: time.Hour, StartDeadline: 10 * time.Minute}
				runAll(4*time.Minute, f.host(t, 400*time.Millisecond, job), f.host(t, 400*time.Millisecond, job))
				for tick := start.Add(91 * time.Second); tick.Before(start.Add(120 * time.Second)); tick = tick.Add(time.Second) {
					if n := f.ran["j "+Stamp(tick)]; n != 1 {
						t.Errorf("tick %s ran %d times", Stamp(tick), n)
					}
				}
			})
		})
	}
}

// A store's clock that is set is found out by the first answer that shows it, said once, and
// costs no tick that is caught up; none is run before its time.
func TestFleet_StoresClockIsSet(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		for _, lasts := range []time.Duration{20 * time.Second, 80 * time.Second} {
			t.Run(off.String()+" for "+lasts.String(), func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					start := time.Now()
					time.AfterFunc(90*time.Second+500*time.Millisecond, func() { f.store.set(func() { f.store.offset = off }) })
					time.AfterFunc(90*time.Second+500*time.Millisecond+lasts, func() { f.store.set(func() { f.store.offset = 0 }) })
					job := Job{Name: "j", Schedule: "* * * * * *", Zone: "UTC", Catchup: CatchupAll, CatchupWindow: time.Hour}
					runAll(8*time.Minute, f.host(t, 100*time.Millisecond, job), f.host(t, 100*time.Millisecond, job))
					missed := 0
					for tick := start.Add(time.Second); tick.Before(start.Add(7 * time.Minute)); tick = tick.Add(time.Second) {
						if n := f.ran["j "+Stamp(tick)]; n > 1 {
							t.Errorf("tick %s ran %d times", Stamp(tick), n)
						} else if wrong := start.Add(90 * time.Second); n == 0 && tick.After(wrong) && tick.Before(wrong.Add(lasts)) {
							missed++
						}
					}
					if missed > 4 { // some were offered before it was known, and are late by the clock as it was then
						t.Errorf("%d ticks did not run", missed)
					}
					for _, r := range f.store.jobs["j"].runs {
						if r.Tick.After(start.Add(8 * time.Minute)) {
							t.Fatalf("tick %s was decided, which is to come", Stamp(r.Tick))
						}
					}
					if n := f.events(EventSkew); n != 4 {
						t.Errorf("told %d times of the clock, want twice for each host", n)
					}
					if n := f.events(EventRefused); n > 0 {
						t.Errorf("%d ticks were refused", n)
					}
				})
			})
		}
	}
}
