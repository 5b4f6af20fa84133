package mysqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"math/rand/v2"
	"strings"
	"time"
)

// attempts is how often a transaction is made that the server takes back for a
// deadlock or a wait for a row.
const attempts = 10

// tx is one short transaction on a connection of its own. Statements go
// together in one packet wherever no answer is needed in between.
type tx struct {
	d    *driver
	conn *sql.Conn
	text []string // what goes with the next packet
	args []any
}

// atomic runs f in a transaction, which f commits. Without that nothing of it
// is done.
func (d *driver) atomic(ctx context.Context, f func(*tx) error) error {
	return d.repeat(ctx, func() error { return d.once(ctx, f) })
}

// repeat makes a transaction again where the server says that it took all of it
// back. An error after which nobody knows is returned.
func (d *driver) repeat(ctx context.Context, transaction func() error) error {
	for try := 1; ; try++ {
		err := transaction()
		if !again(err) || try == attempts {
			return d.failed(err)
		}
		select {
		case <-time.After(rand.N(time.Duration(try) * 5 * time.Millisecond)):
		case <-ctx.Done():
			return d.failed(err)
		}
	}
}

func (d *driver) once(ctx context.Context, f func(*tx) error) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := &tx{d: d, conn: conn}
	t.add("START TRANSACTION")
	if err := f(t); err != nil {
		// The answer comes first: a rollback that fails is one by the server.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, e := conn.ExecContext(rollback, "ROLLBACK"); e != nil {
			conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // is not used again
		}
		return err
	}
	return nil
}

// add puts a statement into the next packet.
func (t *tx) add(statement string, args ...any) {
	t.text, t.args = append(t.text, statement), append(t.args, args...)
}

// packet is what has been added.
func (t *tx) packet() (string, []any) {
	text, args := strings.Join(t.text, ";"), t.args
	t.text, t.args = nil, nil
	return text, args
}

// query sends what has been added, and hands the rows of each statement that
// has some to the next of the readers.
func (t *tx) query(ctx context.Context, readers ...func(*sql.Rows) error) error {
	text, args := t.packet()
	rows, err := t.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for i := 0; i < len(readers); {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		if len(columns) > 0 {
			for rows.Next() {
				if err := readers[i](rows); err != nil {
					return err
				}
			}
			i++
		}
		if !rows.NextResultSet() {
			break
		}
	}
	return rows.Err()
}

// commit sends what has been added, and commits what the caller asked for.
func (t *tx) commit(ctx context.Context) error {
	t.d.beforeCommit()
	return t.end(ctx)
}

// end sends what has been added, and commits what only comes before.
func (t *tx) end(ctx context.Context) error {
	t.add("COMMIT")
	text, args := t.packet()
	_, err := t.conn.ExecContext(ctx, text, args...)
	return err
}

// beforeCommit tells a test that what is sent next is final.
func (d *driver) beforeCommit() {
	if d.committing != nil {
		d.committing()
	}
}

// readTime reads a time alone.
func readTime(to *time.Time) func(*sql.Rows) error {
	return func(rows *sql.Rows) error { return rows.Scan(to) }
}
