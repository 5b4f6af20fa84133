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

	clock   func() time.Time // nil: this host's
	mu      sync.Mutex
	buckets map[int64][]*Entry // by the Unix second of their next tick
	seconds secondHeap         // the keys of buckets
	entries map[*Entry]struct{}
	wake    chan struct{}
	seen    time.Time // the clock when Run last looked
	called  time.Time // all ticks up to it have been called, or are being called
}

// Entry is a place in a [Timetable].
type Entry struct {
	Job string // for whoever looks at the entry; set it before Run

	fire func(tick time.Time)

	// Under Timetable.mu:
	schedule *schedule.Schedule
	since    time.Time // it is in the timetable for the ticks after this
	next     int64     // the bucket it is filed in; in any other it is left over
	removed  bool
}

// clockStep is how far back the clock must go to count as having been set, and
// how long it is left unwatched.
const clockStep = time.Second

// now is what the clock shows.
func (t *Timetable) now() time.Time {
	if t.clock == nil {
		return time.Now()
	}
	return t.clock()
}

// Add puts an entry in the timetable, from its first tick after now. fire is
// called by Run's goroutine, in the order of ticks, and must return at once.
func (t *Timetable) Add(s *schedule.Schedule, fire func(tick time.Time)) *Entry {
	e := &Entry{schedule: s, fire: fire}
	t.insert(e)
	return e
}

func (t *Timetable) insert(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready()
	t.entries[e] = struct{}{}
	e.since = t.now().Round(0)
	t.file(e, e.since)
}

// since is where an entry's ticks begin: all after it are called, none up to it is.
func (t *Timetable) since(e *Entry) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.since
}

// Reschedule gives the entry another schedule. Ticks that have been called are
// those of the old one, later ones those of the new: none is lost or called
// twice between.
func (t *Timetable) Reschedule(e *Entry, s *schedule.Schedule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.removed {
		return
	}
	e.schedule = s
	from := t.now()
	if !t.called.IsZero() {
		from = t.called
	}
	t.file(e, from)
}

// file puts the entry where its first tick after that time is, and wakes Run if
// that is the first of all.
func (t *Timetable) file(e *Entry, after time.Time) {
	if t.put(e, e.schedule.Next(after)) {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
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
	second := next.Unix()
	if next.IsZero() || second == e.next {
		return false
	}
	e.next = second
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
		t.look(ctx, t.now().Round(0))
		timer.Reset(t.untilNext())
	}
}

// look calls all that is due by a clock that shows now.
func (t *Timetable) look(ctx context.Context, now time.Time) {
	t.mu.Lock()
	back := now.Before(t.seen.Add(-clockStep))
	t.seen = now
	t.mu.Unlock()
	if back {
		t.mu.Lock()
		t.refile(now)
		t.mu.Unlock()
	}
	for ctx.Err() == nil && t.callDue(now) {
	}
}

// callDue calls the earliest bucket that is due and files its entries anew.
// It reports whether there was one.
func (t *Timetable) callDue(now time.Time) bool {
	t.mu.Lock()
	if len(t.seconds) == 0 || t.seconds[0] > now.Unix() {
		t.called = now
		t.mu.Unlock()
		return false
	}
	second := heap.Pop(&t.seconds).(int64)
	t.called = time.Unix(second, 0)
	bucket := t.buckets[second]
	delete(t.buckets, second)
	live := bucket[:0]
	schedules := make([]*schedule.Schedule, 0, len(bucket))
	for _, e := range bucket {
		if !e.removed && e.next == second {
			live = append(live, e)
			schedules = append(schedules, e.schedule)
		}
	}
	t.mu.Unlock()

	// Calls come first, so that filing does not make them late.
	nominal := time.Unix(second, 0)
	stalled := now.Sub(nominal) >= time.Second
	for i, e := range live {
		tick := nominal
		if stalled {
			tick = newest(schedules[i], nominal, now)
			if tick.After(nominal) && t.Missed != nil {
				t.Missed(e, nominal, schedules[i].Prev(tick))
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
	for i, e := range live {
		if !e.removed && e.next == second { // else it was rescheduled, and filed, meanwhile
			t.put(e, schedules[i].Next(after))
		}
	}
	return true
}

// newest is the last tick up to now, at least tick.
func newest(s *schedule.Schedule, tick, now time.Time) time.Time {
	if last := s.Prev(now.Truncate(time.Second).Add(time.Second)); last.After(tick) {
		return last
	}
	return tick
}

// refile files every entry anew, from now on, with mu held.
func (t *Timetable) refile(now time.Time) {
	t.called = now
	clear(t.buckets)
	t.seconds = t.seconds[:0]
	for e := range t.entries {
		e.next = 0
		t.put(e, e.schedule.Next(now))
	}
}

// follow makes another clock the timetable's, and files every entry anew, from now on.
func (t *Timetable) follow(clock func() time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready()
	t.clock = clock
	now := clock().Round(0)
	t.refile(now)
	for e := range t.entries {
		e.since = now
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
	return min(max(time.Unix(t.seconds[0], 0).Sub(t.now()), 0), clockStep)
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
