package rows_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cronce/cronce/rows"
)

// notices is the table of most tests.
var notices = rows.Table{Name: "notices", Key: []string{"id"}, State: "status", Read: []string{"recipient"}}

// fill makes the table with n pending rows, ids from 1, and what else it needs.
func (db *database) fill(table rows.Table, n int, suffix ...string) {
	db.t.Helper()
	db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80))" + strings.Join(suffix, ""))
	db.insert(1, n)
	db.migrate(table)
}

func (db *database) migrate(table rows.Table) {
	db.t.Helper()
	migration, err := rows.Migration(db.t.Context(), db.DB, table, rows.Options{Fence: 1})
	if err != nil {
		db.t.Fatal(err)
	}
	db.run(migration)
}

// insert adds pending rows.
func (db *database) insert(from, n int) {
	db.t.Helper()
	for n > 0 {
		var b strings.Builder
		b.WriteString("INSERT INTO notices (id, status, recipient) VALUES ")
		for i := range min(n, 1000) {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "(%d, 'pending', 'r%d@example.org')", from+i, from+i)
		}
		db.run(b.String())
		from, n = from+1000, n-1000
	}
}

// number is the one number of a query.
func (db *database) number(query string) (n int64) {
	db.t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		db.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (db *database) open(table rows.Table, o rows.Options) *rows.Drainer {
	db.t.Helper()
	d, err := rows.Open(db.t.Context(), db.DB, table, o)
	if err != nil {
		db.t.Fatal(err)
	}
	return d
}

// calls counts how often each row was handled.
type calls struct {
	of []atomic.Int32
}

func newCalls(n int) *calls { return &calls{of: make([]atomic.Int32, n+1)} }

func (c *calls) handle(_ context.Context, row rows.Row) error {
	id := row.Key[0].(int64)
	c.of[id].Add(1)
	if want := fmt.Sprintf("r%d@example.org", id); row.Values[0] != want {
		return rows.Permanent(fmt.Errorf("row %d came with %v", id, row.Values[0]))
	}
	return nil
}

// total is how often rows were handled so far.
func (c *calls) total() (n int) {
	for i := range c.of {
		n += int(c.of[i].Load())
	}
	return n
}

// once fails the test unless each was handled once.
func (c *calls) once(t *testing.T) {
	t.Helper()
	never, twice := 0, 0
	for i := range c.of[1:] {
		switch c.of[i+1].Load() {
		case 0:
			never++
		case 1:
		default:
			twice++
		}
	}
	if never+twice > 0 {
		t.Errorf("of %d rows %d were never handled, and %d more than once", len(c.of)-1, never, twice)
	}
}

// crowd has eight claimers work off a table side by side.
func crowd(t *testing.T, db *database, table rows.Table, n int) {
	t.Helper()
	counted := newCalls(n)
	var wg sync.WaitGroup
	var sent, blocked atomic.Int64
	for range 8 {
		d := db.open(table, rows.Options{Workers: 400, Batch: 800})
		wg.Go(func() {
			result, err := d.Drain(t.Context(), counted.handle)
			if err != nil {
				t.Error(err)
			}
			if result.Lost+result.Failed+result.Dead+result.Unknown+result.Retry+result.Unrecorded+result.Doubtful != 0 {
				t.Errorf("without any failure: %+v", result)
			}
			sent.Add(result.Sent)
			blocked.Add(result.Blocked)
		})
	}
	wg.Wait()
	counted.once(t)
	if sent.Load() != int64(n) {
		t.Errorf("%d rows are said to be sent, of %d", sent.Load(), n)
	}
	t.Logf("%d claims found everything locked", blocked.Load())
}

// TestEightClaimers defends the promise on each engine: every row is handled exactly once.
func TestEightClaimers(t *testing.T) {
	t.Parallel()
	const n = 40000
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, n)
		crowd(t, db, notices, n)
		if got := db.number("SELECT COUNT(*) FROM notices WHERE status = 'sent' AND cronce_attempts = 1 AND cronce_lease_until IS NULL"); got != n {
			t.Errorf("%d rows of %d are sent, after one attempt", got, n)
		}
	})
}

// TestSideTable defends the same where the table has no more than a state, or not even that.
func TestSideTable(t *testing.T) {
	t.Parallel()
	const n = 3000
	for name, table := range map[string]rows.Table{
		"state":    {Name: "notices", Key: []string{"id"}, State: "status", Read: []string{"recipient"}, Side: "notices_claims"},
		"no state": {Name: "notices", Key: []string{"id"}, Read: []string{"recipient"}, Side: "notices_claims"},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, db *database) {
				db.fill(table, n)
				crowd(t, db, table, n)
				if got := db.number("SELECT COUNT(*) FROM notices_claims WHERE state = 'sent'"); got != n {
					t.Errorf("%d rows of %d are sent by the side table", got, n)
				}
				if got := db.number("SELECT COUNT(*) FROM notices WHERE status = 'sent'"); got != n && table.State != "" {
					t.Errorf("%d rows of %d are sent by their own state", got, n)
				}
			})
		})
	}
}

// TestMyISAM defends that nothing is sent twice by an engine that knows neither transactions nor SKIP LOCKED, and does
// not say so.
func TestMyISAM(t *testing.T) {
	t.Parallel()
	for engine, n := range map[string]int{"MyISAM": 40000, "Aria": 4000} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			db := mariadb(t)
			db.fill(notices, n, " ENGINE=", engine)
			crowd(t, db, notices, n)
		})
	}
}

// TestAutocommitForced defends the same where BEGIN and COMMIT do not reach the server: each statement is by
// itself, and what SELECT … FOR UPDATE has locked is free before the UPDATE.
func TestAutocommitForced(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		n := 4000
		if db.engine == "mysql" {
			n = 40000
		}
		db.fill(notices, n)
		forced := *db
		forced.DB = sql.OpenDB(autocommit{db.Driver(), db.source})
		t.Cleanup(func() { forced.Close() })
		crowd(t, &forced, notices, n)
	})
}

// autocommit connects as a driver does, and keeps transactions from the server.
type autocommit struct {
	driver driver.Driver
	source string
}

func (a autocommit) Driver() driver.Driver { return a.driver }

func (a autocommit) Connect(context.Context) (driver.Conn, error) {
	conn, err := a.driver.Open(a.source)
	return statements{conn}, err
}

// statements is a connection without transactions.
type statements struct{ driver.Conn }

func (s statements) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return s.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (s statements) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	for _, word := range []string{"START", "BEGIN", "COMMIT", "ROLLBACK"} {
		if strings.HasPrefix(query, word) {
			return driver.ResultNoRows, nil
		}
	}
	return s.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}
