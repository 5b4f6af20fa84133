package rows

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// engine is what MariaDB and MySQL, Postgres, and SQLite do each in its own way.
type engine interface {
	name() string                          // for people, with the version
	quote(name string) string              // a name, or SCHEMA.TABLE
	placeholder(n int) string              // of the nth argument, from 1
	now(c column) string                   // SQL: the database's time, as such a column keeps it
	after(c column, seconds string) string // SQL: now and so many seconds, given as SQL

	// look describes one table. A table that is not there has no columns.
	look(ctx context.Context, db *sql.DB, table string) (looks, error)

	// declare is the declaration of a new column for such facts.
	declare(k kind) string
	// index is the statement that makes an index.
	index(name, table string, columns ...string) string

	// again reports whether the database has taken back all of the transaction, so that
	// it can be made anew.
	again(err error) bool
}

// detect asks the database what it is.
func detect(ctx context.Context, db *sql.DB) (engine, error) {
	var version string
	err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version)
	switch {
	case err == nil && strings.HasPrefix(version, "PostgreSQL "):
		return &postgres{version: version}, nil
	case err == nil:
		return &mysql{version: version}, nil
	}
	if lite := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); lite == nil {
		return &sqlite{version: version}, nil
	}
	return nil, fmt.Errorf("the database does not say what it is: %w", err)
}
