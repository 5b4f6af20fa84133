package rows_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce/rows"
)

// message is a row with a target and a content.
func message(id int, target, content string) rows.Row {
	return rows.Row{Key: []any{int64(id)}, Values: []any{target, content}, Attempt: 1}
}

// meter opens a meter of what message makes, with its table.
func meter(t *testing.T, db *database, o rows.MeterOptions) *rows.Meter {
	t.Helper()
	o.Target = func(r rows.Row) string { return r.Values[0].(string) }
	o.Content = func(r rows.Row) string { return rows.Canonical(r.Values[1]) }
	migration, err := rows.MeterMigration(t.Context(), db.DB, o)
	if err != nil {
		t.Fatal(err)
	}
	db.run(migration)
	m, err := rows.OpenMeter(t.Context(), db.DB, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// earlier has all that the meter remembers have happened so long before.
func earlier(db *database, ago time.Duration) {
	db.t.Helper()
	seconds := int(ago.Seconds())
	var set []string
	for _, column := range []string{"sent_at", "flying_until", "forget_at"} {
		switch db.engine {
		case "mysql":
			set = append(set, fmt.Sprintf("%[1]s = %[1]s - INTERVAL %[2]d SECOND", column, seconds))
		case "pgx":
			set = append(set, fmt.Sprintf("%[1]s = %[1]s - %[2]d * interval '1 second'", column, seconds))
		default:
			set = append(set, fmt.Sprintf("%[1]s = strftime('%%Y-%%m-%%d %%H:%%M:%%f', %[1]s, '-%[2]d seconds')", column, seconds))
		}
	}
	db.run("UPDATE cronce_sends SET " + strings.Join(set, ", "))
}

// TestMeter_Counts defends what a duplicate is: the same content to the same target, after one that was sent or may
// have been, within the window; and what is none.
func TestMeter_Counts(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		var found []rows.Duplicate
		m := meter(t, db, rows.MeterOptions{Found: func(d rows.Duplicate) { found = append(found, d) }})
		send := func(target, content string, result error) {
			t.Helper()
			called := false
			err := m.Watch(func(context.Context, rows.Row) error { called = true; return result })(t.Context(), message(1, target, content))
			if !called || err != result {
				t.Fatalf("handler called: %v, result %v, want %v", called, err, result)
			}
		}
		duplicates := func(want int64) {
			t.Helper()
			if got := m.Duplicates(); got != want || len(found) != int(want) {
				t.Fatalf("%d duplicates, %d were told of, want %d", got, len(found), want)
			}
		}
		clean := errors.New("refused")
		send("ann", "a", clean)
		send("ann", "a", rows.Permanent(clean))
		send("ann", "a", rows.RetryAfter(time.Second, clean))
		send("ann", "a", nil) // none was sent before
		send("ann", "b", nil)
		send("bob", "a", nil)
		send("an", "na", nil) // the parts do not run together
		duplicates(0)
		send("ann", "a", clean)
		duplicates(0)
		send("ann", "a", nil)
		duplicates(1)
		if d := found[0]; d.Target != "ann" || d.Sends != 2 || d.Blocked || d.Hash != rows.Hash("ann", rows.Canonical("a")) || d.Row.String() != "1" {
			t.Errorf("told of %+v", d)
		}
		send("cy", "a", rows.InDoubt(clean))
		send("cy", "a", nil)
		duplicates(2)
		earlier(db, 40*time.Minute)
		send("bob", "a", nil)
		duplicates(3)
		earlier(db, 61*time.Minute)
		send("bob", "a", nil)
		duplicates(3)
	})
}

// TestMeter_Doubt defends that an error after the time-out, and a panic, are no clean failures.
func TestMeter_Doubt(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		m := meter(t, db, rows.MeterOptions{Block: true})
		ctx, cancel := context.WithCancel(t.Context())
		m.Watch(func(ctx context.Context, _ rows.Row) error { cancel(); return ctx.Err() })(ctx, message(1, "ann", "a"))
		func() {
			defer func() { recover() }()
			m.Watch(func(context.Context, rows.Row) error { panic("a bug") })(t.Context(), message(2, "ann", "b"))
		}()
		for i, content := range []string{"a", "b"} {
			err := m.Watch(never(t))(t.Context(), message(3+i, "ann", content))
			var duplicate *rows.DuplicateError
			if !errors.As(err, &duplicate) || !errors.As(err, new(*rows.PermanentError)) {
				t.Errorf("content %s: %v, want a duplicate, for good", content, err)
			}
		}
	})
}

func never(t *testing.T) rows.Handler {
	return func(context.Context, rows.Row) error {
		t.Error("the handler was called")
		return nil
	}
}

