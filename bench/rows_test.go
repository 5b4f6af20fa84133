package bench

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/rows"
)

var (
	rowsCount = flag.Int("rows", 20_000, "rows to work off in each measurement")
	rowsDeep  = flag.Int("rows-deep", 1_000_000, "finished rows in front of those that are measured")
)

const rowsBatch = 200

// rowsTable is worked off by each way: with the facts in added columns, under
// an index on (state, key).
var rowsTable = rows.Table{Name: "notices", Key: []string{"id"}, State: "status"}

// BenchmarkRows shows how many rows of a table can be claimed and worked off a
// second, by handlers that do nothing, beside the same SQL by hand: in turn,
// several rounds, medians.
func BenchmarkRows(b *testing.B) {
	for _, engine := range []string{"mariadb", "postgres", "sqlite"} {
		b.Run(engine, func(b *testing.B) { benchmarkRows(b, openRows(b, engine)) })
	}
}

func benchmarkRows(b *testing.B, db *rowsDB) {
	ways := []struct {
		name string
		run  func(workers int) (spent, error)
	}{{"cronce", db.filled(drainRows)}, {"by hand", db.filled(rowsByHand)}}
	if db.engine == "postgres" {
		ways = append(ways, struct {
			name string
			run  func(workers int) (spent, error)
		}{"River", func(workers int) (spent, error) { return riverRows(db.url, workers) }})
	}
	for _, workers := range []int{8, 64} {
		rates, efforts := make([][]float64, len(ways)), make([][]float64, len(ways))
		for range *rounds {
			for i, way := range ways {
				s, err := way.run(workers)
				if err != nil {
					b.Fatalf("%s on %s: %v", way.name, db.engine, err)
				}
				rates[i] = append(rates[i], float64(*rowsCount)/s.time.Seconds())
				efforts[i] = append(efforts[i], float64(*rowsCount)/s.cpu.Seconds())
			}
		}
		for i, way := range ways {
			b.Run(fmt.Sprintf("workers=%d/%s", workers, way.name), func(b *testing.B) {
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(rates[i]), "rows/s")
				b.ReportMetric(median(rates[i])/median(rates[1]), "of-by-hand")
				b.ReportMetric(median(efforts[i]), "rows/cpu-s")
			})
		}
	}
}

// filled fills the table, works it off, and looks at what became of it.
func (db *rowsDB) filled(run func(db *sql.DB, engine string, workers int) error) func(workers int) (spent, error) {
	return func(workers int) (spent, error) {
		if err := db.fill(0, *rowsCount); err != nil {
			return spent{}, err
		}
		s, err := spend(func() error { return run(db.DB, db.engine, workers) })
		if n := db.count("status = 'sent' AND cronce_attempts = 1"); err == nil && n != *rowsCount {
			err = fmt.Errorf("%d rows are sent", n)
		}
		return s, err
	}
}

// BenchmarkRowsDeep shows what claims cost behind so many finished rows whose
// old versions the database has to keep, as somebody reads an old snapshot,
// beside claims of the same table without them.
func BenchmarkRowsDeep(b *testing.B) {
	for _, engine := range []string{"mariadb", "postgres", "sqlite"} {
		b.Run(engine, func(b *testing.B) {
			db := openRows(b, engine)
			// A reader of SQLite sees one state anyhow.
			snapshot := map[string]sql.IsolationLevel{"mariadb": sql.LevelRepeatableRead, "postgres": sql.LevelRepeatableRead}[engine]
			var shallow, deep []float64
			for range *rounds {
				if err := db.fill(0, *rowsCount); err != nil {
					b.Fatal(err)
				}
				shallow = append(shallow, db.rate())
				if err := db.fill(*rowsDeep, *rowsCount); err != nil {
					b.Fatal(err)
				}
				tx, err := db.BeginTx(b.Context(), &sql.TxOptions{Isolation: snapshot})
				if err != nil {
					b.Fatal(err)
				}
				var n int
				if err := tx.QueryRow("SELECT COUNT(*) FROM notices WHERE status = 'pending'").Scan(&n); err != nil || n != *rowsDeep+*rowsCount {
					b.Fatal(n, err)
				}
				if _, err := db.Exec(fmt.Sprintf("UPDATE notices SET status = 'sent' WHERE id <= %d", *rowsDeep)); err != nil {
					b.Fatal(err)
				}
				deep = append(deep, db.rate())
				if err := tx.Rollback(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(shallow), "rows/s")
			b.ReportMetric(median(deep), "rows/s-deep")
			b.ReportMetric(median(shallow)/median(deep), "times-as-slow")
		})
	}
}

// rate is how many rows a second a drain works off.
func (db *rowsDB) rate() float64 {
	begun := time.Now()
	if err := drainRows(db.DB, db.engine, 64); err != nil {
		db.b.Fatal(err)
	}
	return float64(*rowsCount) / time.Since(begun).Seconds()
}

// rowsDB is an empty database.
type rowsDB struct {
	*sql.DB
	b           *testing.B
	url, engine string
}

func openRows(b *testing.B, engine string) *rowsDB {
	var driver, source, address string
	switch engine {
	case "mariadb":
		address = testenv.MariaDB(b)
		u, err := url.Parse(address)
		if err != nil {
			b.Fatal(err)
		}
		password, _ := u.User.Password()
		driver, source = "mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")"+u.Path
	case "postgres":
		address = testenv.Postgres(b)
		driver, source = "pgx", address
	case "sqlite":
		driver, source = "sqlite", "file:"+filepath.Join(b.TempDir(), "rows.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return &rowsDB{db, b, address, engine}
}

// fill makes the table anew: so many rows to be called finished later, and so
// many more.
func (db *rowsDB) fill(deep, n int) error {
	_, err := db.Exec("DROP TABLE IF EXISTS notices")
	if err == nil {
		_, err = db.Exec("CREATE TABLE notices (id BIGINT NOT NULL PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80))")
	}
	if err != nil {
		return err
	}
	migration, err := rows.Migration(context.Background(), db.DB, rowsTable, rows.Options{})
	if err != nil {
		return err
	}
	for s := range strings.SplitSeq(strings.TrimSpace(migration), ";\n") {
		if _, err := db.Exec(strings.TrimSuffix(s, ";")); err != nil {
			return err
		}
	}
	for from := 1; from <= deep+n; from += 10_000 {
		var b strings.Builder
		b.WriteString("INSERT INTO notices (id, status, recipient) VALUES ")
		for id := from; id < min(from+10_000, deep+n+1); id++ {
			if id > from {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,'pending','r%d@example.org')", id, id)
		}
		if _, err := db.Exec(b.String()); err != nil {
			return err
		}
	}
	if db.engine == "postgres" {
		_, err = db.Exec("VACUUM ANALYZE notices")
	} else {
		_, err = db.Exec(map[string]string{"mariadb": "ANALYZE TABLE notices", "sqlite": "ANALYZE"}[db.engine])
	}
	return err
}

func (db *rowsDB) count(where string) (n int) {
	if err := db.QueryRow("SELECT COUNT(*) FROM notices WHERE " + where).Scan(&n); err != nil {
		db.b.Fatal(err)
	}
	return n
}

func drainRows(db *sql.DB, _ string, workers int) error {
	d, err := rows.Open(context.Background(), db, rowsTable, rows.Options{Workers: workers, Batch: rowsBatch})
	if err != nil {
		return err
	}
	_, err = d.Drain(context.Background(), func(context.Context, rows.Row) error { return nil })
	return err
}

var errNotOurs = errors.New("rows are no longer ours")
