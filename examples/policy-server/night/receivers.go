package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// receivers are the servers that the policies are sent to. They count.
type receivers struct {
	servers   []*http.Server
	addresses []string
	serving   sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each update
	got     map[int64]*tally
	trap    func(tick int64, from string) // called once, in the middle of sending a tick
	givenUp int64                         // the tick that comes no more
}

// tally is what came for a tick.
type tally struct {
	updates []int    // by receiver
	from    []string // who sent them, each once
}

func listen(n int) (*receivers, error) {
	r := &receivers{changed: make(chan struct{}), got: map[int64]*tally{}}
	for i := range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.receive(i, w, q) })}
		r.servers = append(r.servers, server)
		r.addresses = append(r.addresses, listener.Addr().String())
		r.serving.Go(func() { server.Serve(listener) })
	}
	return r, nil
}

// receive counts an update for receiver i.
func (r *receivers) receive(i int, w http.ResponseWriter, q *http.Request) {
	var update struct {
		From string
		Tick time.Time
	}
	if err := json.NewDecoder(q.Body).Decode(&update); err != nil || update.Tick.IsZero() {
		http.Error(w, "this is no update", http.StatusBadRequest)
		return
	}
	tick := update.Tick.Unix()
	if trap := r.count(i, tick, update.From); trap != nil {
		trap(tick, update.From)
	}
	w.WriteHeader(http.StatusNoContent)
}

// count returns the trap if this update springs it: half of the receivers have
// theirs, and the sender waits for our answer.
func (r *receivers) count(i int, tick int64, from string) (trap func(int64, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.got[tick]
	if t == nil {
		t = &tally{updates: make([]int, len(r.addresses))}
		r.got[tick] = t
	}
	t.updates[i]++
	if !slices.Contains(t.from, from) {
		t.from = append(t.from, from)
	}
	if i == len(r.addresses)/2-1 {
		trap, r.trap = r.trap, nil
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return trap
}

// until waits until each receiver has that many updates of a tick, or until it
// was given up. It reports whether that came before the end of ctx.
func (r *receivers) until(ctx context.Context, tick int64, updates int) bool {
	return r.watch(ctx, func() bool { return tick == r.givenUp || r.got[tick].each(updates) })
}

// first waits for a tick that each receiver has. It reports whether that came
// before the end of ctx.
func (r *receivers) first(ctx context.Context) (tick int64, ok bool) {
	ok = r.watch(ctx, func() bool {
		for t, tally := range r.got {
			if tally.each(1) {
				tick = t
				return true
			}
		}
		return false
	})
	return tick, ok
}

// watch waits until the condition holds, which is looked at after each update.
func (r *receivers) watch(ctx context.Context, condition func() bool) bool {
	for {
		r.mu.Lock()
		holds, changed := condition(), r.changed
		r.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// of is what came for a tick.
func (r *receivers) of(tick int64) *tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.got[tick]; t != nil {
		return &tally{updates: slices.Clone(t.updates), from: slices.Sorted(slices.Values(t.from))}
	}
	return &tally{updates: make([]int, len(r.addresses))}
}

// each reports whether every receiver has at least that many updates.
func (t *tally) each(updates int) bool {
	return t != nil && slices.Min(t.updates) >= updates
}

func (t *tally) sum() (updates int) {
	for _, n := range t.updates {
		updates += n
	}
	return updates
}

// forget starts all counts anew.
func (r *receivers) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.got)
}

func (r *receivers) close() (err error) {
	for _, server := range r.servers {
		err = errors.Join(err, server.Close())
	}
	r.serving.Wait()
	return err
}

// setTrap has f called in the middle of sending the next tick, before the
// sender gets an answer.
func (r *receivers) setTrap(f func(tick int64, from string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trap = f
}

// giveUp has nobody wait for a tick.
func (r *receivers) giveUp(tick int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.givenUp = tick
}
