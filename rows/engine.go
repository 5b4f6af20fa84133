package rows

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// engine is what MariaDB and MySQL, Postgres, and SQLite do each in its own way.
type engine interface {
	inspector

	name() string                          // for people, with the version
	quote(name string) string              // a name, or SCHEMA.TABLE
	stored(column string) string           // SQL: a column's value as it is kept, and as it can be asked for again
	placeholder(n int) string              // of the nth argument, from 1
	now(c column) string                   // SQL: the database's time, as such a column keeps it
	after(c column, seconds string) string // SQL: now and so many seconds, given as SQL

	// look describes one table. A table that is not there has no columns.
	look(ctx context.Context, db *sql.DB, table string) (looks, error)

	// declare is the declaration of a new column for such facts.
	declare(k kind) string
	// remark is how a new table gets a remark: behind the bracket that opens its columns, behind the one that closes
	// them, and by a statement of its own.
	remark(table, text string) (opened, closed, after string)
	// index is the statement that makes an index.
	index(name, table string, columns ...string) string

	// retype gives a column another type and leaves all else of it as it was; empty: that cannot be done safely.
	retype(table string, c column, declared string) string
	// extend adds values to an enumeration in the same way.
	extend(table string, c column, values []string) string

	// session is what a connection begins with; empty: nothing, and it may be given back to the pool.
	session() string
	// prepares reports whether statements are to be prepared, as the driver keeps none: on Postgres it does, where no
	// pooler forbids it.
	prepares() bool
	// begin starts a transaction, at READ COMMITTED where there is a choice.
	begin() string
	// tuples says how to ask for some keys of several columns: by alternatives (a = 1 AND b = 2 OR …), or in a
	// list, with a word in front.
	tuples() (alternatives bool, word string)
	// lock is what a SELECT of t ends with to lock its rows and to pass over those that others have.
	lock() string
	// share is the same to read a row that must not change before the transaction ends.
	share() string
	// ignore ends an INSERT so that rows that are there stay as they are; column is any one of them.
	ignore(column string) string
	// claims is the one statement that claims and returns rows, where the engine has one; else nil.
	claims(d *Drainer, c *claim) *statement
	// again reports whether the database has taken back the transaction for the sake of another one, so that
	// it can be made anew.
	again(err error) bool
	// refused reports whether the statement itself is what the database does not take: it will not take it later.
	refused(err error) bool
}

// detect asks the database what it is.
func detect(ctx context.Context, db *sql.DB) (engine, error) {
	if err := db.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("the database cannot be reached, or refuses the connection: %w", err)
	}
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
