package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// api is the outside: it sends a notification for each call, quickly at first, and keeps a log.
type api struct {
	*httptest.Server
	fast, slow time.Duration
	quick      int // calls until it slows down

	mu   sync.Mutex
	more chan struct{} // closed at the next call
	log  []string      // recipients
}

func newAPI(fast, slow time.Duration, quick int) *api {
	a := &api{fast: fast, slow: slow, quick: quick, more: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(a.send))
	return a
}

func (a *api) send(w http.ResponseWriter, r *http.Request) {
	var row struct{ Recipient string }
	if err := json.NewDecoder(r.Body).Decode(&row); err != nil || row.Recipient == "" {
		http.Error(w, "a recipient is expected", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.log = append(a.log, row.Recipient)
	took := a.fast
	if len(a.log) > a.quick {
		took = a.slow
	}
	close(a.more)
	a.more = make(chan struct{})
	a.mu.Unlock()
	time.Sleep(took) // it is slow: that is the story
}

// await waits for so many calls.
func (a *api) await(ctx context.Context, calls int) {
	for {
		a.mu.Lock()
		got, more := len(a.log), a.more
		a.mu.Unlock()
		if got >= calls {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// tally counts the log.
func (a *api) tally() (sum tally) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := map[string]int{}
	for _, recipient := range a.log {
		by[recipient]++
	}
	for _, n := range by {
		sum.most = max(sum.most, n)
		if n > 1 {
			sum.twice++
		}
	}
	sum.sends = len(a.log)
	return sum
}
