package rows_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/rows"
)

// preflight is the report on the table of most tests.
func (db *database) preflight(table rows.Table) *rows.Report {
	db.t.Helper()
	r, err := rows.Preflight(db.t.Context(), db.DB, table, rows.Options{Fence: 1})
	if err != nil {
		db.t.Fatal(err)
	}
	return r
}

// found is the finding that says so; there must be one.
func found(t *testing.T, r *rows.Report, level rows.Level, about, what string) rows.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Level == level && f.About == about && strings.Contains(f.What, what) {
			return f
		}
	}
	t.Fatalf("no finding %v, %s, %q in\n%s", level, about, what, r)
	return rows.Finding{}
}

// paste runs a fix, as a client would.
func (db *database) paste(fix string) {
	db.t.Helper()
	var lines []string
	for line := range strings.Lines(fix) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		db.t.Fatalf("no SQL to paste in %q", fix)
	}
	db.run(strings.Join(lines, ""))
}

// analyze has the planner know how many rows are what.
func (db *database) analyze() {
	db.t.Helper()
	if db.engine == "mysql" {
		db.run("ANALYZE TABLE notices")
		return
	}
	db.run("ANALYZE notices")
}

// finished adds 255 sent rows for each of the n there are.
func (db *database) finished(n int) {
	db.t.Helper()
	for range 8 {
		db.run(fmt.Sprintf("INSERT INTO notices (id, status, recipient) SELECT id + %d, 'sent', recipient FROM notices", n))
		n *= 2
	}
	db.analyze()
}

// fine wants nothing worse than notes.
func fine(t *testing.T, r *rows.Report) {
	t.Helper()
	if l, ok := r.Worst(); ok && l > rows.Noted || r.Err() != nil {
		t.Errorf("not fine:\n%s", r)
	}
}

// dump is all that is in the table.
func (db *database) dump() string {
	db.t.Helper()
	var all strings.Builder
	found, err := db.Query("SELECT * FROM notices ORDER BY id")
	if err != nil {
		db.t.Fatal(err)
	}
	defer found.Close()
	names, err := found.Columns()
	if err != nil {
		db.t.Fatal(err)
	}
	for found.Next() {
		into := make([]any, len(names))
		for i := range into {
			into[i] = new(any)
		}
		if err := found.Scan(into...); err != nil {
			db.t.Fatal(err)
		}
		for _, v := range into {
			fmt.Fprintf(&all, "%s|", *v.(*any))
		}
	}
	return all.String()
}

// TestPreflight_Fine defends that a table as the migration leaves it has no fault, be it small or not, that two claims get
// different rows, and that nothing has changed then.
func TestPreflight_Fine(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 0)
		fine(t, db.preflight(notices))
		db.insert(1, 12)
		before := db.dump()
		r := db.preflight(notices)
		fine(t, r)
		want := "different rows (1 2 3 4 5; 6 7 8 9 10)"
		if db.engine == "sqlite" {
			want = "cannot begin before the first is done"
		}
		if !strings.Contains(r.Proof, want) || r.Plan == "" || r.Table != "notices" || r.Database == "" {
			t.Errorf("%s", r)
		}
		db.finished(12)
		r = db.preflight(notices)
		fine(t, r)
		if !strings.Contains(r.Plan, "cronce_claims_notices") {
			t.Errorf("plan: %s", r.Plan)
		}
		db.run("DELETE FROM notices WHERE id > 12")
		db.analyze()
		if after := db.dump(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		db.run("DELETE FROM notices WHERE id > 3")
		if r = db.preflight(notices); db.engine != "sqlite" && !strings.Contains(r.Proof, "there were no others") {
			t.Errorf("with three rows: %s", r.Proof)
		}
		fine(t, r)
	})
}

// TestPreflight_Side defends the same for a side table, with and without a state column.
func TestPreflight_Side(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		side := rows.Table{Name: "notices", Key: []string{"id"}, State: "status", Side: "notices_claims"}
		db.fill(side, 12)
		r := db.preflight(side)
		if found(t, r, rows.Slow, "index", "(status, id)"); r.Err() != nil || db.engine != "sqlite" && !strings.Contains(r.Proof, "different rows") {
			t.Errorf("%s", r)
		}
		db.run("CREATE INDEX own ON notices (status, id)")
		fine(t, db.preflight(side))
		side.State = ""
		fine(t, db.preflight(side))
	})
}

