package rows

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// says reports whether a report has the finding.
func (r *Report) says(level Level, about, what string) bool {
	for _, f := range r.Findings {
		if f.Level == level && f.About == about && strings.Contains(f.What, what) {
			return true
		}
	}
	return false
}

// TestWeigh_MySQL defends what is made of settings that the servers at hand do not have: those of MySQL, and of other versions.
func TestWeigh_MySQL(t *testing.T) {
	good := map[string]string{"autocommit": "ON", "log_bin": "ON", "binlog_format": "ROW", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1",
		"read_only": "OFF", "super_read_only": "OFF", "innodb_read_only": "OFF", "wsrep_on": "OFF"}
	for _, c := range []struct {
		version, name, value string
		level                Level
		about                string // empty: nothing
	}{
		{"8.0.1", "", "", 0, ""},
		{"8.4.3", "", "", 0, ""},
		{"9.1.0-commercial", "", "", 0, ""},
		{"10.6.0-MariaDB", "", "", 0, ""},
		{"11.4.2-MariaDB-log", "", "", 0, ""},
		{"8.0.0", "", "", Refused, "version"},
		{"5.7.44-log", "", "", Refused, "version"},
		{"10.5.99-MariaDB", "", "", Refused, "version"},
		{"8.0.11-TiDB-v8.5.0", "", "", Refused, "version"},
		{"8.0.36", "super_read_only", "ON", Refused, "server"},
		{"8.0.36", "innodb_read_only", "ON", Refused, "server"},
		{"12.0.2-MariaDB", "read_only", "NO_LOCK_NO_ADMIN", Refused, "server"},
		{"8.0.36", "wsrep_on", "ON", Slow, "server"},
		{"8.0.36", "binlog_format", "STATEMENT", Refused, "binlog"},
		{"8.0.36", "binlog_format", "MIXED", 0, ""},
		{"8.0.36", "autocommit", "OFF", Refused, "session"},
		{"8.0.36", "innodb_flush_log_at_trx_commit", "0", Noted, "disk"},
	} {
		settings := map[string]string{c.name: c.value}
		for name, value := range good {
			if name != c.name {
				settings[name] = value
			}
		}
		r := &Report{}
		(&mysql{version: c.version}).weigh(settings, r)
		if c.about == "" && len(r.Findings) > 0 || c.about != "" && (len(r.Findings) != 1 || !r.says(c.level, c.about, "")) {
			t.Errorf("version %s, %s=%s: %v", c.version, c.name, c.value, r.Findings)
		}
	}
	if q := (&mysql{version: "8.0.36"}).transaction(); q != "SELECT @@transaction_isolation, @@transaction_read_only" {
		t.Error(q)
	}
}

// TestWeigh_Others defends the same for versions of Postgres and SQLite.
func TestWeigh_Others(t *testing.T) {
	for version, old := range map[string]bool{"110022": true, "120000": false, "180001": false} {
		r := &Report{}
		(&postgres{version: "PostgreSQL"}).weigh(map[string]string{"server_version_num": version}, r)
		if r.says(Refused, "version", "") != old {
			t.Errorf("Postgres %s: %v", version, r.Findings)
		}
	}
	for version, old := range map[string]bool{"3.34.1": true, "3.35.0": false, "3.100.0": false} {
		r := &Report{}
		(&sqlite{version: version}).weigh(map[string]string{"journal_mode": "wal", "synchronous": "2"}, r)
		if r.says(Refused, "version", "") != old {
			t.Errorf("SQLite %s: %v", version, r.Findings)
		}
	}
}

// TestRead_MySQL defends what is made of the lines of EXPLAIN.
func TestRead_MySQL(t *testing.T) {
	for _, c := range []struct {
		line         map[string]string
		scans, sorts bool
	}{
		{map[string]string{"table": "t", "type": "ref", "key": "k", "extra": "Using where"}, false, false},
		{map[string]string{"table": "t", "type": "range", "key": "k"}, false, false},
		{map[string]string{"table": "t", "type": "ref", "extra": "Using where; Using filesort"}, false, true},
		{map[string]string{"table": "t", "type": "ref", "extra": "Using temporary"}, false, true},
		{map[string]string{"table": "t", "type": "ALL"}, true, false},
		{map[string]string{"table": "t", "type": "index", "key": "PRIMARY"}, true, false},
		{map[string]string{"extra": "Impossible WHERE"}, true, false}, // says nothing: the index's columns decide
	} {
		var p plan
		(&mysql{}).read(c.line, true, &p)
		if p.scans != c.scans || p.sorts != c.sorts || p.text == "" {
			t.Errorf("%v: %+v", c.line, p)
		}
	}
}

