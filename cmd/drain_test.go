package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What came of a row is as its command's exit code says, in each engine; what does not run leaves the table as it was.
func TestDrain_Command(t *testing.T) {
	engines(t, 8, func(t *testing.T, w *drained) {
		before := w.text("SELECT * FROM notifications ORDER BY id")
		w.ok("sh would be run: for 8 rows; nothing was changed", append([]string{"--dry-run"}, logged("")...)...)
		w.ok("", "--check")
		if after := w.text("SELECT * FROM notifications ORDER BY id"); after != before || len(w.sends()) > 0 {
			t.Fatalf("a dry run, or a check, has changed the table to: %s", after)
		}
		out := w.exits(76, "nobody knows whether 2 rows in doubt went out", append([]string{"--workers", "3"}, logged(`
			cat >"$DIR/$CRONCE_ROW_ID.json"; env >"$DIR/$CRONCE_ROW_ID.env"; echo "says $CRONCE_ROW_RECIPIENT"
			case $CRONCE_ROW_ID in 2) exit 1 ;; 3) exit 75 ;; 4) exit 65 ;; 5) exit 100 ;; 6) exit 76 ;; 7) kill -9 $$ ;; esac`)...)...)
		w.has("failed 2, pending 2, sent 2, unknown 2")
		for _, line := range []string{"says u1@example.com\n", "2 sent, 2 to be tried again, 2 failed, 2 unknown in ", "a row was not sent (row 2, state pending, attempt 1, again in "} {
			if !strings.Contains(out, line) {
				t.Errorf("it does not say %q:\n%s", line, out)
			}
		}
		if got := w.text("SELECT id, cronce_last_error FROM notifications WHERE id = 7"); !strings.HasPrefix(got, "7 ended by SIGKILL: ") {
			t.Error(got)
		}
		input, err := os.ReadFile(w.dir + "/1.json")
		if want := `{"id":1,"recipient":"u1@example.com","note":null}` + "\n"; err != nil || string(input) != want {
			t.Errorf("the command read %q, want %q (%v)", input, want, err)
		}
		env, _ := os.ReadFile(w.dir + "/1.env")
		lines := strings.Split(string(env), "\n")
		for _, kv := range []string{"CRONCE_ROW_KEY=notifications/1", "CRONCE_ROW_ATTEMPT=1", "CRONCE_ROW_ID=1"} {
			if !slices.Contains(lines, kv) {
				t.Errorf("the command's environment has no %s:\n%s", kv, env)
			}
		}
		if strings.Contains(string(env), "CRONCE_DB=") || strings.Contains(string(env), "CRONCE_ROW_NOTE") {
			t.Errorf("the command's environment has what is not for it:\n%s", env)
		}
		// The key is the same in the next attempt; what has failed for good is not tried again.
		w.run("UPDATE notifications SET cronce_next_attempt_at = NULL")
		w.ok("2 sent", append([]string{"--workers", "2"}, logged(`env >"$DIR/again.env"`)...)...)
		if env, _ := os.ReadFile(w.dir + "/again.env"); !strings.Contains(string(env), "CRONCE_ROW_ATTEMPT=2\n") || !strings.Contains(string(env), "CRONCE_ROW_KEY=notifications/") {
			t.Errorf("the second attempt's environment:\n%s", env)
		}
		w.has("failed 2, sent 4, unknown 2")
		if out := w.exits(76, "2 rows in doubt", "report"); strings.Count(out, "unknown") != 2 || !strings.Contains(out, "exit 76") {
			t.Errorf("the report:\n%s", out)
		}
		// Nothing to do, and nothing to mail.
		if out := w.ok("", logged("")...); out != "" {
			t.Errorf("with nothing to do it says:\n%s", out)
		}
	})
}

// Three drains at once, each with several workers, send each row once.
func TestDrain_ThreeAtOnce(t *testing.T) {
	const rows = 150
	engines(t, rows, func(t *testing.T, w *drained) {
		for range 3 {
			startServer(t, w.command(append([]string{"--workers", "3", "--batch", "7"}, logged("")...)...))
		}
		w.awaitSends(rows)
		// What the last of them recorded is awaited by one more.
		for until := time.Now().Add(time.Minute); w.states() != fmt.Sprintf("sent %d", rows) && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		}
		w.has(fmt.Sprintf("sent %d", rows))
		w.once(rows)
	})
}