// TestPreflight_Index defends that a claim which would read the whole table is refused, also while the table is small, and that the
// printed fix is one.
func TestPreflight_Index(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 12)
		drop := "DROP INDEX cronce_claims_notices"
		if db.engine == "mysql" {
			drop += " ON notices"
		}
		db.run(drop)
		found(t, db.preflight(notices), rows.Refused, "index", "(status, id)")
		db.finished(12)
		f := found(t, db.preflight(notices), rows.Refused, "index", "(status, id)")
		db.paste(f.Fix)
		db.analyze()
		fine(t, db.preflight(notices))
		if db.engine != "mysql" {
			db.run(drop + ";\nCREATE INDEX own ON notices (id) WHERE status = 'pending'")
			if db.engine == "sqlite" {
				return // takes a partial index only where the state is no parameter
			}
			fine(t, db.preflight(notices))
			db.run("DELETE FROM notices WHERE id > 12;\nANALYZE notices")
			fine(t, db.preflight(notices))
		}
	})
}

// TestPreflight_Table defends that what Open refuses is a finding too, with SQL that mends it.
func TestPreflight_Table(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80))")
		r := db.preflight(notices)
		found(t, r, rows.Refused, "table", "no columns")
		if r.Err() == nil || !strings.Contains(r.Err().Error(), "no column") {
			t.Errorf("Err: %v", r.Err())
		}
		db.pasteAll(r)
		fine(t, db.preflight(notices))
		missing := notices
		missing.Name = "elsewhere"
		found(t, db.preflight(missing), rows.Refused, "table", "no such table")
	})
}

// TestPreflight_Enum defends that an enumeration which lacks states is refused, and that the printed fix adds them.
func TestPreflight_Enum(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *database{"mariadb": mariadb, "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			declared := "ENUM('pending', 'sent', 'it''s done')"
			if name == "postgres" {
				db.run("CREATE TYPE status AS " + declared)
				declared = "status"
			}
			db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status " + declared + " NOT NULL, recipient VARCHAR(80))")
			r := db.preflight(notices)
			found(t, r, rows.Refused, "table", `cannot hold "sending", "failed", "dead", "unknown"`)
			db.pasteAll(r)
			db.run("INSERT INTO notices (id, status) VALUES (1, 'it''s done'), (2, 'unknown')")
			fine(t, db.preflight(notices))
		})
	}
}

