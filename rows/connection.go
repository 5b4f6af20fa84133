package rows

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// A lane is a connection for one kind of work, so that none waits for another: claims, turns, and
// what keeps leases. Only one goroutine uses it at a time.
type lane struct {
	d        *Drainer
	conn     *sql.Conn
	kept     bool // conn is ours until the lane ends
	prepared map[string]*sql.Stmt
}

// transact runs statements in one transaction, and returns when its COMMIT is acknowledged. An
// error that is not engine.again leaves open what was done: the COMMIT may have been applied, and where the table
// knows no transactions any statement.
func (l *lane) transact(ctx context.Context, work func() error) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	err := l.simple(ctx, l.d.engine.begin())
	if err == nil {
		if err = work(); err == nil {
			err = l.simple(ctx, "COMMIT")
		}
	}
	if err != nil {
		// What was begun ends with the connection, also where a ROLLBACK could not reach it.
		if !l.d.engine.again(err) || l.rollback(ctx) != nil {
			l.drop()
			return err
		}
	}
	l.rest()
	return err
}

// single runs one statement that is a transaction by itself.
func (l *lane) single(ctx context.Context, work func() error) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	if err := work(); err != nil {
		if !l.d.engine.again(err) {
			l.drop()
			return err
		}
		l.rest()
		return err
	}
	l.rest()
	return nil
}

// open has a connection at hand.
func (l *lane) open(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn, err := l.d.db.Conn(ctx)
	if err != nil {
		return err
	}
	l.conn, l.kept, l.prepared = conn, l.d.keeps(), map[string]*sql.Stmt{}
	if session := l.d.engine.session(); session != "" {
		if err := l.simple(ctx, session); err != nil {
			l.drop()
			return err
		}
	}
	return nil
}

// rest gives the connection back where none is kept.
func (l *lane) rest() {
	if l.conn != nil && !l.kept {
		l.end()
	}
}

// end gives the connection back to the pool, or closes it where it has settings that are ours.
func (l *lane) end() {
	if l.conn == nil {
		return
	}
	if l.d.engine.session() != "" {
		l.drop()
		return
	}
	l.forget()
	l.conn.Close()
	l.conn = nil
}

// drop closes the connection itself: it is in an unknown state.
func (l *lane) drop() {
	if l.conn == nil {
		return
	}
	l.forget()
	l.conn.Raw(func(any) error { return driver.ErrBadConn })
	l.conn.Close()
	l.conn = nil
}

// forget closes what is prepared.
func (l *lane) forget() {
	for text, s := range l.prepared {
		s.Close()
		delete(l.prepared, text)
	}
}

// simple is a statement without arguments or answer.
func (l *lane) simple(ctx context.Context, query string) error {
	_, err := l.conn.ExecContext(ctx, query)
	return err
}

// rollback ends a transaction that the database may have ended already.
func (l *lane) rollback(ctx context.Context) error {
	err := l.simple(ctx, "ROLLBACK")
	if err != nil && strings.Contains(err.Error(), "no transaction is active") { // SQLite, where BEGIN had to wait
		return nil
	}
	return err
}

// exec returns how many rows were affected; on MariaDB and MySQL it depends on the driver whether a row that
// was set to what it had is one of them.
func (l *lane) exec(ctx context.Context, s *statement) (int64, error) {
	var result sql.Result
	stmt, err := l.prepare(ctx, s)
	switch {
	case err != nil:
	case stmt != nil:
		result, err = stmt.ExecContext(ctx, s.args...)
	default:
		result, err = l.conn.ExecContext(ctx, s.text.String(), s.args...)
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls read for each row.
func (l *lane) query(ctx context.Context, s *statement, read func(scan func(...any) error) error) error {
	stmt, err := l.prepare(ctx, s)
	if err != nil {
		return err
	}
	if stmt == nil {
		return each(ctx, l.conn, read, s.text.String(), s.args...)
	}
	found, err := stmt.QueryContext(ctx, s.args...)
	return eachOf(found, err, read)
}

// prepare keeps statements where the driver would prepare them anew each time.
// It is nil where none is kept.
func (l *lane) prepare(ctx context.Context, s *statement) (*sql.Stmt, error) {
	if !l.kept || !l.d.engine.prepares() {
		return nil, nil
	}
	text := s.text.String()
	if stmt := l.prepared[text]; stmt != nil {
		return stmt, nil
	}
	if len(l.prepared) >= maxPrepared {
		l.forget()
	}
	stmt, err := l.conn.PrepareContext(ctx, text)
	if err == nil {
		l.prepared[text] = stmt
	}
	return stmt, err
}

// maxPrepared bounds what the server has to remember for a connection.
const maxPrepared = 100

// keeps reports whether lanes keep their connections. Where a connection has no settings of ours, a pool that is small is
// left to the handlers.
func (d *Drainer) keeps() bool {
	most := d.db.Stats().MaxOpenConnections
	return d.engine.session() != "" || most == 0 || most >= d.options.Workers+lanes+1
}

// checkPool refuses a pool in which the drain would wait for connections that it has itself.
func (d *Drainer) checkPool() error {
	if most := d.db.Stats().MaxOpenConnections; d.engine.session() != "" && most > 0 && most < lanes+1 {
		return d.refuse(fmt.Sprintf("allow %d at least, and those of the handlers (SetMaxOpenConns)", lanes+1), "the pool allows %d connections", most)
	}
	return nil
}

// lanes is how many connections a Drain keeps.
const lanes = 3

// sqlState is the SQLSTATE of an error whose driver says it, as those of Postgres do.
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}
