package rows_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce/rows"
)

// TestRefused defends that a table which would lose rows, or work them off twice, is refused before anything is written, with
// what is wrong and what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	plain := "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80))"
	facts := ", cronce_token CHAR(36), cronce_lease_until TIMESTAMP NULL, cronce_started_at TIMESTAMP NULL, cronce_attempts INTEGER, cronce_crashes INTEGER," +
		" cronce_next_attempt_at TIMESTAMP NULL, cronce_last_error VARCHAR(100), cronce_fence BIGINT)"
	for name, bad := range map[string]struct {
		schema, only string // only: on this engine
		change       func(*rows.Table)
		want         string
	}{
		"no table":       {schema: "", want: "has no such table"},
		"no key":         {schema: plain, change: func(t *rows.Table) { t.Key = []string{"nr"} }, want: "there is no column nr: it has id, status, recipient"},
		"no column":      {schema: plain, change: func(t *rows.Table) { t.Read = []string{"subject"} }, want: "there is no column subject"},
		"no state":       {schema: plain, change: func(t *rows.Table) { t.State = "state" }, want: "there is no column state"},
		"no facts":       {schema: plain, want: "there are no columns cronce_token, cronce_lease_until, "},
		"no side table":  {schema: plain, change: func(t *rows.Table) { t.Side = "claims" }, want: "there is no side table claims: run the printed migration"},
		"a view":         {schema: plain + ";\nCREATE VIEW waiting AS SELECT * FROM notices", change: func(t *rows.Table) { t.Name = "waiting" }, want: "it is a view"},
		"not unique":     {schema: plain, change: func(t *rows.Table) { t.Key = []string{"recipient"} }, want: "several rows may have the same recipient"},
		"unique or NULL": {schema: "CREATE TABLE notices (id INTEGER UNIQUE, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + facts, want: "several rows may have the same id"},
		"a number": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status SMALLINT NOT NULL, recipient VARCHAR(80)" + facts,
			want: `cannot hold "pending": name a number for each state, as --pending N`},
		"an unsigned state": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status TINYINT UNSIGNED NOT NULL, recipient VARCHAR(80)" + facts,
			only: "mysql", change: func(t *rows.Table) {
				t.States = rows.States{Pending: "0", Sending: "255", Sent: "2", Failed: "-3", Dead: "4", Unknown: "5"}
			}, want: `cannot hold "-3"`},
		"no key in a row": {schema: "CREATE TABLE notices (id VARCHAR(36) PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + facts + ";\nINSERT INTO notices (id, status) VALUES (NULL, 'pending')",
			only: "sqlite", want: "there are rows without a key (id is NULL)"},
		"a part of the key is NULL": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + facts + ";\nINSERT INTO notices (id, status) VALUES (1, 'pending')",
			change: func(t *rows.Table) { t.Key = []string{"id", "recipient"} }, want: "there are rows without a key (recipient is NULL)"},
		"heirs": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + facts + ";\nCREATE TABLE late () INHERITS (notices)",
			only: "pgx", want: "other tables inherit from it"},
		"bits": {schema: "CREATE TABLE notices (id BIT(64) PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + facts, only: "mysql", want: "the key's column id is of type bit(64)"},
		"too short": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(4) NOT NULL, recipient VARCHAR(80)" + facts,
			only: "mysql pgx", want: `cannot hold "pending"`},
		"an enum": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status ENUM('pending', 'sending', 'sent') NOT NULL, recipient VARCHAR(80)" + facts,
			only: "mysql", want: `cannot hold "failed", "dead", "unknown": run the printed migration`},
		"a type": {schema: "CREATE TYPE progress AS ENUM ('pending', 'sending', 'sent');\nCREATE TABLE notices (id INTEGER PRIMARY KEY, status progress NOT NULL, recipient VARCHAR(80)" + facts,
			only: "pgx", want: `cannot hold "failed", "dead", "unknown": run the printed migration`},
		"a date": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status DATE NOT NULL, recipient VARCHAR(80)" + facts, want: "the state column status is of type"},
		"a token of 20": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + strings.Replace(facts, "CHAR(36)", "CHAR(20)", 1),
			only: "mysql pgx", want: "cannot hold token"},
		"a start that is no time": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" +
			strings.Replace(facts, "cronce_started_at TIMESTAMP", "cronce_started_at INTEGER", 1), want: "cannot hold started-at"},
		"a small fence": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" +
			strings.Replace(facts, "BIGINT", "INTEGER", 1), only: "mysql pgx", want: "cannot hold fence"},
		"NULL state": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20), recipient VARCHAR(80)" + facts +
			";\nINSERT INTO notices (id, status) VALUES (1, 'pending'), (2, NULL)", want: "row 2 has no status (NULL): it would never be claimed"},
		"wrong SQL": {schema: "CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80)" + facts,
			change: func(t *rows.Table) { t.Where = "kind = " }, want: "does not take the statement"},
		"another side table": {schema: plain + ";\nCREATE TABLE claims (id BIGINT NOT NULL PRIMARY KEY, state VARCHAR(10), token CHAR(36))",
			change: func(t *rows.Table) { t.Side = "claims" }, want: "another type of id"},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, db *database) {
				if bad.only != "" && !strings.Contains(bad.only, db.engine) {
					return // no such thing there
				}
				db.run(bad.schema)
				table := notices
				if bad.change != nil {
					bad.change(&table)
				}
				var refused *rows.TableError
				if _, err := rows.Open(t.Context(), db.DB, table, rows.Options{}); !errors.As(err, &refused) || !strings.Contains(err.Error(), bad.want) {
					t.Errorf("got  %v\nwant %s", err, bad.want)
				}
			})
		})
	}
}

