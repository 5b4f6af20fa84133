package rows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/rows"
)

// enumTable is a table as people have it, before cronce: a state that is an enumeration where there are such, with a
// default and a comment.
func (db *database) enumTable() {
	db.t.Helper()
	switch db.engine {
	case "mysql":
		db.run("CREATE TABLE notices (id INT AUTO_INCREMENT PRIMARY KEY, recipient VARCHAR(80)," +
			" status ENUM('draft','pending','it''s \\\\ done','sent') CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'pending' COMMENT 'it''s the state, of ENUM(''x'')')")
	case "pgx":
		db.run("CREATE TYPE progress AS ENUM ('draft', 'pending', 'sent');\n" +
			"CREATE TABLE notices (id SERIAL PRIMARY KEY, recipient VARCHAR(80), status progress NOT NULL DEFAULT 'pending');\nCOMMENT ON COLUMN notices.status IS 'the state'")
	default:
		db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, recipient VARCHAR(80), status VARCHAR(7) NOT NULL DEFAULT 'pending')")
	}
	db.run("INSERT INTO notices (recipient) VALUES ('r1@example.org'), ('r2@example.org')")
}

// pasteAll runs all that a report prints below its findings.
func (db *database) pasteAll(r *rows.Report) {
	db.t.Helper()
	for _, f := range r.Findings {
		if f.Level == rows.Refused {
			db.paste(f.Fix)
		}
	}
}

// TestNeeds_OneGo defends that what the migration prints, and what the check prints, is all that is missing, and that the state's
// column is else as it was: once pasted nothing is amiss, for a drain under a run too.
func TestNeeds_OneGo(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(db *database){
		"migration": func(db *database) { db.migrate(notices) },
		"check":     func(db *database) { db.pasteAll(db.preflight(notices)) },
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, db *database) {
				db.enumTable()
				mend(db)
				if r := db.preflight(notices); len(r.Findings) > 0 {
					t.Errorf("then there is\n%s", r)
				}
				if migration, err := rows.Migration(t.Context(), db.DB, notices, rows.Options{Fence: 1}); migration != "" || err != nil {
					t.Errorf("then this is missing: %s%v", migration, err)
				}
				if db.engine == "mysql" {
					_, rest, _ := strings.Cut(db.text("SELECT CONCAT_WS(' ', COLUMN_TYPE, COLUMN_DEFAULT, COLLATION_NAME, IS_NULLABLE, COLUMN_COMMENT) FROM information_schema.COLUMNS"+
						" WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'notices' AND COLUMN_NAME = 'status'"), "enum")
					if want := `('draft','pending','it''s \\ done','sent','sending','failed','dead','unknown') 'pending' latin1_bin NO it's the state, of ENUM('x')`; rest != want {
						t.Errorf("the column is\n%s, want\n%s", rest, want)
					}
				}
				db.run("INSERT INTO notices (recipient) VALUES ('r3@example.org')")
				counted := newCalls(3)
				if result, err := db.open(notices, rows.Options{Fence: 1}).Drain(t.Context(), counted.handle); err != nil || result.Sent != 3 {
					t.Errorf("%+v, %v", result, err)
				}
			})
		})
	}
}

// TestNeeds_Short defends that a text which is too short for the states is made longer, and stays what it was else.
func TestNeeds_Short(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *database{"mariadb": mariadb, "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			collate := `COLLATE "C"`
			if db.engine == "mysql" {
				collate = "CHARACTER SET ascii COLLATE ascii_bin"
			}
			db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, recipient VARCHAR(80), status VARCHAR(6) " + collate + " DEFAULT 'sent')")
			db.migrate(notices)
			db.run("INSERT INTO notices (id, status) VALUES (1, 'pending');\nINSERT INTO notices (id) VALUES (2)")
			fine(t, db.preflight(notices))
			got := db.text("SELECT CONCAT(collation_name, ' ', character_maximum_length) FROM information_schema.columns WHERE table_name = 'notices' AND column_name = 'status' AND table_schema NOT LIKE 'pg%'")
			if got != "ascii_bin 20" && got != "C 20" || db.text("SELECT status FROM notices WHERE id = 2") != "sent" {
				t.Errorf("the column is %s", got)
			}
		})
	}
}

