package cronce

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Turnstile lets a bounded number through at once; who waits goes in order of
// tick. The zero value lets everybody through.
type Turnstile struct {
	mu      sync.Mutex
	bound   int // 0: none
	free    int
	waiting ticketHeap
	issued  int
}

// Gate is what a [Turnstile] is, also where it is that of another process. Its
// methods are called from many goroutines.
type Gate interface {
	// Enter waits for its turn, or for the end of ctx. After nil, Leave must follow.
	Enter(ctx context.Context, tick time.Time) error
	Leave()
}

var _ Gate = (*Turnstile)(nil)

// ticket is a place in the order.
type ticket struct {
	tick  time.Time
	order int
	since time.Time     // when it was issued
	turn  chan struct{} // closed when it is
	index int           // in the heap, -1 when out of it
}

// NewTurnstile lets n through at once; where n is 0, everybody.
func NewTurnstile(n int) *Turnstile { return &Turnstile{bound: n, free: n} }

// Enter waits for its turn, or for the end of ctx. After nil, Leave must follow.
func (t *Turnstile) Enter(ctx context.Context, tick time.Time) error {
	if err := ctx.Err(); err != nil || t.bound == 0 {
		return err
	}
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	t.issued++
	mine := &ticket{tick: tick, order: t.issued, since: time.Now(), turn: make(chan struct{})}
	heap.Push(&t.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine.turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.index < 0 { // its turn came in the same moment
		t.pass()
	} else {
		heap.Remove(&t.waiting, mine.index)
	}
	return ctx.Err()
}

// shut waits until nobody is within, and lets nobody in any more.
func (t *Turnstile) shut() {
	for range t.bound {
		t.Enter(context.Background(), time.Time{})
	}
}

// queue is how many wait, and since when the first of them has.
func (t *Turnstile) queue() (n int, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.waiting {
		if i == 0 || w.since.Before(since) {
			since = w.since
		}
	}
	return len(t.waiting), since
}

// Leave makes way for the next.
func (t *Turnstile) Leave() {
	if t.bound > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.pass()
	}
}

// pass gives a free place to the first in the order.
func (t *Turnstile) pass() {
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	close(heap.Pop(&t.waiting).(*ticket).turn)
}

// ticketHeap is a heap by tick, then by arrival.
type ticketHeap []*ticket

func (h ticketHeap) Len() int { return len(h) }
func (h ticketHeap) Less(i, j int) bool {
	if c := h[i].tick.Compare(h[j].tick); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}
func (h ticketHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *ticketHeap) Push(x any) {
	t := x.(*ticket)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *ticketHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
