package rows_test

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/cronce/cronce/internal/testenv"
)

// database is an empty database of one engine.
type database struct {
	*sql.DB
	t      testing.TB
	engine string
	url    string
	source string // as the driver wants it
}

// engines runs a test on each engine.
func engines(t *testing.T, test func(t *testing.T, db *database)) {
	for name, open := range map[string]func(testing.TB) *database{"mariadb": mariadb, "postgres": postgres, "sqlite": sqlite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func mariadb(t testing.TB) *database { return connect(t, "mysql", testenv.MariaDB(t)) }

func postgres(t testing.TB) *database { return connect(t, "pgx", testenv.Postgres(t)) }

func sqlite(t testing.TB) *database {
	return connect(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "rows.db")+"?_pragma=journal_mode(WAL)")
}

// connect opens what a URL of testenv, or SQLite's own, names.
func connect(t testing.TB, driver, address string) *database {
	t.Helper()
	source := address
	if driver == "mysql" {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		source = u.User.Username() + ":" + password + "@tcp(" + u.Host + ")" + u.Path
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &database{DB: db, t: t, engine: driver, url: address, source: source}
}

// run runs statements, parted by semicolons at the ends of lines.
func (db *database) run(statements string) {
	db.t.Helper()
	for s := range strings.SplitSeq(statements, ";\n") {
		if s = strings.TrimSuffix(strings.TrimSpace(s), ";"); s == "" {
			continue
		}
		_, err := db.Exec(s)
		for err != nil && strings.Contains(err.Error(), "database is locked") { // SQLite has one writer at a time
			<-time.After(time.Millisecond)
			_, err = db.Exec(s)
		}
		if err != nil {
			db.t.Fatalf("%s: %v", s, err)
		}
	}
}

// text is the one value of a query.
func (db *database) text(query string) string {
	db.t.Helper()
	var v sql.NullString
	if err := db.QueryRow(query).Scan(&v); err != nil {
		db.t.Fatalf("%s: %v", query, err)
	}
	return v.String
}
