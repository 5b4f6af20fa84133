package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/storetest"
)

// TestStore runs the suite, each subtest in a database of its own.
func TestStore(t *testing.T) {
	server := testenv.StartRedis(t)
	databases := 0
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		databases++
		s := &underTest{url: fmt.Sprint(server.URL(), databases)}
		h := s.harness()
		h.Restart = func(t *testing.T) {
			server.Restart(testenv.Kept)
			// A person knows that it had written all down.
			if err := s.open(t, s.url).Init(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.Forget = func(t *testing.T) { server.Restart(testenv.Gone) }
		return h
	})
}

var scripts = []script{claimScript, renewScript, finishScript, requestScript, readScript, pruneScript, bucketScript}

// underTest is a store with a clock that can be moved.
type underTest struct {
	url     string
	clients sync.Map // of *faulty, by *cronce.Store

	// The clock is moved between operations: a client sends along by how much.
	moving sync.RWMutex
	offset atomic.Int64 // µs
}

// open opens a client with the store's clock, at that URL of it.
func (s *underTest) open(t *testing.T, url string) *driver {
	t.Helper()
	d, err := open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	d.offset = &s.offset
	// The server knows the scripts, or a reply that is lost would be that it does not.
	for _, script := range scripts {
		if err := d.client.Do(t.Context(), d.client.B().ScriptLoad().Script(script.text).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func (s *underTest) harness() storetest.Harness {
	of := func(store *cronce.Store) *faulty {
		c, _ := s.clients.Load(store)
		return c.(*faulty)
	}
	return storetest.Harness{
		Open: func(t *testing.T) *cronce.Store {
			c := &faulty{moving: &s.moving}
			c.proxy = sync.OnceValue(func() *testenv.Proxy { return testenv.NewProxy(t, s.url) })
			c.driver = s.open(t, s.url)
			c.detour = sync.OnceValue(func() *driver { return s.open(t, c.proxy().URL()) })
			store := cronce.NewStore(c)
			s.clients.Store(store, c)
			return store
		},
		TTL: cronce.MinTTL,
		Advance: func(_ *testing.T, d time.Duration) {
			s.moving.Lock()
			defer s.moving.Unlock()
			s.offset.Add(d.Microseconds())
		},
		Conflicts: true,
		DropReply: func(_ *testing.T, store *cronce.Store) { of(store).drop() },
		Partition: func(_ *testing.T, store *cronce.Store) func() { return of(store).cut() },
		Ticks:     300,
	}
}

// faulty is a client that goes through a proxy once its network is to fail.
type faulty struct {
	*driver
	moving   *sync.RWMutex
	proxy    func() *testenv.Proxy
	detour   func() *driver
	dropping atomic.Bool
}

// drop loses the reply to the next operation.
func (c *faulty) drop() {
	c.driver = c.detour()
	c.proxy().CutReplies()
	c.dropping.Store(true)
}

// cut keeps the client from the server.
func (c *faulty) cut() (heal func()) {
	c.driver = c.detour()
	c.proxy().Cut()
	return c.proxy().Restore
}

// operation is around each that may be the next, and mends the network after
// the one whose reply was lost.
func (c *faulty) operation() func() {
	c.moving.RLock()
	return func() {
		c.moving.RUnlock()
		if c.dropping.Swap(false) {
			c.proxy().Restore()
		}
	}
}

func (c *faulty) Claim(ctx context.Context, claim cronce.Claim) (cronce.Lease, error) {
	defer c.operation()()
	return c.driver.Claim(ctx, claim)
}

func (c *faulty) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	defer c.operation()()
	return c.driver.Renew(ctx, l)
}

func (c *faulty) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	defer c.operation()()
	return c.driver.Finish(ctx, l, r)
}

func (c *faulty) Request(ctx context.Context, r cronce.Request) error {
	defer c.operation()()
	return c.driver.Request(ctx, r)
}

func (c *faulty) Now(ctx context.Context) (time.Time, error) {
	defer c.operation()()
	return c.driver.Now(ctx)
}

func (c *faulty) Init(ctx context.Context) error {
	defer c.operation()()
	return c.driver.Init(ctx)
}
