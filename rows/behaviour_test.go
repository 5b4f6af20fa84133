package rows_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce/rows"
)

// TestOutcomes defends what each answer of a handler makes of its row.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	broken := errors.New("it is broken\x00 \xff")
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 9)
		d := db.open(notices, rows.Options{Workers: 3, Attempts: 2, Backoff: time.Hour, MaxBackoff: 3 * time.Hour, Timeout: time.Second})
		result, err := d.Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
			switch row.Key[0].(int64) {
			case 1:
				return nil
			case 2:
				return rows.Permanent(broken)
			case 3:
				return fmt.Errorf("once more: %w", broken)
			case 4:
				return rows.RetryAfter(9*365*24*time.Hour, broken) // which is bounded
			case 5:
				return rows.InDoubt(broken)
			case 6:
				panic("it panics")
			case 7:
				<-ctx.Done() // asked, and not answered
				return ctx.Err()
			case 9:
				runtime.Goexit() // as FailNow of a test does
				return nil
			default:
				<-ctx.Done()
				return nil // late, and done
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := rows.Result{Sent: 2, Failed: 1, Retry: 2, Unknown: 4, Left: rows.Counts{Later: 2}}
		if result.Blocked = 0; result != want {
			t.Errorf("got  %+v\nwant %+v", result, want)
		}
		for id, want := range []string{1: "sent", "failed", "pending", "pending", "unknown", "unknown", "unknown", "sent", "unknown"} {
			if id == 0 {
				continue
			}
			if got := db.text(fmt.Sprintf("SELECT status FROM notices WHERE id = %d", id)); got != want {
				t.Errorf("row %d is %s, not %s", id, got, want)
			}
		}
		if text := db.text("SELECT cronce_last_error FROM notices WHERE id = 3"); !strings.Contains(text, "once more: it is broken") {
			t.Errorf("the error on record is %q", text)
		}
		if text := db.text("SELECT cronce_last_error FROM notices WHERE id = 7"); !strings.Contains(text, "time-out") {
			t.Errorf("the error of a time-out is %q", text)
		}
		// By the database's clock, with a jitter of a fifth.
		for id, hours := range map[int][2]float64{3: {0.79, 1.21}, 4: {2.99, 3.01}} {
			if got := db.hoursUntil(id); got < hours[0] || got > hours[1] {
				t.Errorf("row %d waits for %.2f hours, not from %v", id, got, hours)
			}
		}
		// The last attempt there is.
		db.run("UPDATE notices SET cronce_next_attempt_at = NULL")
		if result, err = d.Drain(t.Context(), func(context.Context, rows.Row) error { return broken }); err != nil || result.Dead != 2 {
			t.Errorf("the second failure of two: %+v, %v", result, err)
		}
		counts, err := d.Count(t.Context())
		if want := (rows.Counts{Sent: 2, Failed: 1, Dead: 2, Unknown: 4}); counts != want || err != nil {
			t.Errorf("counted %+v, %v; want %+v", counts, err, want)
		}
	})
}

// hoursUntil is how long a row waits by the database's clock.
func (db *database) hoursUntil(id int) (hours float64) {
	db.t.Helper()
	query := map[string]string{
		"mysql":  "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), cronce_next_attempt_at) / 3600 FROM notices WHERE id = ",
		"pgx":    "SELECT EXTRACT(EPOCH FROM cronce_next_attempt_at - now())::float8 / 3600 FROM notices WHERE id = ",
		"sqlite": "SELECT (julianday(cronce_next_attempt_at) - julianday('now')) * 24 FROM notices WHERE id = ",
	}[db.engine] + fmt.Sprint(id)
	if err := db.QueryRow(query).Scan(&hours); err != nil {
		db.t.Fatal(err)
	}
	return hours
}

// TestIdempotentDoubt defends that doubt is a failure like any other where doing it twice does no harm.
func TestIdempotentDoubt(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 2)
		d := db.open(notices, rows.Options{Idempotent: true, Attempts: 2, Backoff: time.Hour})
		result, err := d.Drain(t.Context(), func(_ context.Context, row rows.Row) error {
			if row.Key[0].(int64) == 1 {
				panic("it panics")
			}
			return rows.InDoubt(errors.New("no answer"))
		})
		if want := (rows.Result{Retry: 2, Left: rows.Counts{Later: 2}}); result != want || err != nil {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}

