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
// together in one packet wherever no answer is needed in between; to a node of
// a Galera cluster one by one: what it takes back between two statements of a
// packet it does not tell, and the rest of them, COMMIT too, would succeed.
type tx struct {
	d    *driver
	conn *sql.Conn
	next []statement // what is sent next
}

type statement struct {
	text string
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

// once makes a transaction.
func (d *driver) once(ctx context.Context, f func(*tx) error) error {
	return d.on(ctx, func(t *tx) error {
		t.begin()
		return f(t)
	})
}

// on runs f on a connection of its own. Of a transaction that f began and did
// not commit nothing is done.
func (d *driver) on(ctx context.Context, f func(*tx) error) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := &tx{d: d, conn: conn}
	if err := f(t); err != nil {
		t.rollback(ctx) // the answer comes first: one that fails is one by the server
		return err
	}
	return nil
}

// rollback takes back what is not committed. Where it fails the connection is
// not used again, and the server does so.
func (t *tx) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := t.conn.ExecContext(ctx, "ROLLBACK")
	if err != nil {
		t.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	return err
}

func (t *tx) begin() { t.add("START TRANSACTION") }

// add puts a statement into the next packet.
func (t *tx) add(text string, args ...any) { t.next = append(t.next, statement{text, args}) }

// packets are what has been added, as it is sent.
func (t *tx) packets() []statement {
	all := t.next
	t.next = nil
	if t.d.galera || len(all) == 0 {
		return all
	}
	var texts []string
	var one statement
	for _, s := range all {
		texts, one.args = append(texts, s.text), append(one.args, s.args...)
	}
	one.text = strings.Join(texts, ";")
	return []statement{one}
}

// query sends what has been added, and hands the rows of each statement that
// has some to the next of the readers.
func (t *tx) query(ctx context.Context, readers ...func(*sql.Rows) error) error {
	for _, p := range t.packets() {
		rows, err := t.conn.QueryContext(ctx, p.text, p.args...)
		if err != nil {
			return err
		}
		if readers, err = readAll(rows, readers); err != nil {
			return err
		}
	}
	return nil
}

// readAll hands the rows to the readers, and returns those that are left.
func readAll(rows *sql.Rows, readers []func(*sql.Rows) error) ([]func(*sql.Rows) error, error) {
	defer rows.Close()
	for {
		columns, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		if len(columns) > 0 {
			for rows.Next() {
				if err := readers[0](rows); err != nil {
					return nil, err
				}
			}
			readers = readers[1:]
		}
		if !rows.NextResultSet() {
			return readers, rows.Err()
		}
	}
}

// commit sends what has been added, and commits what the caller asked for.
func (t *tx) commit(ctx context.Context) error {
	if err := t.d.beforeCommit(func() error { return t.send(ctx) }); err != nil {
		return err
	}
	return t.end(ctx)
}

// end sends what has been added, and commits what only comes before.
func (t *tx) end(ctx context.Context) error {
	t.add("COMMIT")
	return t.send(ctx)
}

// send sends what has been added.
func (t *tx) send(ctx context.Context) error {
	for _, p := range t.packets() {
		if _, err := t.conn.ExecContext(ctx, p.text, p.args...); err != nil {
			return err
		}
	}
	return nil
}

// beforeCommit tells a test that what is sent next is final. send sends what comes
// before it, for a test that is to hurt COMMIT alone.
func (d *driver) beforeCommit(send func() error) error {
	if d.committing == nil {
		return nil
	}
	return d.committing(send)
}

// readTime reads a time alone.
func readTime(to *time.Time) func(*sql.Rows) error {
	return func(rows *sql.Rows) error { return rows.Scan(to) }
}
