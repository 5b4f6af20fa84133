package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"
)

// together has the steps of one kind, on one bucket, that goroutines ask for while
// another is under way sent as one script: half of what a script takes is the same
// for one and for sixty. Who is alone waits for nobody.
type together struct {
	d      *driver
	bucket int
	send   func(ctx context.Context, bucket int, steps []*step) error

	mu      sync.Mutex
	flying  bool
	waiting []*step
}

// passengers is how many steps a script has at most: the server answers nobody else
// meanwhile.
const passengers = 64

// step is one goroutine's part of a script.
type step struct {
	keys, args []string
	answer     []string
	err        error
	done       chan struct{}
}

// do returns once the step was answered or ctx has ended. A step that was not yet sent by then
// never is.
func (t *together) do(ctx context.Context, s *step) error {
	t.mu.Lock()
	if !t.flying {
		t.flying = true
		t.mu.Unlock()
		defer t.next()
		return t.send(ctx, t.bucket, []*step{s})
	}
	s.done = make(chan struct{})
	t.waiting = append(t.waiting, s)
	t.mu.Unlock()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		t.leave(s)
		return t.d.failed(ctx.Err())
	}
}

// next has those who wait take the place of one who does not fly any longer.
func (t *together) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), passengers)
	if n == 0 {
		t.flying = false
		return
	}
	steps := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	// For as long as the server may be silent: it is many callers'.
	go func() {
		defer t.next()
		err := t.send(context.Background(), t.bucket, steps)
		for _, s := range steps {
			// One job's damage is no other's. What is sent again after the server's word is
			// answered as it was the first time.
			if s.err = err; errors.As(err, new(*rueidis.RedisError)) && len(steps) > 1 {
				s.err = t.send(context.Background(), t.bucket, []*step{s})
			}
			close(s.done)
		}
	}()
}

func (t *together) leave(s *step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.waiting {
		if w == s {
			t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
			return
		}
	}
}
