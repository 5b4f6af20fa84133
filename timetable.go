package cronce

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/cronce/cronce/schedule"
)

// Timetable calls functions at the ticks of schedules, by this process's
// clock. It is the clockwork under [Scheduler]: it claims nothing, so that two
// processes with one timetable both call. The zero value is ready to use.
//
// When the process could not look at the clock in time (it was stopped, the
// machine slept, the clock was set forward) only the newest of the ticks that
// passed meanwhile is called; Missed hears of the others. When the clock is
// set back, ticks are called again as the clock reaches them again.
type Timetable struct {
	// Missed, if set, is told of ticks of an entry that passed uncalled: the
	// first and the last of them. Set it before Run.
	Missed func(e *Entry, first, last time.Time)

	mu      sync.Mutex
	buckets map[int64][]*Entry // by the Unix second of their next tick
	seconds secondHeap         // the keys of buckets
	entries map[*Entry]struct{}
	wake    chan struct{}
	seen    time.Time // the clock when Run last looked
}

// Entry is a place in a [Timetable].
type Entry struct {
	Job string // for whoever looks at the entry; set it before Run

	schedule *schedule.Schedule
	fire     func(tick time.Time)
	removed  bool // under Timetable.mu
}

// clockStep is how far back the clock must go to count as having been set, and
// how long it is left unwatched.
const clockStep = time.Second

// Add puts an entry in the timetable, from its first tick after now. fire is
// called by Run's goroutine, in the order of ticks, and must return at once.
func (t *Timetable) Add(s *schedule.Schedule, fire func(tick time.Time)) *Entry {
	e := &Entry{schedule: s, fire: fire}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready()
	t.entries[e] = struct{}{}
	if t.put(e, s.Next(time.Now())) {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	return e
}

// Remove takes the entry out. Its function is not called after Remove has
// returned, unless a call was under way.
func (t *Timetable) Remove(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.removed = true
	delete(t.entries, e)
}

// ready makes the zero value usable.
func (t *Timetable) ready() {
	if t.wake == nil {
		t.buckets = map[int64][]*Entry{}
		t.entries = map[*Entry]struct{}{}
		t.wake = make(chan struct{}, 1)
	}
}

// put files the entry under its next tick and reports whether that is now the
// first of all.
func (t *Timetable) put(e *Entry, next time.Time) bool {
	if next.IsZero() {
		return false
	}
	second := next.Unix()
	bucket, ok := t.buckets[second]
	t.buckets[second] = append(bucket, e)
	if ok {
		return false
	}
	heap.Push(&t.seconds, second)
	return t.seconds[0] == second
}

// Run calls the entries' functions until ctx ends. One Run at a time.
func (t *Timetable) Run(ctx context.Context) {
	t.mu.Lock()
	t.ready()
	t.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
		// The wall clock alone, on purpose: it is what schedules speak of.
		t.look(ctx, time.Now().Round(0))
		timer.Reset(t.untilNext())
	}
}

// look calls all that is due by a clock that shows now.
func (t *Timetable) look(ctx context.Context, now time.Time) {
	if now.Before(t.seen.Add(-clockStep)) {
		t.refile(now)
	}
	t.seen = now
	for ctx.Err() == nil && t.callDue(now) {
	}
}

// callDue calls the earliest bucket that is due and files its entries anew.
// It reports whether there was one.
func (t *Timetable) callDue(now time.Time) bool {
	t.mu.Lock()
	if len(t.seconds) == 0 || t.seconds[0] > now.Unix() {
		t.mu.Unlock()
		return false
	}
	second := heap.Pop(&t.seconds).(int64)
	bucket := t.buckets[second]
	delete(t.buckets, second)
	live := bucket[:0]
	for _, e := range bucket {
		if !e.removed {
			live = append(live, e)
		}
	}
	t.mu.Unlock()

	// Calls come first, so that filing does not make them late.
	nominal := time.Unix(second, 0)
	stalled := now.Sub(nominal) >= time.Second
	for _, e := range live {
		tick := nominal
		if stalled {
			tick = e.newest(nominal, now)
			if tick.After(nominal) && t.Missed != nil {
				t.Missed(e, nominal, e.schedule.Prev(tick))
			}
		}
		e.fire(tick)
	}
	after := nominal
	if stalled {
		after = now
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range live {
		if !e.removed {
			t.put(e, e.schedule.Next(after))
		}
	}
	return true
}

// newest is the last tick of the entry up to now, at least tick.
func (e *Entry) newest(tick, now time.Time) time.Time {
	if last := e.schedule.Prev(now.Truncate(time.Second).Add(time.Second)); last.After(tick) {
		return last
	}
	return tick
}

// refile files every entry anew, from now on.
func (t *Timetable) refile(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.buckets)
	t.seconds = t.seconds[:0]
	for e := range t.entries {
		t.put(e, e.schedule.Next(now))
	}
}

// untilNext is how long to sleep: to the next tick, but never so long that a
// clock that was set goes unnoticed.
func (t *Timetable) untilNext() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seconds) == 0 {
		return clockStep
	}
	return min(max(time.Until(time.Unix(t.seconds[0], 0)), 0), clockStep)
}

// secondHeap is a heap of Unix seconds.
type secondHeap []int64

func (h secondHeap) Len() int           { return len(h) }
func (h secondHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h secondHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *secondHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *secondHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
