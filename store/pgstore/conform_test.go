package pgstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/storetest"
)

// TestStore runs the suite on a server that is killed, and that loses all. Its
// clients come directly and through a PgBouncer in transaction mode, with
// prepared statements and without.
func TestStore(t *testing.T) {
	server := testenv.StartPostgres(t)
	bouncer := testenv.StartPgBouncer(t, "transaction", server.URL())
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		b := newBed(t, server.URL())
		b.ways = []string{
			server.URL(),
			bouncer.URL(),
			server.URL() + "&default_query_exec_mode=cache_statement",
			bouncer.URL() + "&default_query_exec_mode=simple_protocol",
			server.URL() + "&default_query_exec_mode=cache_describe",
		}
		h := b.harness()
		h.Restart = func(t *testing.T) {
			server.Restart(testenv.Kept)
			bouncer.Restart(testenv.Kept) // it would try the server again after some seconds
			b.advance(t, 0)               // which is not waited for
		}
		h.Forget = func(*testing.T) {
			server.Restart(testenv.Gone)
			bouncer.Restart(testenv.Kept)
			b.made = false
		}
		return h
	})
}

var beds atomic.Int64

// newBed is a new store in that database: a schema of its own, which is much
// less for a server to keep than a database.
func newBed(t *testing.T, database string) *bed {
	schema := fmt.Sprintf("bed%d", beds.Add(1))
	return &bed{t: t, ways: []string{database}, schema: schema}
}

// bed is one store under test.
type bed struct {
	t       *testing.T
	ways    []string // URLs of its database, which clients use in turn; the first is the tests' own
	schema  string
	clients sync.Map // of *client, by *cronce.Store
	opened  atomic.Int64

	mu    sync.Mutex
	made  bool          // its schema, with a clock that can be moved
	shift time.Duration // of that
	admin *pgxpool.Pool
}

func (b *bed) harness() storetest.Harness {
	of := func(s *cronce.Store) *client {
		c, _ := b.clients.Load(s)
		return c.(*client)
	}
	return storetest.Harness{
		Open: func(t *testing.T) *cronce.Store {
			c := b.open(t)
			s := cronce.NewStore(c)
			b.clients.Store(s, c)
			return s
		},
		TTL:       cronce.MinTTL,
		Advance:   b.advance,
		Conflicts: true,
		DropReply: func(t *testing.T, s *cronce.Store) {
			c := of(s)
			c.proxied(t)
			c.drop = true
		},
		Partition: func(t *testing.T, s *cronce.Store) func() {
			c := of(s)
			c.proxied(t).Cut()
			return c.proxy.Restore
		},
		Ticks: 50,
	}
}

// client is a driver behind a proxy of its own, once it is to be hurt.
type client struct {
	*driver
	bed   *bed
	url   string
	proxy *testenv.Proxy
	drop  bool // the reply to the next operation
}

// url is one of the ways to the store.
func (b *bed) url(way int) string { return b.ways[way] + "&schema=" + b.schema }

func (b *bed) open(t *testing.T) *client {
	t.Helper()
	b.make(t)
	way := b.url(int(b.opened.Add(1)-1) % len(b.ways))
	return &client{driver: b.driver(t, way), bed: b, url: way}
}

// advance moves the store's clock, within the store: a step has its time when it
// has its job's row.
func (b *bed) advance(t *testing.T, d time.Duration) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shift += d
	b.exec(t, fmt.Sprintf("SET synchronous_commit = off; UPDATE {schema}.clock SET shift = %d * interval '1 microsecond'", b.shift.Microseconds()))
}

// make makes the schema with that clock.
func (b *bed) make(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made {
		return
	}
	if err := b.driver(t, b.url(0)).Close(); err != nil {
		t.Fatal(err)
	}
	b.exec(t, fmt.Sprintf(`CREATE TABLE {schema}.clock AS SELECT %d * interval '1 microsecond' AS shift;
		CREATE OR REPLACE FUNCTION {schema}.store_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT clock_timestamp() + shift FROM {schema}.clock $$`, b.shift.Microseconds()))
	b.made = true
}

// exec runs statements on the store's database.
func (b *bed) exec(t *testing.T, statements string) {
	t.Helper()
	target, err := readURL(b.url(0))
	if err != nil {
		t.Fatal(err)
	}
	if b.admin == nil {
		target.config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true } // it may have been restarted
		if b.admin, err = pgxpool.NewWithConfig(context.Background(), target.config); err != nil {
			t.Fatal(err)
		}
		b.t.Cleanup(b.admin.Close)
	}
	err = b.admin.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Conn().PgConn().Exec(t.Context(), strings.ReplaceAll(statements, "{schema}", target.schema)).ReadAll()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// driver opens a driver on that URL.
func (b *bed) driver(t *testing.T, target string) *driver {
	t.Helper()
	d, err := openDriver(t.Context(), Options{URL: target}, func(c *pgxpool.Config) {
		// A connection that is there is used as it is: a ping could be what
		// a proxy drops.
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	d.pruneAtMost = 3
	return d
}

// proxied puts a proxy between the client and the server.
func (c *client) proxied(t *testing.T) *testenv.Proxy {
	t.Helper()
	if c.proxy == nil {
		c.proxy = testenv.NewProxy(t, c.url)
		c.driver.Close()
		c.driver = c.bed.driver(t, c.proxy.URL())
	}
	return c.proxy
}

// hurt makes the operation that follows one without a reply, if that was asked
// for, until restore.
func (c *client) hurt(ctx context.Context) (restore func()) {
	if !c.drop {
		return func() {}
	}
	c.drop = false
	c.Now(ctx) // now there is a connection for the operation to be sent on
	c.proxy.CutReplies()
	return c.proxy.Restore
}

func (c *client) Claim(ctx context.Context, claim cronce.Claim) (cronce.Lease, error) {
	defer c.hurt(ctx)()
	return c.driver.Claim(ctx, claim)
}

func (c *client) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	defer c.hurt(ctx)()
	return c.driver.Renew(ctx, l)
}

func (c *client) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	defer c.hurt(ctx)()
	return c.driver.Finish(ctx, l, r)
}

func (c *client) Request(ctx context.Context, r cronce.Request) error {
	defer c.hurt(ctx)()
	return c.driver.Request(ctx, r)
}
