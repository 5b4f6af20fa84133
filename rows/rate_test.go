package rows

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// However a drain's turns come, no more rows are started than the rate allows, and no fewer where there are enough turns.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		turn time.Duration
		want int // in ten seconds
	}{
		{Rate{50, time.Second}, time.Millisecond, 500},
		{Rate{50, time.Second}, 30 * time.Millisecond, 500},
		{Rate{1000, time.Second}, 7 * time.Millisecond, 10000},
		{Rate{30, time.Minute}, 10 * time.Millisecond, 5},
		{Rate{1, time.Hour}, time.Second, 1},
	} {
		p := newPacer(c.rate)
		started := 0
		now := time.Hour
		p.clock = func() time.Duration { return now }
		for ; now < time.Hour+10*time.Second; now += c.turn {
			if wait := p.wait(); wait > 0 && p.take(8) > 0 {
				t.Fatalf("%v: a row is started before its time", c.rate)
			}
			started += p.take(8)
		}
		most := c.want + int(burst*time.Duration(c.rate.Rows)/c.rate.Per) + 1
		if started > most || started < c.want*95/100 {
			t.Errorf("%v with a turn each %s: %d rows in ten seconds, want %d to %d", c.rate, c.turn, started, c.want*95/100, most)
		}
	}
	if p := newPacer(Rate{}); p.take(8) != 8 || p.wait() != 0 {
		t.Error("there is a limit without a rate")
	}
}

// A start that becomes due between one look at the clock and the next is not slept through: nothing else would wake the drain before its leases
// are renewed.
func TestRate_DueBetweenLooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", path) // a driver that waits for nothing outside
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		table := Table{Name: "notices", Key: []string{"id"}, State: "status"}
		exec := func(statements string) {
			if _, err := db.Exec(statements); err != nil {
				t.Fatalf("%s: %v", statements, err)
			}
		}
		exec("CREATE TABLE notices (id INTEGER PRIMARY KEY, status TEXT NOT NULL); INSERT INTO notices VALUES (1, 'pending'), (2, 'pending'), (3, 'pending')")
		migration, err := Migration(t.Context(), db, table, Options{})
		if err != nil {
			t.Fatal(err)
		}
		exec(migration)
		d, err := Open(t.Context(), db, table, Options{Rate: Rate{Rows: 1, Per: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		w := d.begin(t.Context(), func(context.Context, Row) error { return nil })
		seen := time.Duration(-1)
		w.pace.clock = func() time.Duration { // each start is due at the second look for it, with rows that wait
			if len(w.queue) > 0 && seen != w.pace.next {
				seen = w.pace.next
				return seen - 1
			}
			return w.pace.next
		}
		begin := time.Now() // of the bubble, which passes when nothing can go on
		w.loop(t.Context())
		w.cancel(nil)
		for _, l := range []*lane{w.claims, w.turns, w.keeps} {
			l.drop()
		}
		if w.result.Sent != 3 || w.stop != nil {
			t.Errorf("%+v, %v", w.result, w.stop)
		}
		if slept := time.Since(begin); slept > time.Second {
			t.Errorf("it slept for %s over starts that were due", slept)
		}
	})
}
