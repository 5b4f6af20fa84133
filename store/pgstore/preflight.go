package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/cronce/cronce"
)

// oldest is the oldest server that the functions are written for.
const oldest = 120000

// preflight refuses a server that cannot keep the promise as it is set.
func (d *driver) preflight(ctx context.Context) error {
	var (
		version                             int
		recovers                            bool
		readOnly, fsync, encoding, database string
	)
	err := d.pool.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.pg_is_in_recovery(),
		pg_catalog.current_setting('transaction_read_only'), pg_catalog.current_setting('fsync'),
		pg_catalog.current_setting('server_encoding'), pg_catalog.current_database()`,
	).Scan(&version, &recovers, &readOnly, &fsync, &encoding, &database)
	if err != nil {
		return d.explain(err)
	}
	var what, cure string
	switch {
	case version < oldest:
		what, cure = fmt.Sprintf("its server is Postgres %d", version/10000), fmt.Sprintf("use %d or newer", oldest/10000)
	case recovers:
		what, cure = "it is a read replica", "name the primary in the URL, or all hosts: HOST1:PORT,HOST2:PORT"
	case readOnly == "on":
		what, cure = "its sessions are read-only", "take default_transaction_read_only from the server, the database or the role, or name a store that takes writes"
	case fsync == "off":
		what, cure = "its server runs with fsync = off: a crash of the machine loses decisions", "set fsync = on in postgresql.conf and reload"
	case encoding != "UTF8":
		what, cure = "its database has the encoding "+encoding, "make a database for cronce with ENCODING 'UTF8'"
	default:
		return nil
	}
	return &cronce.ConfigError{Store: d.place, What: what, Cure: cure}
}

// checkTables refuses tables that a crash empties.
func (d *driver) checkTables(ctx context.Context) error {
	var unlogged []string
	err := d.pool.QueryRow(ctx, `SELECT coalesce(pg_catalog.array_agg(c.relname::text), '{}') FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relpersistence = 'u'`, d.schema).Scan(&unlogged)
	if err != nil {
		return d.explain(err)
	}
	if len(unlogged) == 0 {
		return nil
	}
	return &cronce.ConfigError{Store: d.place, What: "its tables are unlogged, and empty after a crash: " + strings.Join(unlogged, ", "),
		Cure: fmt.Sprintf("ALTER TABLE %s.%s SET LOGGED, and so for each", d.schema, unlogged[0])}
}