// TestMigration_Nonsense defends that nothing is printed for what no SQL mends.
func TestMigration_Nonsense(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, recipient VARCHAR(80), status VARCHAR(20), number INTEGER);\nCREATE VIEW waiting AS SELECT * FROM notices")
		for want, change := range map[string]func(*rows.Table){
			"has no such table":                 func(t *rows.Table) { t.Name = "elsewhere" },
			"it is a view":                      func(t *rows.Table) { t.Name = "waiting" },
			"there is no column nr":             func(t *rows.Table) { t.Key = []string{"nr"} },
			"several rows may have the same":    func(t *rows.Table) { t.Key = []string{"recipient"} },
			"as --pending N, or another column": func(t *rows.Table) { t.State = "number" },
			"the side table waiting is a view":  func(t *rows.Table) { t.Side = "waiting" },
		} {
			table := notices
			change(&table)
			var refused *rows.TableError
			if migration, err := rows.Migration(t.Context(), db.DB, table, rows.Options{Fence: 1}); migration != "" || !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s%v\nwant %s", migration, err, want)
			}
			if r := db.preflight(table); r.Err() == nil || !strings.Contains(r.Err().Error(), want) {
				t.Errorf("the check does not say %q:\n%s", want, r)
			}
		}
		db.run("INSERT INTO notices (id) VALUES (7)")
		db.migrate(notices)
		found(t, db.preflight(notices), rows.Refused, "table", "row 7 has no status (NULL)")
	})
}

// TestPreflight_Rights defends that a user who lacks a right is refused, and that the printed GRANT is the one.
func TestPreflight_Rights(t *testing.T) {
	t.Parallel()
	meter := rows.MeterOptions{Target: func(rows.Row) string { return "" }, Content: func(rows.Row) string { return "" }}
	servers := map[string]func() (url string, grant func(string) string){
		"mysql": func() (string, func(string) string) { s := testenv.StartMariaDB(t); return s.AdminURL(), s.SQL },
		"pgx":   func() (string, func(string) string) { s := testenv.StartPostgres(t); return s.AdminURL(), s.SQL },
	}
	for driver, start := range servers {
		t.Run(driver, func(t *testing.T) {
			url, grant := start()
			admin := connect(t, driver, url)
			admin.fill(notices, 12)
			sends, err := rows.MeterMigration(t.Context(), admin.DB, meter)
			if err != nil {
				t.Fatal(err)
			}
			admin.run(sends)
			if driver == "mysql" {
				grant("CREATE USER app IDENTIFIED BY 'secret'")
			} else {
				grant("CREATE ROLE app LOGIN PASSWORD 'secret'")
			}
			for _, table := range []string{"notices", "cronce_fences", "cronce_sends"} {
				grant("GRANT SELECT ON " + table + " TO app")
			}
			_, place, _ := strings.Cut(url, "@")
			scheme, _, _ := strings.Cut(url, ":")
			app := connect(t, driver, scheme+"://app:secret@"+place)
			look := func() *rows.Report {
				r := app.preflight(notices)
				if err := rows.PreflightMeter(t.Context(), app.DB, meter, r); err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := look()
			for _, table := range []string{"notices", "cronce_fences", "cronce_sends"} {
				f := found(t, r, rows.Refused, "rights", table)
				for line := range strings.Lines(f.Fix) {
					grant(line)
				}
			}
			r = look()
			fine(t, r)
			if len(r.Findings) > 0 {
				t.Errorf("with all that was granted:\n%s", r)
			}
		})
	}
}

// TestPreflight_Rows defends that the check says why nothing is sent: rows wait for their next attempt, are claimed, or locked by others.
func TestPreflight_Rows(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		db.fill(notices, 30)
		db.finished(30)
		db.run("UPDATE notices SET cronce_next_attempt_at = '2099-01-02 03:04:05' WHERE status = 'pending'")
		r := db.preflight(notices)
		if want := "30 pending, 0 of them due; 30 to be tried at 2099-01-02T03:04:05Z"; r.Rows != want || db.engine != "sqlite" && r.Proof != "none: no row is due" {
			t.Errorf("%s", r)
		}
		fine(t, r)
		db.run("UPDATE notices SET cronce_next_attempt_at = NULL WHERE id = 3;\n" +
			"UPDATE notices SET status = 'sending', cronce_lease_until = '2001-01-02 03:04:05' WHERE id < 3;\nUPDATE notices SET status = 'sending', cronce_lease_until = '2099-01-02 03:04:06' WHERE id = 4")
		r = db.preflight(notices)
		want := "27 pending, 1 of them due; 26 to be tried at 2099-01-02T03:04:05Z; 1 claimed until 2099-01-02T03:04:06Z at most unless their drain renews that; 2 whose claim has ended: the next drain takes them back"
		if r.Rows != want {
			t.Errorf("%s\nwant %s", r.Rows, want)
		}
		if db.engine == "sqlite" {
			return // locks the file
		}
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE notices SET recipient = 'mine' WHERE id = 3"); err != nil {
			t.Fatal(err)
		}
		r = db.preflight(notices)
		found(t, r, rows.Refused, "locks", "others have had them locked")
		if db.engine == "pgx" {
			found(t, r, rows.Slow, "transaction", fmt.Sprintf("of %s", db.text("SELECT current_user")))
		}
	})
}
