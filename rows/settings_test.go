package rows_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/cronce/cronce/rows"
)

// TestOwnColumns defends that a table which was there before can be worked off as it is: states that are numbers, an order by
// time, facts in columns of its own.
func TestOwnColumns(t *testing.T) {
	t.Parallel()
	const n = 500
	table := rows.Table{Name: "jobs", Key: []string{"nr"}, State: "done", Order: "made",
		States:  rows.States{Pending: "0", Sending: "1", Sent: "2", Failed: "3", Dead: "4", Unknown: "-1"},
		Columns: rows.Columns{StartedAt: "begun", Attempts: "tries", LastError: "problem"}}
	engines(t, func(t *testing.T, db *database) {
		number := map[string]string{"mysql": "TINYINT", "pgx": "SMALLINT", "sqlite": "INTEGER"}[db.engine]
		db.run("CREATE TABLE jobs (nr BIGINT NOT NULL PRIMARY KEY, done " + number + " NOT NULL, made TIMESTAMP NOT NULL, begun TIMESTAMP NULL, tries INTEGER NOT NULL DEFAULT 0, problem VARCHAR(12))")
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf("(%d, 0, '2026-01-01 00:%02d:%02d')", n-i, i/60, i%60)
		}
		db.run("INSERT INTO jobs (nr, done, made) VALUES " + strings.Join(values, ", "))
		db.migrate(table)
		sources := []string{db.source}
		if db.engine == "mysql" { // what a program may have set for itself
			sources = append(sources, db.source+"?parseTime=true&interpolateParams=true&clientFoundRows=true&loc=Europe%2FParis&sql_mode=%27%27&tx_isolation=%27SERIALIZABLE%27&time_zone=%27%2B05%3A00%27")
		}
		for i, source := range sources {
			pool, err := sql.Open(db.engine, source)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			db.run("UPDATE jobs SET done = 0")
			d, err := rows.Open(t.Context(), pool, table, rows.Options{Workers: 10, Batch: 30})
			if err != nil {
				t.Fatal(err)
			}
			counted := newCalls(n)
			result, err := d.Drain(t.Context(), func(_ context.Context, row rows.Row) error {
				nr := row.Key[0].(int64)
				counted.of[nr].Add(1)
				if nr == 7 {
					return rows.Permanent(fmt.Errorf("a text that is much longer than its column"))
				}
				return nil
			})
			if err != nil || result.Sent != n-1 || result.Failed != 1 {
				t.Errorf("%s: %+v, %v", source, result, err)
			}
			counted.once(t)
			if got := db.text("SELECT problem FROM jobs WHERE nr = 7 AND done = 3"); !strings.HasPrefix(got, "a text that ") || len(got) > 12 && db.engine != "sqlite" {
				t.Errorf("the problem on record is %q", got)
			}
			if got := db.number(fmt.Sprintf("SELECT COUNT(*) FROM jobs WHERE tries = %d AND begun IS NOT NULL", i+1)); got != n {
				t.Errorf("%d rows of %d have a start and %d tries", got, n, i+1)
			}
			db.run("UPDATE jobs SET begun = NULL")
		}
	})
}
