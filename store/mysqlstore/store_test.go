package mysqlstore

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/storetest"
)

// TestStore runs the conformance suite on databases of one server; what hurts
// the server has one of its own.
func TestStore(t *testing.T) {
	ticks := 200
	if testenv.Race {
		ticks = 30 // the storm is as wild, and shorter
	}
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		if strings.Contains(t.Name(), "Restart") || strings.Contains(t.Name(), "Forget") || strings.Contains(t.Name(), "Known") {
			server := testenv.StartMariaDB(t)
			h := harness(t, server.URL())
			h.Ticks = ticks
			h.Restart = func(*testing.T) { server.Restart(testenv.Kept) }
			h.Forget = func(*testing.T) { server.Restart(testenv.Gone) }
			return h
		}
		h := harness(t, testenv.MariaDB(t))
		h.Ticks = ticks
		h.Restart, h.Forget = func(*testing.T) {}, func(*testing.T) {}
		return h
	})
}

// testClock is the server's time and how far a test has set it ahead. It is read
// when the statement comes to it, and not when it was sent.
const testClock = "(SYSDATE(6) + INTERVAL (SELECT ahead FROM test_clock) MICROSECOND)"

// harness is the suite's for a store at that URL. Each client has a proxy of
// its own between it and the server.
func harness(t *testing.T, storeURL string) storetest.Harness {
	direct, err := newDriver(Options{URL: storeURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { direct.Close() })
	exec := func(t *testing.T, statement string, args ...any) {
		t.Helper()
		if _, err := direct.db.Exec(statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	var ahead atomic.Int64 // µs, in case the database forgets it
	var clients sync.Map   // of *client, by *cronce.Store
	of := func(s *cronce.Store) *client {
		c, _ := clients.Load(s)
		return c.(*client)
	}
	return storetest.Harness{
		Open: func(t *testing.T) *cronce.Store {
			proxy := testenv.NewProxy(t, storeURL)
			c := &client{driver: open(t, proxy.URL()), proxy: proxy}
			c.clock = testClock
			exec(t, "CREATE TABLE IF NOT EXISTS test_clock (id INT PRIMARY KEY, ahead BIGINT) ENGINE=InnoDB")
			exec(t, "INSERT IGNORE INTO test_clock VALUES (1, ?)", ahead.Load())
			c.committing = c.cut
			s := cronce.NewStore(c)
			clients.Store(s, c)
			return s
		},
		TTL: cronce.MinTTL,
		Advance: func(t *testing.T, d time.Duration) {
			ahead.Add(d.Microseconds())
			exec(t, "UPDATE test_clock SET ahead = ahead + ?", d.Microseconds())
		},
		Conflicts: true,
		DropReply: func(_ *testing.T, s *cronce.Store) { of(s).drop.Store(true) },
		Partition: func(_ *testing.T, s *cronce.Store) func() {
			p := of(s).proxy
			p.Cut()
			return p.Restore
		},
	}
}

// open opens a driver that closes itself at the test's end.
func open(t testing.TB, storeURL string) *driver {
	t.Helper()
	d, err := newDriver(Options{URL: storeURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return d
}

// client is a driver that can lose the reply to what it commits.
type client struct {
	*driver
	proxy   *testenv.Proxy
	drop    atomic.Bool
	dropped atomic.Bool
}

// cut is called before a commit is sent. COMMIT goes alone then: a server that cannot
// send the answer to the first statement of a packet leaves the rest of it.
func (c *client) cut(send func() error) error {
	if !c.drop.Load() {
		return nil
	}
	if err := send(); err != nil {
		return err
	}
	if c.drop.CompareAndSwap(true, false) {
		c.proxy.CutReplies()
		c.dropped.Store(true)
	}
	return nil
}

// heal lets replies through again, once one was lost.
func (c *client) heal() {
	if c.dropped.CompareAndSwap(true, false) {
		c.proxy.Restore()
	}
}

func (c *client) Claim(ctx context.Context, claim cronce.Claim) (cronce.Lease, error) {
	defer c.heal()
	l, err := c.driver.Claim(ctx, claim)
	if c.drop.CompareAndSwap(true, false) { // nothing was committed: it is the answer that is lost
		return cronce.Lease{}, errors.New("the reply is lost")
	}
	return l, err
}

func (c *client) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	defer c.heal()
	return c.driver.Renew(ctx, l)
}

func (c *client) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	defer c.heal()
	return c.driver.Finish(ctx, l, r)
}

func (c *client) Request(ctx context.Context, r cronce.Request) error {
	defer c.heal()
	return c.driver.Request(ctx, r)
}

// at is the URL with another parameter.
func at(t *testing.T, storeURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(storeURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
