package cmd_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// bare makes the table as people have it before cronce, with a state that is an enumeration where there are such.
func (w *drained) bare() {
	w.t.Helper()
	w.run("DROP TABLE notifications;\nDROP TABLE cronce_fences")
	switch w.engine {
	case "mariadb":
		w.run("CREATE TABLE notifications (id INT AUTO_INCREMENT PRIMARY KEY, recipient VARCHAR(100), status ENUM('draft','pending','sent') NOT NULL DEFAULT 'pending' COMMENT 'the state')")
	case "postgres":
		w.run("CREATE TYPE progress AS ENUM ('draft', 'pending', 'sent');\n" +
			"CREATE TABLE notifications (id SERIAL PRIMARY KEY, recipient VARCHAR(100), status progress NOT NULL DEFAULT 'pending');\nCOMMENT ON COLUMN notifications.status IS 'the state'")
	default:
		w.run("CREATE TABLE notifications (id INTEGER PRIMARY KEY, recipient VARCHAR(100), status VARCHAR(7) NOT NULL DEFAULT 'pending')")
	}
	w.run("INSERT INTO notifications (recipient) VALUES ('u1@example.com'), ('u2@example.com')")
}

// pasted is the SQL in what --check prints.
func pasted(report string) string {
	var all strings.Builder
	for line := range strings.Lines(report) {
		if s, ok := strings.CutPrefix(line, "    "); ok {
			all.WriteString(s)
		}
	}
	return all.String()
}

// What either prints is all that is missing: once pasted the check finds nothing, and a drain inside cronce run sends each
// row, also one that gets its state by the column's default.
func TestDrain_MendedInOneGo(t *testing.T) {
	same := []string{"--target", "recipient", "--content", "recipient", "--block-duplicates"}
	for name, printed := range map[string]func(w *drained) string{
		"migration": func(w *drained) string { return w.ok("", append([]string{"--print-migration"}, same...)...) },
		"check": func(w *drained) string {
			return pasted(w.exits(78, "refused: table: ", append([]string{"--check"}, same...)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, 0, func(t *testing.T, w *drained) {
				w.bare()
				w.run(printed(w))
				if out := w.ok("keys of rows begin with notifications/, the fence is of job notifications", append([]string{"--check"}, same...)...); strings.Contains(out, "refused") || strings.Contains(out, "slow: table") {
					t.Errorf("then it says\n%s", out)
				}
				w.ok("-- nothing is missing\n", append([]string{"--print-migration"}, same...)...)
				w.run("INSERT INTO notifications (recipient) VALUES ('u3@example.com')")
				cmd := w.command(append(same, logged("")...)...)
				cmd.Args = append([]string{cmd.Args[0], "run", "--manual", "notifications", "--", cmd.Args[0]}, cmd.Args[1:]...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				w.has("sent 3")
				w.once(3)
				if w.engine == "mariadb" {
					got := w.text("SELECT CONCAT_WS(' ', COLUMN_DEFAULT, IS_NULLABLE, COLUMN_COMMENT) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = 'status'")
					if got != "'pending' NO the state" {
						t.Errorf("the column's default and comment are now %s", got)
					}
				}
			})
		})
	}
}

// Nothing is printed for what no SQL mends, and a server that does not let the user in is named with the user.
func TestDrain_CheckRefused(t *testing.T) {
	engines(t, 1, func(t *testing.T, w *drained) {
		for _, flag := range []string{"--check", "--print-migration"} {
			for _, table := range []string{"elsewhere", "theirs"} {
				w.run("DROP VIEW IF EXISTS theirs;\nCREATE VIEW theirs AS SELECT * FROM notifications")
				if out := w.plain(78, "drain", "--table", table, "--key", "id", "--state", "status", flag); strings.Contains(out, "ALTER") || strings.Contains(out, "CREATE") {
					t.Errorf("%s of %s prints\n%s", flag, table, out)
				}
			}
		}
		if w.engine == "sqlite" {
			return
		}
		u, err := url.Parse(w.url)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []url.URL{
			{Scheme: u.Scheme, User: url.UserPassword("nobody", "wrong"), Host: u.Host, Path: u.Path, RawQuery: u.RawQuery},
			{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: "/nowhere", RawQuery: u.RawQuery},
		} {
			cmd := w.command("--check")
			cmd.Path = filepath.Join(bin, "cronce")
			cmd.Env = append(cmd.Env, "CRONCE_DB="+wrong.String())
			out, err := cmd.CombinedOutput()
			if code, _ := exitCode(err); code != 78 || !strings.Contains(string(out), "the server refuses the connection: ") || !strings.Contains(string(out), wrong.User.Username()) ||
				!strings.Contains(string(out), u.Host) || strings.Contains(string(out), ":wrong@") {
				t.Errorf("%s: exit %d\n%s", wrong.Redacted(), code, out)
			}
		}
	})
}