// TestPreflight_Triggers defends that a trigger which writes the state itself is refused, that others are named, that those which
// never fire are not, and that none fires here.
func TestPreflight_Triggers(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 12)
		db.run("CREATE TABLE log (status VARCHAR(20))")
		switch db.engine {
		case "mysql":
			db.run("CREATE TRIGGER copies AFTER UPDATE ON notices FOR EACH ROW INSERT INTO log VALUES (NEW.status);\n" +
				"CREATE TRIGGER inserts BEFORE INSERT ON notices FOR EACH ROW SET NEW.status = 'pending'")
		case "pgx":
			db.run("CREATE FUNCTION copies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.status = 'sent' THEN INSERT INTO log VALUES (NEW.status); END IF; RETURN NEW; END $$;\n" +
				"CREATE TRIGGER copies AFTER UPDATE OF status ON notices FOR EACH ROW EXECUTE FUNCTION copies();\n" +
				"CREATE TRIGGER others AFTER UPDATE OF recipient ON notices FOR EACH ROW EXECUTE FUNCTION copies();\n" +
				"CREATE TRIGGER inserts AFTER INSERT ON notices FOR EACH ROW EXECUTE FUNCTION copies()")
		default:
			db.run("CREATE TRIGGER copies AFTER UPDATE OF status ON notices BEGIN INSERT INTO log VALUES (NEW.status); END;\n" +
				"CREATE TRIGGER others AFTER UPDATE OF recipient ON notices BEGIN INSERT INTO log VALUES (NEW.status); END;\n" +
				"CREATE TRIGGER inserts AFTER INSERT ON notices BEGIN UPDATE notices SET status = 'pending' WHERE id = NEW.id; END")
		}
		r := db.preflight(notices)
		found(t, r, rows.Slow, "trigger", "trigger copies on notices")
		if n := strings.Count(r.String(), ": trigger: "); n != 1 {
			t.Errorf("%d triggers in\n%s", n, r)
		}
		if n := db.number("SELECT COUNT(*) FROM log"); n != 0 {
			t.Errorf("it has fired %d times", n)
		}
		switch db.engine {
		case "mysql":
			db.run("CREATE TRIGGER sets BEFORE UPDATE ON notices FOR EACH ROW SET NEW.recipient = 'x', NEW.status = LOWER(NEW.status)")
		case "pgx":
			db.run("CREATE FUNCTION sets() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.status := lower(NEW.status); RETURN NEW; END $$;\n" +
				"CREATE TRIGGER sets BEFORE UPDATE ON notices FOR EACH ROW EXECUTE FUNCTION sets()")
		default:
			db.run("CREATE TRIGGER sets AFTER UPDATE ON notices BEGIN UPDATE notices SET recipient = 'x', status = lower(status) WHERE id = NEW.id; END")
		}
		f := found(t, db.preflight(notices), rows.Refused, "trigger", "trigger sets on notices writes to status")
		db.paste(f.Fix)
		if r := db.preflight(notices); r.Err() != nil {
			t.Errorf("after the fix:\n%s", r)
		}
	})
}

// TestPreflight_Engines defends that tables without transactions are refused, that the proof shows why, and that the printed fix is one.
func TestPreflight_Engines(t *testing.T) {
	for _, engine := range []string{"MyISAM", "Aria"} {
		t.Run(engine, func(t *testing.T) {
			db := mariadb(t)
			db.fill(notices, 12, " ENGINE="+engine)
			r := db.preflight(notices)
			found(t, r, rows.Refused, "proof", "a row that the first has locked (1)")
			f := found(t, r, rows.Refused, "engine", engine)
			db.paste(f.Fix)
			fine(t, db.preflight(notices))
		})
	}
}

// TestPreflight_Partitions defends that a table in parts is looked at by its parts.
func TestPreflight_Partitions(t *testing.T) {
	db := postgres(t)
	db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)) PARTITION BY RANGE (id);\n" +
		"CREATE TABLE low PARTITION OF notices FOR VALUES FROM (0) TO (1000);\nCREATE TABLE high PARTITION OF notices FOR VALUES FROM (1000) TO (1000000)")
	db.insert(1, 12)
	db.migrate(notices)
	db.run("DROP INDEX cronce_claims_notices")
	db.finished(12)
	f := found(t, db.preflight(notices), rows.Refused, "index", "(status, id)")
	db.paste(f.Fix)
	db.analyze()
	fine(t, db.preflight(notices))
}

// TestPreflight_Unlogged defends the same for tables that a crash empties.
func TestPreflight_Unlogged(t *testing.T) {
	db := postgres(t)
	db.fill(notices, 12)
	db.run("ALTER TABLE notices SET UNLOGGED")
	f := found(t, db.preflight(notices), rows.Refused, "engine", "unlogged")
	db.paste(f.Fix)
	fine(t, db.preflight(notices))
}

// TestPreflight_Times defends that columns of the table's own which the server sets by itself, cut, or
// have no zone, are named.
func TestPreflight_Times(t *testing.T) {
	db := mariadb(t)
	own := notices
	own.Columns = rows.Columns{StartedAt: "started", LeaseUntil: "until"}
	db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)," +
		" started TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP COMMENT 'ON UPDATE current_timestamp', until DATETIME NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'theirs')")
	db.migrate(own)
	r := db.preflight(own)
	db.paste(found(t, r, rows.Noted, "clock", "until (datetime) keeps whole seconds").Fix)
	found(t, r, rows.Noted, "clock", "until (datetime) has no time zone")
	f := found(t, r, rows.Refused, "clock", "started (timestamp")
	db.paste(f.Fix)
	r = db.preflight(own)
	if fine(t, r); strings.Contains(r.String(), "whole seconds") {
		t.Errorf("after the fix:\n%s", r)
	}
	for column, want := range map[string]string{"started": "timestamp NULL  ON UPDATE current_timestamp", "until": "datetime(6) current_timestamp(6)  theirs"} {
		got := db.text("SELECT CONCAT_WS(' ', COLUMN_TYPE, COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = '" + column + "'")
		if got != want {
			t.Errorf("column %s is %q, want %q", column, got, want)
		}
	}
}

