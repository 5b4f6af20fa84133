// Package mysqlstore keeps jobs, leases and runs in tables of a MariaDB (10.6
// or later) or MySQL (8.0.1 or later) database: for fleets that have one.
// docs/stores/mysql.md says what it makes there and what it asks of the server.
//
// Each method is one short transaction at READ COMMITTED that locks the job's
// row first, so that the programs of a fleet decide for a job one after the
// other; most claims change that row as it was read before, or nothing. Leases
// end by the server's clock.
package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronce/cronce"
)

// Options says where the store is.
type Options struct {
	// URL is mysql://USER:PASSWORD@HOST:PORT/DATABASE, or
	// mysql://USER:PASSWORD@/DATABASE?socket=/PATH for a unix socket.
	// docs/stores/mysql.md has its parameters. Its password is in no error.
	URL string

	// Conns is how many connections are open at most. 0: 16. What needs another
	// one waits.
	Conns int
}

// defaultConns leaves room for a fleet on a server with the usual 151.
const defaultConns = 16

// Open connects, looks at the server's settings, and makes the tables where
// there are none. *cronce.ConfigError: something there breaks the promise, and
// the cure. *cronce.UnavailableError: the server cannot be reached.
func Open(ctx context.Context, o Options) (*cronce.Store, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, err
	}
	if err := d.start(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return cronce.NewStore(d), nil
}

// driver is the store as one process uses it.
type driver struct {
	place string // the URL without its secrets, for errors
	db    *sql.DB

	identity string // SQL: tells this server from one that could take its place
	galera   bool   // it is a node of a cluster
	memory   memory

	// These are other than usual in tests only.
	clock      string // SQL: the server's time, UTC, when a statement has come to it
	quarantine time.Duration
	committing func(send func() error) error // before what cannot be taken back is sent
}

var _ cronce.Driver = (*driver)(nil)

func newDriver(o Options) (*driver, error) {
	config, place, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	base, err := mysql.NewConnector(config)
	if err != nil { // about TLS; nothing in it is secret
		return nil, &cronce.ConfigError{Store: place, What: err.Error(), Cure: "see docs/stores/mysql.md for what a URL may say"}
	}
	d := &driver{place: place, db: sql.OpenDB(connector{base}), clock: "SYSDATE(6)", quarantine: cronce.MaxTTL}
	conns := cmp.Or(o.Conns, defaultConns)
	d.db.SetMaxOpenConns(conns)
	d.db.SetMaxIdleConns(conns)
	d.db.SetConnMaxIdleTime(idleTime)
	return d, nil
}

// start makes the driver ready: it looks at the server, and at the tables.
func (d *driver) start(ctx context.Context) error {
	if err := d.preflight(ctx); err != nil {
		return err
	}
	return d.migrate(ctx)
}

// Now is the server's clock.
func (d *driver) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := d.db.QueryRowContext(ctx, "SELECT "+d.clock).Scan(&now)
	return now, d.failed(err)
}

// Close closes the connections. Leases are not released.
func (d *driver) Close() error { return d.db.Close() }