// TestMeter_BlockAtOnce defends that of many workers with the same content one sends, also when they come at the same
// moment, from several pools.
func TestMeter_BlockAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		first := meter(t, db, rows.MeterOptions{Block: true})
		meters := []*rows.Meter{first, meter(t, connect(t, db.engine, db.url), rows.MeterOptions{Block: true})}
		const rounds, workers = 20, 8
		for round := range rounds {
			var sent, later, blocked atomic.Int64
			var wg sync.WaitGroup
			for i := range workers {
				wg.Go(func() {
					err := meters[i%2].Watch(func(context.Context, rows.Row) error {
						sent.Add(1)
						return nil
					})(t.Context(), message(i, "ann", fmt.Sprint(round)))
					switch {
					case errors.As(err, new(*rows.DuplicateError)):
						blocked.Add(1)
					case errors.As(err, new(*rows.RetryError)):
						later.Add(1)
					case err != nil:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if sent.Load() != 1 || later.Load()+blocked.Load() != workers-1 {
				t.Fatalf("round %d: %d sent, %d to be tried later, %d blocked", round, sent.Load(), later.Load(), blocked.Load())
			}
		}
	})
}

// TestMeter_CountAtOnce defends that sends at the same moment are counted all.
func TestMeter_CountAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		m := meter(t, db, rows.MeterOptions{})
		const workers = 8
		var ready, wg sync.WaitGroup
		ready.Add(workers)
		for i := range workers {
			wg.Go(func() {
				err := m.Watch(func(context.Context, rows.Row) error {
					ready.Done()
					ready.Wait() // all are under way
					if i == 0 {
						return errors.New("cleanly")
					}
					return nil
				})(t.Context(), message(i, "ann", "a"))
				if err != nil && i != 0 {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := m.Duplicates(); got != workers-2 {
			t.Errorf("%d duplicates of %d sends", got, workers-1)
		}
	})
}

// TestMeter_Flying defends that nothing is decided while an equal send is under way: it may still fail cleanly.
func TestMeter_Flying(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		m := meter(t, db, rows.MeterOptions{Block: true})
		err := m.Watch(func(context.Context, rows.Row) error {
			if err := m.Watch(never(t))(t.Context(), message(2, "ann", "a")); !errors.As(err, new(*rows.RetryError)) {
				t.Errorf("while it is under way: %v", err)
			}
			return errors.New("cleanly")
		})(t.Context(), message(1, "ann", "a"))
		if err == nil {
			t.Error("the handler's error is gone")
		}
		if err := m.Watch(func(context.Context, rows.Row) error { return nil })(t.Context(), message(2, "ann", "a")); err != nil {
			t.Errorf("after its clean failure: %v", err)
		}
		if m.Duplicates() != 0 {
			t.Errorf("%d duplicates", m.Duplicates())
		}
	})
}

// TestMeter_Crash defends that a send whose process died counts as one in doubt when its time is up.
func TestMeter_Crash(t *testing.T) {
	for _, block := range []bool{true, false} {
		t.Run(fmt.Sprintf("block=%v", block), func(t *testing.T) {
			engines(t, func(t *testing.T, db *database) {
				m := meter(t, db, rows.MeterOptions{Block: block})
				m.Watch(func(context.Context, rows.Row) error {
					earlier(db, 2*time.Minute) // as if it had been under way since then
					calls := 0
					err := m.Watch(func(context.Context, rows.Row) error { calls++; return nil })(t.Context(), message(2, "ann", "a"))
					if m.Duplicates() != 1 || block != errors.As(err, new(*rows.DuplicateError)) || block == (calls == 1) {
						t.Errorf("%d duplicates, %d calls, %v", m.Duplicates(), calls, err)
					}
					return nil
				})(t.Context(), message(1, "ann", "a"))
			})
		})
	}
}

// TestMeter_LostReply defends that a send which was put on record without a word, and so was not made, is not taken for one.
func TestMeter_LostReply(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		good := meter(t, db, rows.MeterOptions{Block: true})
		var lost atomic.Bool
		broken := *db
		broken.DB = sql.OpenDB(mute{autocommit{db.Driver(), db.source}, func(query string) bool {
			return strings.HasPrefix(query, "INSERT INTO") && lost.CompareAndSwap(false, true)
		}})
		defer broken.Close()
		broken.SetMaxIdleConns(0) // what is lost closes the connection
		err := meter(t, &broken, rows.MeterOptions{Block: true}).Watch(never(t))(t.Context(), message(1, "ann", "a"))
		if err == nil || !lost.Load() {
			t.Fatalf("lost: %v, %v", lost.Load(), err)
		}
		if n := db.number("SELECT COUNT(*) FROM cronce_sends"); n != 1 {
			t.Fatalf("%d are on record: the statement had no effect", n)
		}
		if err := good.Watch(func(context.Context, rows.Row) error { return nil })(t.Context(), message(1, "ann", "a")); err != nil {
			t.Error(err)
		}
	})
}

