package cronce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Work under a lease that expires goes on as long as the lease is renewed, also with
// lost attempts between, and has ended before the store would let another in.
func TestHold_WorkEndsBeforeTheLease(t *testing.T) {
	onBubbleClock(t)
	const long = 2 * time.Minute
	for _, c := range []struct {
		name    string
		hurt    func(*shared) // 20 seconds in
		cause   error         // of the context's end; nil: it does not end
		outcome Outcome
		within  func(ttl time.Duration) time.Duration // of the hurt
	}{
		{"nothing happens", func(*shared) {}, nil, Succeeded, nil},
		{"every other attempt is lost", func(d *shared) {
			var n atomic.Int64
			d.lose = func(op string) bool { return op == "renew" && n.Add(1)%2 == 1 }
		}, nil, Succeeded, nil},
		{"answers take an eighth of the TTL", func(d *shared) {
			d.takes = func(string) (to, fro time.Duration) { return 300 * time.Millisecond, 300 * time.Millisecond }
		}, nil, Succeeded, nil},
		{"the store is away", func(d *shared) { d.away = true }, new(NotRenewedError), Cancelled,
			func(ttl time.Duration) time.Duration { return ttl - max(500*time.Millisecond, ttl/10) - ttl/6 }},
		{"the store does not answer", func(d *shared) {
			d.takes = func(string) (to, fro time.Duration) { return 0, time.Hour }
		}, new(NotRenewedError), Cancelled,
			func(ttl time.Duration) time.Duration { return ttl - max(500*time.Millisecond, ttl/10) - ttl/6 }},
		{"the store's clock is set forward, less than the lease", func(d *shared) { d.offset += 2 * time.Second }, new(DriftError), Cancelled,
			func(ttl time.Duration) time.Duration { return ttl / 3 }},
		{"the store's clock is set back", func(d *shared) { d.offset -= time.Hour }, new(DriftError), Cancelled,
			func(ttl time.Duration) time.Duration { return ttl / 3 }},
		{"the store's clock is set forward by an hour", func(d *shared) { d.offset += time.Hour }, ErrLost, Cancelled,
			func(ttl time.Duration) time.Duration { return ttl / 3 }},
	} {
		for _, ttl := range []time.Duration{MinTTL, DefaultTTL, MaxTTL} {
			t.Run(fmt.Sprint(c.name, ", TTL ", ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newShared()
					s := NewStore(d)
					began := time.Now()
					if ttl == MaxTTL && strings.Contains(c.name, "less than") {
						c.hurt = func(d *shared) { d.offset += 10 * time.Second }
					}
					time.AfterFunc(20*time.Second, func() { d.set(func() { c.hurt(d) }) })
					l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j", TTL: ttl})
					if err != nil {
						t.Fatal(err)
					}
					var cause error
					var told time.Time
					r, err := s.Hold(t.Context(), l, 0, func(ctx context.Context) Result {
						select {
						case <-ctx.Done():
							cause, told = context.Cause(ctx), time.Now()
							return Result{Message: cause.Error()}
						case <-time.After(long):
							return Result{Outcome: Succeeded}
						}
					})
					if r.Outcome != c.outcome {
						t.Fatalf("it ended as %s (%s), want %s", r.Outcome, r.Message, c.outcome)
					}
					if c.cause == nil {
						if err != nil {
							t.Errorf("not on record: %v", err)
						}
						return
					}
					if !errors.Is(cause, ErrLost) || c.cause != ErrLost && fmt.Sprintf("%T", cause) != fmt.Sprintf("%T", c.cause) {
						t.Errorf("cause %T %v, want %T", cause, cause, c.cause)
					}
					if after := told.Sub(began.Add(20 * time.Second)); after > c.within(ttl) {
						t.Errorf("it was told %s after that, want within %s", after, c.within(ttl))
					}
				})
			})
		}
	}
}

// Whenever the store goes away, work that ends when it is told to has ended the
// margin before the store counts the lease as ended.
func TestHold_GoneBeforeTheStoreLetsOthersIn(t *testing.T) {
	onBubbleClock(t)
	for at := time.Duration(0); at < 30*time.Second; at += 700 * time.Millisecond {
		for _, ttl := range []time.Duration{MinTTL, DefaultTTL} {
			synctest.Test(t, func(t *testing.T) {
				d := newShared()
				d.takes = func(string) (to, fro time.Duration) { return 100 * time.Millisecond, 400 * time.Millisecond }
				s := NewStore(d)
				time.AfterFunc(at+time.Second, func() { d.set(func() { d.away = true }) })
				l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j", TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				var told time.Time
				_, err = s.Hold(t.Context(), l, 0, func(ctx context.Context) Result {
					<-ctx.Done()
					told = time.Now()
					time.Sleep(ttl/6 - time.Millisecond) // it takes all the time that it has
					return Result{}
				})
				expires := d.jobs["j"].runs[0].granted.Add(ttl)
				if margin := expires.Sub(told.Add(ttl / 6)); margin < max(500*time.Millisecond, ttl/10) {
					t.Errorf("away after %s: work has ended %s before the lease", at, margin)
				}
				if err == nil {
					t.Error("a result was recorded in a store that is away")
				}
			})
		}
	}
}

