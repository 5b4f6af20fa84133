package rows_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/rows"
)

// hasty are leases that end within a test.
var hasty = rows.Options{Workers: 20, Batch: 100, Timeout: time.Second, Lease: 6 * time.Second}

// drainAll drains until nothing is left, also of claims whose lease has to end first.
func (db *database) drainAll(d *rows.Drainer, handle rows.Handler) (total rows.Result) {
	db.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		result, err := d.Drain(db.t.Context(), handle)
		if err != nil {
			db.t.Fatal(err)
		}
		total.Sent += result.Sent
		total.Lost += result.Lost
		total.Reclaimed += result.Reclaimed
		total.Doubtful += result.Doubtful
		if left := result.Left; left.Pending+left.Later+left.Sending == 0 {
			return total
		}
		if time.Now().After(end) {
			db.t.Fatalf("after a minute this is left: %+v", result.Left)
		}
	}
}

// TestLostCommits defends that what has been committed without a word is found by its token: no row is lost, and
// none sent twice.
func TestLostCommits(t *testing.T) {
	t.Parallel()
	const n = 2000
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, n)
		var lost atomic.Int64
		broken := *db
		broken.DB = sql.OpenDB(mute{autocommit{db.Driver(), db.source}, func(query string) bool {
			// Also the statements that are a claim or a turn by themselves.
			if query != "COMMIT" && !strings.HasPrefix(query, "WITH c") && !strings.HasPrefix(query, "UPDATE") {
				return false
			}
			// By chance: of statements that come in a round of five each time, always the same one would be lost.
			if rand.N(5) != 0 {
				return false
			}
			lost.Add(1)
			return true
		}})
		t.Cleanup(func() { broken.Close() })
		counted := newCalls(n)
		begun := time.Now()
		result := broken.drainAll(broken.open(notices, hasty), counted.handle)
		counted.once(t)
		t.Logf("%d lost; %+v in %s", lost.Load(), result, time.Since(begun))
		if result.Sent != n || result.Lost+result.Doubtful != 0 {
			t.Errorf("of %d rows: %+v", n, result)
		}
		if lost.Load() < 10 {
			t.Errorf("only %d replies were lost", lost.Load())
		}
	})
}

// mute connects as a driver does, and loses the reply of statements that it is asked about.
type mute struct {
	autocommit
	lose func(query string) bool
}

func (m mute) Connect(context.Context) (driver.Conn, error) {
	conn, err := m.driver.Open(m.source)
	return &muted{Conn: conn, lose: m.lose}, err
}

type muted struct {
	driver.Conn
	lose func(query string) bool
}

func (m *muted) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	found, err := m.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	return m.answer(query, found, err)
}

func (m *muted) answer(query string, found driver.Rows, err error) (driver.Rows, error) {
	if err == nil && m.lose(query) {
		for err == nil { // until the server has done it
			err = found.Next(make([]driver.Value, len(found.Columns())))
		}
		found.Close()
		return nil, m.gone()
	}
	return found, err
}

func (m *muted) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := m.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if err == nil && m.lose(query) {
		return nil, m.gone()
	}
	return result, err
}

func (m *muted) Prepare(query string) (driver.Stmt, error) {
	stmt, err := m.Conn.Prepare(query)
	return &mutedStatement{stmt, m, query}, err
}

// gone leaves the connection to its user to close: SQLite's has statements that go first.
func (m *muted) gone() error { return io.ErrUnexpectedEOF }

type mutedStatement struct {
	driver.Stmt
	on    *muted
	query string
}

func (s *mutedStatement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	found, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return s.on.answer(s.query, found, err)
}

func (s *mutedStatement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err == nil && s.on.lose(s.query) {
		return nil, s.on.gone()
	}
	return result, err
}

// TestCutConnections defends the same with a network that takes requests and closes connections in place of
// replies, at any moment.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	const n = 1500
	for name, open := range map[string]func(testing.TB) *database{"mariadb": mariadb, "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			db.fill(notices, n)
			proxy := testenv.NewProxy(t, db.url)
			through := connect(t, db.engine, proxy.URL())
			counted := newCalls(n)
			d := through.open(notices, hasty)
			done := make(chan struct{})
			var total rows.Result
			go func() {
				defer close(done)
				total = through.drainAll(d, counted.handle)
			}()
			// A busy machine may get nothing through between two cuts: then they come more seldom.
			gap, seen := 100*time.Millisecond, 0
			for cuts := 0; ; cuts++ {
				select {
				case <-done:
					counted.once(t)
					if total.Sent != n {
						t.Errorf("of %d rows: %+v", n, total)
					}
					if cuts < 3 {
						t.Errorf("only %d cuts", cuts)
					}
					t.Logf("%d cuts; %+v", cuts, total)
					return
				case <-time.After(gap):
					if now := counted.total(); now > seen {
						gap, seen = 100*time.Millisecond, now
					} else {
						gap = min(2*gap, 3*time.Second)
					}
					proxy.CutReplies()
					time.Sleep(10 * time.Millisecond)
					proxy.Restore()
				}
			}
		})
	}
}

// TestServerKilled defends the same where the server itself dies, and comes back with what it had acknowledged.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	const n = 3000
	for name, start := range map[string]func(testing.TB) (*testenv.Server, *database){
		"mariadb": func(t testing.TB) (*testenv.Server, *database) {
			s := testenv.StartMariaDB(t)
			return s.Server, connect(t, "mysql", s.URL())
		},
		"postgres": func(t testing.TB) (*testenv.Server, *database) {
			s := testenv.StartPostgres(t)
			return s.Server, connect(t, "pgx", s.URL())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, db := start(t)
			db.fill(notices, n)
			counted := newCalls(n)
			killed := make(chan struct{})
			d := db.open(notices, rows.Options{Workers: 20, Timeout: time.Second})
			result, err := d.Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
				if row.Key[0].(int64) == 1000 {
					server.Kill()
					close(killed)
					server.Restart(testenv.Kept)
				}
				return counted.handle(ctx, row)
			})
			if err != nil || result.Sent+result.Left.Sending != n {
				t.Errorf("%+v, %v", result, err)
			}
			<-killed
			for id := range counted.of {
				if counted.of[id].Load() > 1 {
					t.Errorf("row %d was handled twice", id)
				}
			}
			if sent := db.byState("sent"); int64(len(sent)) != result.Sent {
				t.Errorf("%d are sent on record, %d were", len(sent), result.Sent)
			}
		})
	}
}

// TestLateStart defends that no handler is called with less of its lease left than its time-out: a start that was acknowledged
// too late, or found on record when another attempt was made, is taken back, and is no attempt.
func TestLateStart(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"slow": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := sqlite(t)
			db.fill(notices, 1)
			var slept atomic.Bool
			slow := *db
			slow.DB = sql.OpenDB(mute{autocommit{db.Driver(), db.source}, func(query string) bool {
				if strings.Contains(query, " + 1") && slept.CompareAndSwap(false, true) { // an attempt more: the start
					time.Sleep(hasty.Lease - hasty.Timeout - 500*time.Millisecond)
					return lost
				}
				return false
			}})
			t.Cleanup(func() { slow.Close() })
			result, err := slow.open(notices, hasty).Drain(t.Context(), func(_ context.Context, row rows.Row) error {
				if row.Attempt != 1 {
					t.Errorf("the handler is called for attempt %d", row.Attempt)
				}
				return nil
			})
			if want := (rows.Result{Sent: 1, Returned: 1}); result != want || err != nil {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}
