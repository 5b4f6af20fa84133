// Package pgstore keeps jobs, runs and leases in a Postgres database, for a
// fleet: rows in a schema of their own, which psql can read; see
// docs/stores/postgres.md.
//
// Each step is one statement, mostly the call of a function in that schema, in a
// transaction that is sent whole, in one round trip: a client that stops in the
// middle holds nothing up. Where a pooler stands between, nothing is kept in
// the session: no prepared statement, advisory lock or setting.
package pgstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
)

// Options says where a store is.
type Options struct {
	// URL is postgres://USER:PASSWORD@HOST:PORT/DATABASE, with the parameters
	// that libpq knows (sslmode, sslrootcert, connect_timeout,
	// application_name, …), pgx's pool_max_conns and default_query_exec_mode,
	// and schema: where in the database, "cronce" unless it is said. What it
	// leaves out comes from libpq's environment (PGPASSWORD, PGPASSFILE, …).
	// Several hosts, parted by commas, are tried in turn for one that takes
	// writes.
	URL string
}

// DefaultSchema is the schema of a store whose URL names none.
const DefaultSchema = "cronce"

// Open opens the store, and makes its schema if that is not there and may be
// made; many may at once. *cronce.ConfigError: it cannot keep the promise, and
// what to do about it. *cronce.UnavailableError: it cannot be reached.
// The password is in neither.
func Open(ctx context.Context, o Options) (*cronce.Store, error) {
	d, err := openDriver(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	return cronce.NewStore(d), nil
}

// driver is the store as one process uses it.
type driver struct {
	place  string // for people: the URL without its password and most parameters
	schema string
	pool   *pgxpool.Pool
	begins atomic.Bool // steps need BEGIN and COMMIT of their own
	// prepares: there may be connections that keep statements prepared.
	prepares bool
	memory   memory

	// These are other than usual in tests only.
	quarantine  time.Duration
	pruneAtMost int // runs in one step
}

var _ cronce.Driver = (*driver)(nil)

// patience is how long a step may take that has no earlier deadline of its
// own: a server that is gone without a word does not answer ever.
const patience = 15 * time.Second

// openDriver opens the store with a pool that tune, if any, has changed.
func openDriver(ctx context.Context, o Options, tune func(*pgxpool.Config)) (*driver, error) {
	t, err := readURL(o.URL)
	if err != nil {
		return nil, err
	}
	if tune != nil {
		tune(t.config)
	}
	pool, err := pgxpool.NewWithConfig(ctx, t.config)
	if err != nil {
		return nil, &cronce.UnavailableError{Store: t.place, Err: err}
	}
	d := &driver{
		place: t.place, schema: t.schema, pool: pool, prepares: t.prepares,
		quarantine: cronce.MaxTTL, pruneAtMost: 1000,
	}
	if err := d.prepare(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// prepare sees that the server can keep the promise, and that the schema is
// there in a format that this program knows.
func (d *driver) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.preflight(ctx); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	return d.checkTables(ctx)
}

// Close closes all connections. Leases stay. Where the server does not answer,
// it says goodbye for some seconds, which nobody has to wait for.
func (d *driver) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
	return nil
}

// Init makes the store known.
func (d *driver) Init(ctx context.Context) error {
	_, err := d.step(ctx, "init", question{})
	return err
}

// Now is the database's clock.
func (d *driver) Now(ctx context.Context) (time.Time, error) {
	a, err := d.step(ctx, "clock", question{})
	return a.Now.UTC(), err
}