// TestWrites defends that a trigger which compares the state is not taken for one that assigns it.
func TestWrites(t *testing.T) {
	for text, want := range map[string]bool{
		"SET NEW.status = 'x'":                                        true,
		"BEGIN SET NEW.a = 1, NEW.`status` = 'x'; END":                true,
		"BEGIN NEW.status := 'x'; RETURN NEW; END":                    true,
		"BEGIN NEW.status = 'x'; RETURN NEW; END":                     true,
		"BEGIN IF a THEN new . status = 'x'; END IF; END":             true,
		"BEGIN SELECT s INTO NEW.status FROM x; END":                  true,
		"BEGIN UPDATE app.notices SET status = 'x' WHERE id = 1; END": false, // another schema's, as far as one sees
		"BEGIN UPDATE notices SET a = 1, status = 'x' WHERE b; END":   true,
		"BEGIN UPDATE OR IGNORE \"notices\" SET\n\"status\" = 1; END": true,

		"BEGIN IF NEW.status = 'x' THEN INSERT INTO log VALUES (1); END IF; END":   false,
		"BEGIN IF OLD.status <> NEW.status THEN SELECT 1; END IF; END":             false,
		"BEGIN UPDATE notices SET a = 1 WHERE status = 'x'; END":                   false,
		"BEGIN UPDATE notices SET a = (NEW.status = 'x') WHERE id = 1; END":        false,
		"BEGIN UPDATE others SET status = 'x'; END":                                false,
		"BEGIN INSERT INTO log (status) VALUES (NEW.status); END":                  false,
		"SET NEW.status_text = 'x'":                                                false,
		"BEGIN UPDATE notices SET other_status = 1; UPDATE t SET status = 1; END":  false,
		"SET NEW.changed = IF(NEW.status = OLD.status, OLD.changed, CURRENT_DATE)": false,
	} {
		if got := writes(text, "notices", "status"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestSkew defends from when on clocks that differ are worth a word.
func TestSkew(t *testing.T) {
	now := time.Now()
	for off, want := range map[time.Duration]int{0: 0, 4 * time.Second: 0, -4 * time.Second: 0, 10 * time.Second: 1, -time.Hour: 1} {
		r := &Report{}
		if r.skew(now.Add(off), now.Add(off), now); len(r.Findings) != want {
			t.Errorf("%s: %v", off, r.Findings)
		}
	}
	r := &Report{}
	if r.skew(now.Add(-time.Minute), now.Add(time.Minute), now); len(r.Findings) != 0 {
		t.Errorf("a slow answer: %v", r.Findings)
	}
}

// TestSnapshots defends that a transaction which stays open is named with whose it is, and that the printed fix ends it.
func TestSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		start       func(*testing.T) (driver, source string)
		begin, read string
	}{
		"mariadb": {func(t *testing.T) (string, string) {
			u, err := url.Parse(testenv.StartMariaDB(t).AdminURL())
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			return "mysql", u.User.Username() + ":" + password + "@tcp(" + u.Host + ")" + u.Path
		}, "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM notices"},
		"postgres": {func(t *testing.T) (string, string) { return "pgx", testenv.Postgres(t) },
			"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT COUNT(*) FROM notices"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver, source := c.start(t)
			db, err := sql.Open(driver, source)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			ctx := t.Context()
			if _, err := db.ExecContext(ctx, "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL)"); err != nil {
				t.Fatal(err)
			}
			d, err := prepare(ctx, db, Table{Name: "notices", Key: []string{"id"}, State: "status"}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			look := func(older time.Duration) []Finding {
				t.Helper()
				l, r := &lane{d: d}, &Report{}
				defer l.drop()
				if err := l.open(ctx); err != nil {
					t.Fatal(err)
				}
				if err := d.engine.snapshots(ctx, l, older, r); err != nil {
					t.Fatal(err)
				}
				return r.Findings
			}
			if f := look(0); len(f) != 0 {
				t.Fatalf("without any: %v", f)
			}
			open, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			for _, s := range []string{c.begin, c.read} {
				if _, err := open.ExecContext(ctx, s); err != nil {
					t.Fatal(err)
				}
			}
			if f := look(time.Hour); len(f) != 0 {
				t.Fatalf("of an hour ago: %v", f)
			}
			var f []Finding
			await(t, "the transaction to be seen", func() bool { f = look(0); return len(f) > 0 })
			if len(f) != 1 || f[0].Level != Slow || f[0].About != "transaction" {
				t.Fatalf("with one: %v", f)
			}
			if _, err := db.ExecContext(ctx, strings.TrimSuffix(strings.TrimSpace(f[0].Fix), ";")); err != nil {
				t.Fatal(err)
			}
			await(t, "the transaction to be gone", func() bool { return len(look(0)) == 0 })
		})
	}
}

// await asks seldom: MariaDB makes its list of transactions anew only if nobody has asked for 0.1 s.
func await(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

// TestReport_String defends that a report reads from the worst on, with each fix as lines to paste.
func TestReport_String(t *testing.T) {
	r := &Report{Table: "notices", Database: "X 1", Plan: "by k", Proof: "different"}
	if got := r.String(); got != "table notices, X 1\nplan: by k\nproof: different\nnothing is amiss\n" {
		t.Errorf("%q", got)
	}
	r.note(Refused, "index", "CREATE INDEX a;\nCREATE INDEX b;\n", "%d are missing", 2)
	want := "table notices, X 1\nplan: by k\nproof: different\nrefused: index: 2 are missing\n    CREATE INDEX a;\n    CREATE INDEX b;\n"
	if got := fmt.Sprint(r); got != want {
		t.Errorf("%q", got)
	}
}
