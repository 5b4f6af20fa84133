package rows

import (
	"context"
	"database/sql"
	"strings"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls read for every row of a query.
func each(ctx context.Context, q querier, read func(scan func(...any) error) error, query string, args ...any) error {
	found, err := q.QueryContext(ctx, query, args...)
	return eachOf(found, err, read)
}

func eachOf(found *sql.Rows, err error, read func(scan func(...any) error) error) error {
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		if err := read(found.Scan); err != nil {
			return err
		}
	}
	return found.Err()
}

// quoted is a list of columns.
func quoted(e engine, columns []string) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = e.quote(c)
	}
	return strings.Join(all, ", ")
}
