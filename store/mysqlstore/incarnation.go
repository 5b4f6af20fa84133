package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"time"
)

// server is what a transaction sees of the server that it is made by, and what
// the store has on record of whose decisions it keeps.
type server struct {
	identity string // the server's own
	flush    string // its innodb_flush_log_at_trx_commit
	readOnly string

	format int
	view
}

// view is whose decisions a store keeps, and whether they are all.
type view struct {
	kept  string // the server's identity
	known bool
	seen  time.Time // since when it is not known
}

// serverColumns are those that scan reads, of the store's row called s.
func (d *driver) serverColumns() string {
	return d.identity + ", @@innodb_flush_log_at_trx_commit, @@read_only, s.format, s.known, s.seen, s.server"
}

// scan reads the clock and serverColumns, behind other columns of the row.
func (s *server) scan(rows *sql.Rows, now *time.Time, before ...any) error {
	var seen sql.NullTime
	err := rows.Scan(append(before, now, &s.identity, &s.flush, &s.readOnly, &s.format, &s.known, &seen, &s.kept)...)
	s.seen = seen.Time
	return err
}

// trusted refuses what has changed since the driver was opened. A server that takes no
// writes also gives no answer by what it has: a replica may lag.
func (d *driver) trusted(s *server) error {
	if s.format == 0 {
		return d.config("open the store again", "its tables are not all made")
	}
	if err := d.readable(s.format); err != nil {
		return err
	}
	if s.flush != "1" {
		what, cure := flushProblem(s.flush)
		return d.config(cure, "%s", what)
	}
	if s.readOnly != "0" && !strings.EqualFold(s.readOnly, "OFF") {
		return d.noWrites(errors.New("read_only is on"))
	}
	return nil
}

// look puts on record that the store may not know of all decisions, since now,
// unless its record has changed since a claim saw it: then somebody did.
func (d *driver) look(ctx context.Context, saw server) error {
	return d.atomic(ctx, func(t *tx) error {
		var s server
		var now time.Time
		if err := t.enterStore(ctx, &s, &now); err != nil {
			return err
		}
		if s.view == saw.view {
			t.add("UPDATE cronce_store SET server = ?, known = 0, seen = ? WHERE id = 1", s.identity, now)
		}
		return t.end(ctx)
	})
}

// enterStore locks the store's row and reads it.
func (t *tx) enterStore(ctx context.Context, s *server, now *time.Time) error {
	t.add("SELECT id FROM cronce_store WHERE id = 1 FOR UPDATE")
	t.add("SELECT " + t.d.clock + ", " + t.d.serverColumns() + " FROM cronce_store s WHERE s.id = 1")
	err := t.query(ctx, func(rows *sql.Rows) error { return rows.Scan(new(int)) }, func(rows *sql.Rows) error { return s.scan(rows, now) })
	if err != nil {
		return err
	}
	return t.d.trusted(s)
}

// Init makes the store known, as it is on this server.
func (d *driver) Init(ctx context.Context) error {
	return d.atomic(ctx, func(t *tx) error {
		var s server
		if err := t.enterStore(ctx, &s, new(time.Time)); err != nil {
			return err
		}
		if !s.known || s.kept != s.identity {
			t.add("UPDATE cronce_store SET server = ?, known = 1 WHERE id = 1", s.identity)
		}
		return t.commit(ctx)
	})
}

// memory is the highest fence of each job that this process has seen: a store that
// was put back to an earlier time cannot tell by itself.
type memory struct {
	mu     sync.Mutex
	fences map[string]int64
}

// of is what was seen of a job; 0 is nothing.
func (m *memory) of(s *server, job string) int64 {
	if strings.HasPrefix(s.identity, "galera ") {
		return 0 // another node may be behind by what it is about to apply
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fences[job]
}

// keep remembers a job's fence.
func (m *memory) keep(j *jobRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fences == nil {
		m.fences = map[string]int64{}
	}
	m.fences[j.Job] = max(m.fences[j.Job], j.Fence)
}