// TestPreflight_SQLite defends that what a connection is set to is looked at.
func TestPreflight_SQLite(t *testing.T) {
	db := sqlite(t)
	db.fill(notices, 12)
	path, _, _ := strings.Cut(db.url, "?")
	for _, c := range []struct {
		settings, about, what string
		level                 rows.Level
	}{
		{"_pragma=synchronous(1)", "disk", "synchronous=1", rows.Noted},
		{"_pragma=query_only(1)", "session", "read-only", rows.Refused},
		{"mode=ro", "session", "read-only", rows.Refused},
	} {
		other := connect(t, "sqlite", path+"?"+c.settings)
		found(t, other.preflight(notices), c.level, c.about, c.what)
		other.Close()
	}
	rollback := connect(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "rows.db"))
	rollback.fill(notices, 12)
	found(t, rollback.preflight(notices), rows.Slow, "disk", "journal_mode=delete")
	one := connect(t, "sqlite", db.url)
	one.SetMaxOpenConns(1)
	if r := one.preflight(notices); !strings.Contains(r.Proof, "one connection") {
		t.Errorf("%s", r)
	}
}

// swallowed is the same database by a driver that does not pass on statements which begin so, as some poolers do.
func swallowed(db *database, prefix string) *database {
	other := *db
	other.DB = sql.OpenDB(swallowing{autocommit{db.Driver(), db.source}, prefix})
	db.t.Cleanup(func() { other.Close() })
	return &other
}

type swallowing struct {
	autocommit
	prefix string
}

func (s swallowing) Connect(context.Context) (driver.Conn, error) {
	conn, err := s.driver.Open(s.source)
	return swallower{statements{conn}, s.prefix}, err
}

type swallower struct {
	statements
	prefix string
}

func (s swallower) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(query, s.prefix) {
		return driver.ResultNoRows, nil
	}
	return s.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// TestPreflight_Pooler defends that a session which is not what claims ask for is refused: no READ COMMITTED, or no
// transaction at all.
func TestPreflight_Pooler(t *testing.T) {
	t.Run("isolation", func(t *testing.T) {
		db := mariadb(t)
		db.fill(notices, 12)
		found(t, swallowed(db, "SET SESSION").preflight(notices), rows.Refused, "session", "get REPEATABLE READ")
	})
	t.Run("autocommit", func(t *testing.T) {
		db := mariadb(t)
		db.fill(notices, 12)
		r := swallowed(db, "START TRANSACTION").preflight(notices)
		found(t, r, rows.Refused, "session", "autocommit")
		if r.Proof != "" {
			t.Errorf("a proof without transactions: %s", r.Proof)
		}
	})
	t.Run("statements", func(t *testing.T) {
		server := testenv.StartPostgres(t)
		direct := connect(t, "pgx", server.URL())
		direct.fill(notices, 12)
		for mode, want := range map[string]bool{"statement": false, "transaction": true} {
			pooled := connect(t, "pgx", testenv.StartPgBouncer(t, mode, server.URL()).URL()+"&default_query_exec_mode=simple_protocol")
			r := pooled.preflight(notices)
			if want {
				fine(t, r)
				continue
			}
			found(t, r, rows.Refused, "session", "cannot be begun")
		}
	})
}

// alternating connects to one server after the other.
type alternating struct {
	autocommit
	other string
	n     *atomic.Int64
}

func (a alternating) Connect(context.Context) (driver.Conn, error) {
	if a.n.Add(1)%2 == 0 {
		return a.driver.Open(a.other)
	}
	return a.driver.Open(a.source)
}