// TestSharedSideTable defends that what has been sent of one table is not taken for rows of another one.
func TestSharedSideTable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		table := notices
		table.Side = "claims"
		db.fill(table, 2)
		db.open(table, rows.Options{})
		db.run("CREATE TABLE letters (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, recipient VARCHAR(80))")
		table.Name = "letters"
		var refused *rows.TableError
		if _, err := rows.Open(t.Context(), db.DB, table, rows.Options{}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the side table claims is that of notices") {
			t.Errorf("got %v", err)
		}
	})
}

// TestReadOnlyFile defends that a file of SQLite which may not be written to ends a drain at once, and is not waited for.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	db.fill(notices, 2)
	path, _, _ := strings.Cut(db.url, "?")
	var refused *rows.TableError
	_, err := connect(t, "sqlite", path+"?mode=ro").open(notices, rows.Options{}).Drain(t.Context(), never(t))
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("got %v", err)
	}
}

// TestDescription defends that mistakes of a description are all named at once, without a database.
func TestDescription(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		table rows.Table
		want  []string
	}{
		"nothing":      {rows.Table{}, []string{"table: its name is missing", "key: ", "state: "}},
		"names":        {rows.Table{Name: "a.b.c", Key: []string{"i`d"}, State: "status"}, []string{"one dot at most", "without quotes"}},
		"twice":        {rows.Table{Name: "n", Key: []string{"id"}, State: "status", Columns: rows.Columns{Token: "STATUS"}}, []string{"token: column STATUS is already used for state"}},
		"equal states": {rows.Table{Name: "n", Key: []string{"id"}, State: "s", States: rows.States{Sent: "Pending "}}, []string{`sent: "Pending " is the value of pending too`}},
		"side":         {rows.Table{Name: "n", Key: []string{"id"}, Side: "N", States: rows.States{Sent: "x"}, Columns: rows.Columns{Token: "t"}}, []string{"side: N is the table itself", "no state column", "token: with a side table"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := bad.table.Check()
			for _, want := range bad.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
	var table rows.Table
	for _, s := range [][2]string{{"table", "notices"}, {"key", "a, b"}, {"state", "status"}, {"sent", "3"}, {"last-error", "problem"}} {
		if err := table.Set(s[0], s[1]); err != nil {
			t.Error(err)
		}
	}
	if table.Name != "notices" || len(table.Key) != 2 || table.Key[1] != "b" || table.States.Sent != "3" || table.Columns.LastError != "problem" || table.Check() != nil {
		t.Errorf("set as %+v: %v", table, table.Check())
	}
	for _, s := range [][2]string{{"tabel", "notices"}, {"key", "a,,b"}, {"state", " "}} {
		if err := table.Set(s[0], s[1]); err == nil || !strings.HasPrefix(err.Error(), s[0]) {
			t.Errorf("%s=%q: %v", s[0], s[1], err)
		}
	}
}

// TestSmallPool defends that a drain does not wait for connections that it has itself.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 500)
		db.SetMaxOpenConns(1)
		if db.engine == "mysql" {
			if _, err := rows.Open(t.Context(), db.DB, notices, rows.Options{}); err == nil || !strings.Contains(err.Error(), "the pool allows 1 connections") {
				t.Fatal(err)
			}
			db.SetMaxOpenConns(4)
		}
		counted := newCalls(500)
		if result, err := db.open(notices, rows.Options{Workers: 10}).Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
			if err := db.PingContext(ctx); err != nil { // a handler uses it too
				return err
			}
			return counted.handle(ctx, row)
		}); err != nil || result.Sent != 500 {
			t.Errorf("%+v, %v", result, err)
		}
		counted.once(t)
	})
}