// TestStop defends that a stop gives back at once what was not started, lets handlers end, and interrupts them when
// the grace has passed.
func TestStop(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 100)
		d := db.open(notices, rows.Options{Workers: 2, Batch: 100, Grace: 300 * time.Millisecond})
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var begun []int64
		result, err := d.Drain(ctx, func(ctx context.Context, row rows.Row) error {
			mu.Lock()
			begun = append(begun, row.Key[0].(int64))
			n := len(begun)
			mu.Unlock()
			switch n {
			case 5:
				stop()
				// Others can have the rest while this one is at work.
				for end := time.Now().Add(time.Minute); db.number("SELECT COUNT(*) FROM notices WHERE status = 'sending'") > 2; {
					if time.Now().After(end) {
						return errors.New("what was not started is not given back")
					}
					time.Sleep(5 * time.Millisecond)
				}
				return nil
			case 6:
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a stopped drain returns %v", err)
		}
		if result.Lost != 0 || result.Unknown > 1 || int(result.Sent+result.Unknown) != len(begun) {
			t.Errorf("%d were begun: %+v", len(begun), result)
		}
		if left := db.number("SELECT COUNT(*) FROM notices WHERE status = 'pending' AND cronce_started_at IS NULL AND COALESCE(cronce_attempts, 0) = 0"); left != int64(100-len(begun)) {
			t.Errorf("%d rows are as they were; %d were begun of 100", left, len(begun))
		}
	})
}

// TestStale defends that a run which a later one has overtaken claims nothing, and that the later one is not
// held up.
func TestStale(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 40)
		old := db.open(notices, rows.Options{Job: "send", Fence: 7, Workers: 1, Batch: 10})
		late := db.open(notices, rows.Options{Job: "send", Fence: 8})
		other := db.open(notices, rows.Options{Job: "other", Fence: 1})
		counted := newCalls(40)
		var stale *rows.StaleError
		result, err := old.Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
			if row.Key[0].(int64) == 1 {
				if row.Fence != 7 {
					t.Errorf("the row has the fence %d", row.Fence)
				}
				if _, err := late.Drain(ctx, counted.handle); err != nil {
					t.Error(err)
				}
			}
			return counted.handle(ctx, row)
		})
		if !errors.As(err, &stale) || stale.Seen != 8 {
			t.Errorf("the overtaken run returns %v", err)
		}
		if result.Sent+result.Returned == 0 || result.Left.Sending != 0 {
			t.Errorf("of the overtaken run: %+v", result)
		}
		if result, err := old.Drain(t.Context(), counted.handle); !errors.As(err, &stale) || result.Sent != 0 {
			t.Errorf("and once more: %+v, %v", result, err)
		}
		if _, err := other.Drain(t.Context(), counted.handle); err != nil {
			t.Errorf("another job has another fence: %v", err)
		}
		counted.once(t)
		fences := db.text("SELECT COUNT(*) FROM notices WHERE cronce_fence IN (1, 7, 8)")
		if fences != "40" || db.text("SELECT MAX(fence) FROM cronce_fences WHERE job = 'send'") != "8" {
			t.Errorf("%s rows of 40 have a fence", fences)
		}
	})
}

// TestBlocked defends that a claim which gets nothing while rows are pending is not taken for the end.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *database{"mariadb": mariadb, "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			db.fill(notices, 3)
			d := db.open(notices, hasty)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.Exec("UPDATE notices SET recipient = 'r1@example.org' WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("SELECT id FROM notices WHERE id > 1 FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			var blocked *rows.BlockedError
			result, err := d.Drain(t.Context(), newCalls(3).handle)
			if !errors.As(err, &blocked) || blocked.Pending != 3 || result.Blocked < 5 {
				t.Errorf("with all rows locked: %+v, %v", result, err)
			}
			// Others end in time: then it is no error.
			time.AfterFunc(time.Second, func() { tx.Rollback() })
			counted := newCalls(3)
			if result, err := d.Drain(t.Context(), counted.handle); err != nil || result.Sent != 3 {
				t.Errorf("with rows locked for a second: %+v, %v", result, err)
			}
			counted.once(t)
		})
	}
}

// TestLongRow defends that the lease of what waits, and of a handler that is longer at work than it may be, is renewed as long
// as the process lives.
func TestLongRow(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 3)
		slow := db.open(notices, rows.Options{Workers: 1, Timeout: 100 * time.Millisecond, Lease: 5100 * time.Millisecond})
		other := db.open(notices, rows.Options{})
		counted := newCalls(3)
		result, err := slow.Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
			if row.Key[0].(int64) == 1 {
				for range 80 { // past the lease and what is added to it
					time.Sleep(100 * time.Millisecond) // its context has ended long ago
					if result, err := other.Drain(t.Context(), counted.handle); err != nil || result.Sent+result.Reclaimed+result.Doubtful != 0 {
						t.Errorf("beside a live worker: %+v, %v", result, err)
					}
				}
			}
			return counted.handle(ctx, row)
		})
		if err != nil || result.Sent != 3 {
			t.Errorf("%+v, %v", result, err)
		}
		counted.once(t)
	})
}

