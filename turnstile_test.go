package cronce

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Never more than the bound are through, and whoever waits goes in the order of
// ticks.
func TestTurnstile_BoundAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, n = 3, 200
		ts := NewTurnstile(bound)
		for range bound {
			if err := ts.Enter(t.Context(), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var order []time.Time
		inside := 0
		var all sync.WaitGroup
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
			tick := time.Unix(int64(i/2), 0)
			all.Go(func() {
				if err := ts.Enter(t.Context(), tick); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, tick)
				inside++
				if inside > bound {
					t.Errorf("%d are through", inside)
				}
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				inside--
				mu.Unlock()
				ts.Leave()
			})
		}
		synctest.Wait() // all of them stand in the queue
		for range bound {
			ts.Leave()
			synctest.Wait()
		}
		all.Wait()
		if len(order) != n {
			t.Errorf("%d went through, want %d", len(order), n)
		}
		// Those who are through at the same time write in any order.
		for i := bound; i < len(order); i++ {
			if order[i].Before(order[i-bound]) {
				t.Errorf("%v went after %v", order[i], order[i-bound])
			}
		}
	})
}

// Who gives up waiting takes no place with it.
func TestTurnstile_GivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := NewTurnstile(1)
		if err := ts.Enter(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				if ts.Enter(ctx, time.Unix(int64(i), 0)) == nil {
					ts.Leave()
				}
			})
		}
		time.Sleep(25 * time.Millisecond) // half have given up, one is giving up right now
		ts.Leave()
		all.Wait()
		if err := ts.Enter(t.Context(), time.Time{}); err != nil {
			t.Error(err)
		}
		if ts.free != 0 || len(ts.waiting) != 0 {
			t.Errorf("%d free, %d waiting", ts.free, len(ts.waiting))
		}
	})
}

// Once it is shut nobody is within, and nobody comes in, not even who waited.
func TestTurnstile_Shut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 3
		ts := NewTurnstile(bound)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		inside := 0
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if ts.Enter(ctx, time.Unix(int64(i), 0)) != nil {
					return
				}
				mu.Lock()
				inside++
				mu.Unlock()
				time.Sleep(time.Duration(i+1) * time.Second)
				mu.Lock()
				inside--
				mu.Unlock()
				ts.Leave()
			})
		}
		synctest.Wait()
		since := time.Now()
		time.Sleep(time.Second / 2)
		if n, first := ts.queue(); n != 10-bound || !first.Equal(since) {
			t.Errorf("%d wait since %s, want %d since %s", n, first, 10-bound, since)
		}
		cancel()
		ts.shut()
		mu.Lock()
		if inside != 0 {
			t.Errorf("%d are within", inside)
		}
		mu.Unlock()
		if n, _ := ts.queue(); n != 0 {
			t.Errorf("%d wait", n)
		}
		if err := ts.Enter(ctx, time.Time{}); err == nil {
			t.Error("somebody came in")
		}
		all.Wait()
	})
}