// TestBadRow defends that a row which the database does not let be marked keeps no other from being recorded.
func TestBadRow(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 30, "")
		switch db.engine {
		case "mysql":
			db.run("CREATE TRIGGER t BEFORE UPDATE ON notices FOR EACH ROW IF NEW.id = 7 AND NEW.status = 'sent' THEN SIGNAL SQLSTATE '45000'; END IF")
		case "pgx":
			db.run("ALTER TABLE notices ADD CHECK (id <> 7 OR status <> 'sent')")
		case "sqlite":
			db.run("CREATE TRIGGER t BEFORE UPDATE ON notices WHEN NEW.id = 7 AND NEW.status = 'sent' BEGIN SELECT RAISE(ABORT, 'no'); END")
		}
		counted := newCalls(30)
		var refused *rows.TableError
		result, err := db.open(notices, rows.Options{Workers: 10, Batch: 10}).Drain(t.Context(), counted.handle)
		if !errors.As(err, &refused) || result.Unrecorded != 1 || result.Sent < 9 {
			t.Errorf("%+v, %v", result, err)
		}
		if n := db.number("SELECT COUNT(*) FROM notices WHERE status = 'sending'"); n != 1 {
			t.Errorf("%d rows are sending", n)
		}
		for id := range counted.of {
			if counted.of[id].Load() > 1 {
				t.Errorf("row %d was handled twice", id)
			}
		}
	})
}

// TestFullDisk defends that a disk without room stops rows from being started, loses none, and that it goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const mounting = "ROWS_TEST_MAY_MOUNT"
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=1m"); err != nil {
		if os.Getenv(mounting) != "" {
			t.Fatal(err)
		}
		// In a mount namespace of its own.
		cmd := exec.Command("unshare", "-rm", os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), mounting+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisk") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	db := connect(t, "sqlite", "file:"+filepath.Join(disk, "rows.db"))
	const n = 500
	db.fill(notices, n)
	counted := newCalls(n)
	full := false
	result, err := db.open(notices, rows.Options{Batch: 20}).Drain(t.Context(), func(ctx context.Context, row rows.Row) error {
		if row.Key[0].(int64) == 100 {
			full = true
			filler := filepath.Join(disk, "filler")
			if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("the disk is not full: %v", err)
			}
			time.AfterFunc(time.Second, func() { os.Remove(filler) })
		}
		return counted.handle(ctx, row)
	})
	if err != nil || result.Sent != n || !full {
		t.Errorf("%+v, %v", result, err)
	}
	counted.once(t)
}