// TestTakenRow defends that a handler is told when its row is no longer its own, and that what it says then changes nothing.
func TestTakenRow(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 1)
		short := db.open(notices, rows.Options{Timeout: 4 * time.Second, Lease: 9 * time.Second})
		result, err := short.Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
			db.run("UPDATE notices SET cronce_token = NULL, status = 'unknown'")
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), rows.ErrLost) {
				t.Errorf("the handler is told %v", context.Cause(ctx))
			}
			return nil
		})
		if err != nil || result.Lost != 1 || result.Sent != 0 || db.text("SELECT status FROM notices") != "unknown" {
			t.Errorf("%+v, %v; the row is %s", result, err, db.text("SELECT status FROM notices"))
		}
	})
}

// TestOrder defends that rows are handled in order, also those that come back, and by a column that is not the key.
func TestOrder(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		table := rows.Table{Name: "notices", Key: []string{"id"}, State: "status", Order: "recipient", Where: "recipient <> 'skip'"}
		db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80) NOT NULL)")
		for i, recipient := range []string{"d", "b", "skip", "c", "a"} {
			db.run(fmt.Sprintf("INSERT INTO notices VALUES (%d, 'pending', '%s')", i, recipient))
		}
		db.migrate(table)
		var got []int64
		if _, err := db.open(table, rows.Options{Batch: 2}).Drain(t.Context(), func(_ context.Context, row rows.Row) error {
			got = append(got, row.Key[0].(int64))
			if len(got) == 1 {
				db.run("INSERT INTO notices (id, status, recipient) VALUES (9, 'pending', 'A')") // before where it is
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if at := slices.Index(got, 9); at < 0 {
			t.Errorf("the row that came in between was not handled: %v", got)
		} else {
			got = slices.Delete(got, at, at+1)
		}
		if !slices.Equal(got, []int64{4, 1, 3, 0}) {
			t.Errorf("handled %v", got)
		}
	})
}

// TestHeavyRows defends that a drain does not hold a whole batch of large rows in memory.
func TestHeavyRows(t *testing.T) {
	t.Parallel()
	const n = 160
	db := sqlite(t)
	db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient BLOB)")
	db.migrate(notices)
	db.run(fmt.Sprintf("INSERT INTO notices (status, recipient) WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d) SELECT 'pending', zeroblob(500000) FROM i", n))
	var most int64
	result, err := db.open(notices, rows.Options{Batch: n}).Drain(t.Context(), func(context.Context, rows.Row) error {
		most = max(most, db.number("SELECT COUNT(*) FROM notices WHERE status = 'sending'"))
		return nil
	})
	if err != nil || result.Sent != n {
		t.Errorf("%+v, %v", result, err)
	}
	if most > 80 { // half a claim that waits, and another one
		t.Errorf("%d rows of 500 kB were claimed at once", most)
	}
}

// TestKeys defends that any key will do.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]struct {
		columns string
		key     []string
	}{
		"two columns": {"account INTEGER NOT NULL, name VARCHAR(40) NOT NULL, PRIMARY KEY (account, name)", []string{"account", "name"}},
		"a text":      {"account INTEGER NOT NULL, name VARCHAR(40) NOT NULL PRIMARY KEY", []string{"name"}},
		"bytes":       {"account INTEGER NOT NULL, name BYTES NOT NULL PRIMARY KEY", []string{"name"}},
	} {
		for _, side := range []string{"", "claims"} {
			t.Run(name+side, func(t *testing.T) {
				engines(t, func(t *testing.T, db *database) {
					bytes := map[string]string{"mysql": "VARBINARY(40)", "pgx": "BYTEA", "sqlite": "BLOB"}[db.engine]
					db.run("CREATE TABLE work (status VARCHAR(10) NOT NULL, " + strings.ReplaceAll(keys.columns, "BYTES", bytes) + ")")
					values := make([]string, 300)
					for i := range values {
						values[i] = fmt.Sprintf("(%d, 'it''s %d, É', 'pending')", i%7, i)
					}
					db.run("INSERT INTO work (account, name, status) VALUES " + strings.Join(values, ", "))
					table := rows.Table{Name: "work", Key: keys.key, State: "status", Side: side}
					db.migrate(table)
					seen := map[string]int{}
					var mu sync.Mutex
					result, err := db.open(table, rows.Options{Workers: 9, Batch: 50}).Drain(t.Context(), func(_ context.Context, row rows.Row) error {
						mu.Lock()
						defer mu.Unlock()
						seen[row.String()]++
						return nil
					})
					if err != nil || result.Sent != 300 || len(seen) != 300 {
						t.Errorf("%d different: %+v, %v", len(seen), result, err)
					}
				})
			})
		}
	}
}