// Inside cronce run a row has the run's fence, and the report names the run; a run that has been followed by another one claims
// nothing.
func TestDrain_InsideRun(t *testing.T) {
	engines(t, 3, func(t *testing.T, w *drained) {
		cmd := w.command(logged(`[ "$CRONCE_ROW_ID" != 2 ] || exit 76`)...)
		cmd.Args = append([]string{cmd.Args[0], "run", "--manual", "notices", "--", cmd.Args[0]}, cmd.Args[1:]...)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 76 {
			t.Fatalf("%v\n%s", err, out)
		}
		w.has("sent 2, unknown 1")
		run := runsOf(t, w.dir+"/store")[0]
		if fence := w.text("SELECT DISTINCT cronce_fence FROM notifications"); fence != fmt.Sprint(run.Fence) || run.Fence == 0 {
			t.Fatalf("the rows have the fence %s, the run %d", fence, run.Fence)
		}
		var row struct {
			Key, State, Run, Holder, Token string
			Fence                          int64
		}
		out, _, code := w.apart("report", "--job", "notices", "--json")
		if json.Unmarshal([]byte(out), &row) != nil || code != 76 || row.Key != "2" || row.Run != run.ID || row.Fence != run.Fence || row.Holder == "" || row.Token == "" {
			t.Errorf("the report says %+v of run %s:\n%s", row, run.ID, out)
		}

		w.run("UPDATE notifications SET status = 'pending'")
		stale := w.command(logged("")...)
		stale.Env = append(stale.Env, "CRONCE_RUN_ID=stale", "CRONCE_JOB=notices", fmt.Sprintf("CRONCE_FENCE=%d", run.Fence-1))
		text, err := stale.CombinedOutput()
		if code, _ := exitCode(err); code != 70 || !strings.Contains(string(text), "a later run has claimed rows") {
			t.Errorf("a stale run: %v\n%s", err, text)
		}
		w.has("pending 3")
		w.once(3)
	})
}

// No more rows are started than the rate allows.
func TestDrain_Rate(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 12)
	start := time.Now()
	w.ok("12 sent", append([]string{"--workers", "12", "--rate", "10/s"}, logged("")...)...)
	if took := time.Since(start); took < 900*time.Millisecond {
		t.Errorf("12 rows at 10/s took %s", took)
	}
	w.once(12)
}

// With --follow new rows are found, and a TERM is an orderly end.
func TestDrain_Follow(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 2)
	s := startServer(t, w.command(append([]string{"--follow"}, logged("")...)...))
	w.awaitSends(2)
	w.run("INSERT INTO notifications (id, recipient, status) VALUES (3, 'late@example.com', 'pending')")
	w.awaitSends(3)
	if code := s.stop(15); code != 0 {
		t.Errorf("exit %d after TERM", code)
	}
	w.has("sent 3")
	w.once(3)
}

// Where the table has its own names for everything, and where it may not change.
func TestDrain_Described(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 0)
	w.run("CREATE TABLE orders (region TEXT NOT NULL, number INTEGER NOT NULL, step INTEGER, body TEXT, owner TEXT, PRIMARY KEY (region, number));\n" +
		"INSERT INTO orders VALUES ('eu/west', 1, 0, 'a', NULL), ('eu/west', 2, 0, 'b', NULL), ('us', 1, 0, 'c', NULL)")
	own := []string{"--table", "orders", "--key", "region,number", "--order", "number", "--state", "step", "--pending", "0", "--sending", "1", "--sent", "2", "--failed", "3",
		"--dead", "4", "--unknown", "5", "--token-column", "owner", "--read", "body"}
	w.run(w.ok("", append(own, "--print-migration")...))
	out := w.ok("3 sent", append(own, "--", "sh", "-c", "cat; echo $CRONCE_ROW_KEY")...)
	for _, line := range []string{`{"region":"eu/west","number":1,"body":"a"}`, "orders/eu%2Fwest/1\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("it does not print %q:\n%s", line, out)
		}
	}
	if got := w.text("SELECT DISTINCT step FROM orders"); got != "2" {
		t.Errorf("the states are %s", got)
	}
	w.run("CREATE TABLE theirs (id INTEGER PRIMARY KEY, body TEXT);\nINSERT INTO theirs VALUES (1, 'x'), (2, 'y')")
	aside := []string{"drain", "--db", w.url, "--table", "theirs", "--key", "id", "--side", "theirs_sent"}
	sqlText := w.plain(0, append(aside, "--print-migration")...)
	w.run(sqlText)
	w.plain(0, append(aside, logged("")...)...)
	w.plain(0, append(aside, logged("")...)...)
	w.once(2)
	if got := w.text("SELECT id, body FROM theirs"); got != "1 x, 2 y" {
		t.Errorf("the table that may not change is %s", got)
	}
}