// TestMeter_Drain defends the whole: of rows with the same recipient one is sent where duplicates are blocked, by several
// drains at once, and all of them, counted, where they are not.
func TestMeter_Drain(t *testing.T) {
	const recipients, each = 40, 3
	for _, block := range []bool{true, false} {
		t.Run(fmt.Sprintf("block=%v", block), func(t *testing.T) {
			engines(t, func(t *testing.T, db *database) {
				db.fill(notices, recipients*each)
				db.run(fmt.Sprintf("UPDATE notices SET recipient = CONCAT('r', id %% %d)", recipients))
				o := rows.MeterOptions{Block: block}
				o.Target = func(r rows.Row) string { return r.Values[0].(string) }
				o.Content = func(rows.Row) string { return "hello" }
				migration, err := rows.MeterMigration(t.Context(), db.DB, o)
				if err != nil {
					t.Fatal(err)
				}
				db.run(migration)
				m, err := rows.OpenMeter(t.Context(), db.DB, o)
				if err != nil {
					t.Fatal(err)
				}
				var sends sync.Map
				handle := m.Watch(func(_ context.Context, r rows.Row) error {
					n, _ := sends.LoadOrStore(r.Values[0], new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
					return nil
				})
				var wg sync.WaitGroup
				for range 2 {
					d := db.open(notices, rows.Options{Workers: 4, Batch: 10, Attempts: 100, Backoff: time.Millisecond})
					wg.Go(func() { db.drainAll(d, handle) })
				}
				wg.Wait()
				want := int64(each)
				if block {
					want = 1
				}
				sends.Range(func(recipient, n any) bool {
					if got := n.(*atomic.Int64).Load(); got != want {
						t.Errorf("%v: %d sends, want %d", recipient, got, want)
					}
					return true
				})
				if got := m.Duplicates(); got != recipients*(each-1) {
					t.Errorf("%d duplicates, want %d", got, recipients*(each-1))
				}
				if block {
					if got := db.number("SELECT COUNT(*) FROM notices WHERE status = 'failed' AND cronce_last_error LIKE 'a duplicate, not sent%'"); got != recipients*(each-1) {
						t.Errorf("%d rows are failed as duplicates", got)
					}
				}
			})
		})
	}
}

// TestMeter_Forgets defends that the table stays short by itself, and keeps what is within the window.
func TestMeter_Forgets(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		m := meter(t, db, rows.MeterOptions{})
		send := func(m *rows.Meter, content string) {
			t.Helper()
			if err := m.Watch(func(context.Context, rows.Row) error { return nil })(t.Context(), message(1, "ann", content)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			send(m, fmt.Sprint(i))
		}
		earlier(db, 2*time.Hour)
		send(m, "new")
		send(meter(t, db, rows.MeterOptions{}), "newer") // prunes when it begins
		if got := db.number("SELECT COUNT(*) FROM cronce_sends"); got != 2 {
			t.Errorf("%d hashes are remembered, want 2", got)
		}
	})
}

// TestOpenMeter_Refuses defends that a meter which could not remember is not opened.
func TestOpenMeter_Refuses(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		o := rows.MeterOptions{Target: rows.Row.String, Content: rows.Row.String}
		var refused *rows.TableError
		if _, err := rows.OpenMeter(t.Context(), db.DB, o); !errors.As(err, &refused) || refused.Table != "cronce_sends" {
			t.Errorf("without its table: %v", err)
		}
		o.Content = nil
		if _, err := rows.OpenMeter(t.Context(), db.DB, o); err == nil {
			t.Error("without a content it is opened")
		}
	})
}

// TestMeter_Away defends that what cannot be put on record is not sent, and that it is a clean failure.
func TestMeter_Away(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		m := meter(t, db, rows.MeterOptions{})
		db.run("DROP TABLE cronce_sends")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, ctx := range []context.Context{t.Context(), ended} {
			if err := m.Watch(never(t))(ctx, message(1, "ann", "a")); !errors.As(err, new(*rows.RetryError)) {
				t.Errorf("%v, want an error that is tried again", err)
			}
		}
	})
}

// TestCanonical defends that what means the same is one text, and nothing else is.
func TestCanonical(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", 3600))
	for _, same := range [][2][]any{
		{{`{"b": 1, "a": [1, 2]}`}, {[]byte(`{"a":[1,2],"b":1}`)}},
		{{"a\r\nb"}, {"a\nb"}},
		{{at}, {at.UTC()}},
		{{int64(5)}, {"5"}},
	} {
		if a, b := rows.Canonical(same[0]...), rows.Canonical(same[1]...); a != b {
			t.Errorf("%q and %q", a, b)
		}
	}
	seen := map[string][]any{}
	for _, values := range [][]any{
		{"a", "b"}, {"ab"}, {"a", "b", nil}, {"a", "b", ""}, {nil}, {}, {""}, {"null"}, {`{"a":1}`}, {`{"a":1.0}`}, {`{"a":1} x`}, {`["a","b"]`}, {at},
		{`{"a":"<"}`}, {`{"a":12345678901234567890}`}, {`{"a":12345678901234567891}`}, {" a"}, {"a"},
	} {
		text := rows.Canonical(values...)
		if other, ok := seen[text]; ok {
			t.Errorf("%q and %q are both %q", other, values, text)
		}
		seen[text] = values
	}
}