// While work winds down, at its timeout or because it was asked to, its lease goes on.
func TestHold_RenewsWhileWorkWindsDown(t *testing.T) {
	onBubbleClock(t)
	for _, how := range []string{"timeout", "stop", "context"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStore(newShared())
				l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, timeout := t.Context(), time.Duration(0)
				switch how {
				case "timeout":
					timeout = time.Second
				case "stop":
					if err := s.Request(ctx, Request{Kind: Stop, Job: "j", By: "ann"}); err != nil {
						t.Fatal(err)
					}
				case "context":
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				_, err = s.Hold(ctx, l, timeout, func(ctx context.Context) Result {
					<-ctx.Done()
					time.Sleep(5 * time.Minute)
					return Result{}
				})
				if err != nil {
					t.Errorf("its end is not on record: %v", err)
				}
			})
		})
	}
}

// An answer that comes late starts nothing, and the run is on record as cancelled.
func TestDecide_LateAnswer(t *testing.T) {
	onBubbleClock(t)
	synctest.Test(t, func(t *testing.T) {
		d := newShared()
		d.takes = func(op string) (to, fro time.Duration) {
			if op == "claim" {
				return 0, DefaultTTL/3 + time.Second
			}
			return 0, 0
		}
		s := NewStore(d)
		_, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j"})
		var late *LateAnswerError
		if !errors.As(err, &late) || late.Err != nil {
			t.Fatalf("%v, want *LateAnswerError", err)
		}
		if r := d.jobs["j"].runs[0]; r.Outcome != Cancelled || !strings.Contains(r.Message, "too late") {
			t.Errorf("on record: %+v", r.Run)
		}
	})
}

// A process that was stopped for longer than its lease does not begin under it.
func TestHold_NothingBeginsTooLate(t *testing.T) {
	onBubbleClock(t)
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(newShared())
		l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultTTL)
		r, err := s.Hold(t.Context(), l, 0, func(context.Context) Result {
			t.Error("it has begun")
			return Result{Outcome: Succeeded}
		})
		if r.Outcome != Cancelled || !errors.Is(err, ErrLost) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// The end of a lease is noticed within a second also by timers that stood still, as
// those of a machine that slept.
func TestHold_AfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		sinceBoot = func() time.Duration { return time.Duration(time.Now().UnixNano() + slept.Load()) }
		defer func() { sinceBoot = bootClock }()
		d := newShared()
		s := NewStore(d)
		l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j", TTL: MaxTTL})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.Hold(t.Context(), l, 0, func(ctx context.Context) Result {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			slept.Store(int64(time.Hour))
			d.set(func() { d.offset, d.away = time.Hour, true })
			woke := time.Now()
			<-ctx.Done()
			if after := time.Since(woke); after > time.Second {
				t.Errorf("noticed after %s", after)
			}
			return Result{Message: context.Cause(ctx).Error()}
		})
		if !strings.Contains(r.Message, "could not be renewed") {
			t.Errorf("%+v", r)
		}
	})
}

// Work in Go that does not end ends its process, or is reported where that is wanted.
func TestHold_Overrun(t *testing.T) {
	if os.Getenv("CRONCE_TEST_OVERRUN") != "" {
		overrun(t, NewStore(newShared()))
		return
	}
	t.Run("the process ends", func(t *testing.T) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHold_Overrun$")
		cmd.Env = append(os.Environ(), "CRONCE_TEST_OVERRUN=1")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 70 || !strings.Contains(string(out), `job "j"`) {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("it is reported", func(t *testing.T) {
		var told []Run
		s := NewStore(newShared())
		s.Overrun = func(r Run) { told = append(told, r) }
		overrun(t, s)
		if len(told) != 1 || told[0].Job != "j" {
			t.Errorf("told of %+v", told)
		}
	})
}

// overrun holds a lease over work that goes on for a minute after its end.
func overrun(t *testing.T, s *Store) {
	onBubbleClock(t)
	synctest.Test(t, func(t *testing.T) {
		l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j"})
		if err != nil {
			t.Fatal(err)
		}
		s.d.(*shared).away = true
		s.Hold(t.Context(), l, 0, func(ctx context.Context) Result {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return Result{}
		})
	})
}

// The end of a run is recorded also where the store is away for a moment then.
func TestHold_FinishIsRepeated(t *testing.T) {
	onBubbleClock(t)
	synctest.Test(t, func(t *testing.T) {
		d := newShared()
		s := NewStore(d)
		l, err := s.Decide(t.Context(), Claim{RunID: NewRunID(), Job: "j"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Hold(t.Context(), l, 0, func(context.Context) Result {
			d.set(func() { d.away = true })
			time.AfterFunc(6*time.Second, func() { d.set(func() { d.away = false }) })
			return Result{Outcome: Succeeded}
		})
		if r := d.jobs["j"].runs[0]; err != nil || r.Outcome != Succeeded {
			t.Errorf("%v; on record: %+v", err, r.Run)
		}
	})
}