// plain runs cronce with just these arguments.
func (w *drained) plain(code int, args ...string) string {
	w.t.Helper()
	cmd := w.command()
	cmd.Args = append([]string{filepath.Join(bin, "cronce")}, args...)
	out, err := cmd.CombinedOutput()
	if got, _ := exitCode(err); got != code {
		w.t.Fatalf("%q: exit %d, want %d\n%s", args, got, code, out)
	}
	return string(out)
}

// What goes to one address a second time within the window is counted, or not sent where asked.
func TestDrain_Duplicates(t *testing.T) {
	engines(t, 4, func(t *testing.T, w *drained) {
		w.run("UPDATE notifications SET note = 'hello';\nUPDATE notifications SET recipient = 'u1@example.com' WHERE id = 3")
		same := []string{"--target", "recipient", "--content", "note"}
		w.run(w.ok("cronce_sends", append(same, "--print-migration")...))
		if out := w.ok("4 sent, 1 duplicate in ", append(same, logged("")...)...); !strings.Contains(out, "duplicate") {
			t.Error(out)
		}
		if out := w.exits(76, "u1@example.com", append([]string{"report", "--duplicates"}, same...)...); strings.Contains(out, "u2@") {
			t.Errorf("the report:\n%s", out)
		}
		w.run("CREATE TABLE mailed (recipient VARCHAR(100), note VARCHAR(100), at INTEGER);\nINSERT INTO mailed VALUES ('x', 'a', 1000), ('x', 'a', 1500), ('x', 'a', 90000), ('y', 'a', 1000)")
		log := append([]string{"drain", "report", "--duplicates", "--log-table", "mailed", "--log-time", "at", "--json"}, same...)
		if out := w.plain(76, log...); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"sends":2,"first":"1970-01-01T00:16:40Z","last":"1970-01-01T00:25:00Z"`) {
			t.Errorf("the report of a log:\n%s", out)
		}
		w.run("DELETE FROM mailed WHERE at = 1500")
		w.ok("mailed: nothing was sent more than once", append([]string{"report", "--duplicates", "--log-table", "mailed", "--log-time", "at"}, same...)...)
		w.run("INSERT INTO mailed VALUES ('x', 'a', NULL)")
		if out := w.plain(78, log...); !strings.Contains(out, "1 sends have no time") || strings.Contains(out, "nothing was sent") {
			t.Errorf("of a time that is not there:\n%s", out)
		}
		w.run("INSERT INTO notifications (id, recipient, note, status) VALUES (5, 'u1@example.com', 'hello', 'pending')")
		w.exits(65, "1 failed", append(append(same, "--block-duplicates"), logged("")...)...)
		w.has("failed 1, sent 4")
		w.once(4)
	})
}

// The check names what is wrong with server or table, and the cure.
func TestDrain_Check(t *testing.T) {
	engines(t, 1, func(t *testing.T, w *drained) {
		w.ok("table notifications, ", "--check")
		drop := "DROP INDEX cronce_claims_notifications"
		if w.engine == "mariadb" {
			drop += " ON notifications"
		}
		w.run(drop)
		if out := w.exits(78, "refused: index: ", "--check"); !strings.Contains(out, "CREATE INDEX") {
			t.Errorf("it does not say how to make the index:\n%s", out)
		}
		w.run("CREATE TABLE bare (id INTEGER PRIMARY KEY, status VARCHAR(20))")
		out := w.plain(78, "drain", "--table", "bare", "--key", "id", "--state", "status", "--check")
		for _, says := range []string{"refused", "ADD COLUMN", "table bare cannot be worked off as it is"} {
			if !strings.Contains(out, says) {
				t.Errorf("it does not say %q:\n%s", says, out)
			}
		}
	})
}

// A row that is larger than an environment may be comes by standard input; no other one suffers from it.
func TestDrain_BigRow(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 0)
	const columns, size = 30, 90_000
	var names, values []string
	for i := range columns {
		names, values = append(names, fmt.Sprintf("c%d", i)), append(values, fmt.Sprintf("hex(zeroblob(%d))", size/2))
	}
	w.run("CREATE TABLE big (id INTEGER PRIMARY KEY, status TEXT NOT NULL, " + strings.Join(names, ", ") + ");\n" +
		"INSERT INTO big VALUES (1, 'pending', " + strings.Join(values, ", ") + ");\nINSERT INTO big (id, status, c0) VALUES (2, 'pending', 'small')")
	flags := []string{"drain", "--table", "big", "--key", "id", "--state", "status"}
	w.run(w.plain(0, append(flags, "--print-migration")...))
	out := w.plain(0, append(flags, "--", "sh", "-c", `echo "row $CRONCE_ROW_ID: $(wc -c)"; env | grep -c CRONCE_ROW_C`)...)
	for _, says := range []string{"row 1: 27", "\n11\n", "row 2: ", "2 sent in "} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
}

// What JSON does not have, and names that cannot be asked for, are no reason to fail a row.
func TestDrain_OddValues(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 0)
	w.run("CREATE TABLE odd (id INTEGER PRIMARY KEY, status TEXT NOT NULL, much REAL, latin TEXT, \"a.b\" TEXT);\nINSERT INTO odd VALUES (1, 'pending', 9e999, CAST(x'ff41' AS TEXT), 'x')")
	flags := []string{"drain", "--table", "odd", "--key", "id", "--state", "status"}
	w.run(w.plain(0, append(flags, "--print-migration")...))
	if out := w.plain(78, append(flags, "--", "cat")...); !strings.Contains(out, `"a.b", has a name that cannot be asked for: say by --read`) {
		t.Error(out)
	}
	if out := w.plain(0, append(flags, "--read", "much,latin", "--", "cat")...); !strings.Contains(out, `{"id":1,"much":"+Inf","latin":"/0E="}`) {
		t.Error(out)
	}
}

// A row's values come as JSON that a script can read, whatever their types.
func TestDrain_Types(t *testing.T) {
	engines(t, 0, func(t *testing.T, w *drained) {
		blob, at, zone := "BLOB", "DATETIME", ""
		if w.engine == "postgres" {
			blob, at, zone = "BYTEA", "TIMESTAMPTZ", "+00"
		}
		w.run("CREATE TABLE typed (id INTEGER PRIMARY KEY, amount DECIMAL(10,2), at " + at + " NULL, raw " + blob + ", odd VARCHAR(50), rate DOUBLE PRECISION, n BIGINT, status VARCHAR(20) NOT NULL)")
		raw := "X'ff00'"
		if w.engine == "postgres" {
			raw = `'\xff00'`
		}
		w.run("INSERT INTO typed VALUES (1, 12.50, '2026-11-30 02:30:00" + zone + "', " + raw + `, 'a<b "c" é', 0.5, 9007199254740993, 'pending')`)
		flags := []string{"drain", "--table", "typed", "--key", "id", "--state", "status"}
		w.run(w.plain(0, append(flags, "--print-migration")...))
		out := w.plain(0, append(flags, "--", "sh", "-c", `cat; echo "$CRONCE_ROW_ODD $CRONCE_ROW_N"`)...)
		amount, when := `"12.50"`, `"2026-11-30T02:30:00Z"`
		switch w.engine {
		case "sqlite":
			amount = "12.5"
		case "mariadb":
			when = `"2026-11-30 02:30:00"`
		}
		want := `{"id":1,"amount":` + amount + `,"at":` + when + `,"raw":"/wA=","odd":"a<b \"c\" é","rate":0.5,"n":9007199254740993}` + "\na<b \"c\" é 9007199254740993\n"
		if !strings.HasPrefix(out, want) {
			t.Errorf("the command got\n%swant\n%s", out, want)
		}
	})
}
