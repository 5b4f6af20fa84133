package cmd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/keys"
)

// Bad input is refused by name, with the flag or the table and what to do; nothing is run.
func TestDrain_BadInput(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	w.run("CREATE VIEW seen AS SELECT * FROM notifications;\nCREATE TABLE loose (id INTEGER, status TEXT, cronce_token TEXT)")
	with := func(more ...string) []string {
		return append([]string{"drain", "--table", "notifications", "--key", "id", "--state", "status"}, more...)
	}
	does := []string{"--", "sh", "-c", "echo sent >>$LOG"}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{with(), 64, "nothing does the work: a command behind --, or --post URL"},
		{with("true"), 64, `"true" is no flag: the command stands behind --`},
		{with("--frob", "--", "true"), 64, "--frob"},
		{append([]string{"drain", "--key", "id", "--state", "status"}, does...), 64, "--table: its name is missing"},
		{append([]string{"drain", "--table", "notifications", "--state", "status"}, does...), 64, "--key: the column of the primary key is missing"},
		{append([]string{"drain", "--table", "notifications", "--key", "id"}, does...), 64, "--state: the column that says what is pending is missing"},
		{with("--attempts-column", "id", "--", "true"), 64, "--attempts-column: column id is already used for key"},
		{with("--workers", "none", "--", "true"), 64, `invalid value "none" for flag --workers: a number from 1 on is expected`},
		{with("--workers", "70000", "--", "true"), 64, "70000 workers are too many: 5000 is the most"},
		{with("--rate", "50", "--", "true"), 64, "--rate: a rate as 50/s, 100/m or 2/h is expected"},
		{with("--timeout", "5", "--", "true"), 64, "--timeout: a duration as 30s is expected"},
		{with("--timeout", "1m", "--lease", "30s", "--", "true"), 64, "a lease of 30s is too short for a time-out of 1m0s"},
		{with("--follow", "--until-empty", "--", "true"), 64, "--follow"},
		{with("--post", "ftp://example.com/"), 64, "--post: it must begin with https:// or http://"},
		{with("--post", "https://app:s3cr3t@127.0.0.1/"), 64, "--header-file Authorization=FILE"},
		{with("--post", "https://app:s3cr3t@127.0.0.1:%zz/"), 64, "--header-file Authorization=FILE"},
		{with("--post", "https://127.0.0.1:99999/"), 64, "its port is none from 1 to 65535"},
		{with("--post", "http://127.0.0.1:1/", "--", "true"), 64, "--post sends each row itself"},
		{with("--header", "X: y", "--", "true"), 64, "--header, --header-file and --doubt are about the request"},
		{with("--post", "http://127.0.0.1:1/", "--header", "Authorization: Bearer s3cr3t"), 64, "--header-file Authorization=FILE"},
		{with("--db", "mysql://app:s3cr3t@db/app", "--", "true"), 64, "--db mysql://app@db/app: a password on a command line can be read by everybody"},
		{with("--db", "oracle://app@db/app", "--", "true"), 78, "no database is of this kind"},
		{with("--db", "mysql://app@db", "--", "true"), 78, "the URL names no database"},
		{with("--db", "postgres://app@127.0.0.1:1/app?connect_timeout=2", "--", "true"), 69, "connect"},
		{with("--db", "mysql://app@127.0.0.1:1/app", "--", "true"), 69, "connection refused"},
		{with("--db", "/nowhere/app.db", "--", "true"), 66, "the file of an SQLite database: stat /nowhere/app.db"},
		{with("--db", "sqlite://app.db", "--", "true"), 78, "write sqlite:///PATH"},
		{with("--table", "nothing", "--", "true"), 78, "table nothing: SQLite"},
		{with("--table", "seen", "--", "true"), 78, "table seen: it is a view: name the table that is behind it"},
		{with("--table", "loose", "--", "true"), 78, "several rows may have the same id: name the primary key"},
		{with("--key", "number", "--", "true"), 78, "there is no column number: it has id, recipient,"},
		{with("--where", "id = ?", "--", "true"), 78, "does not take the statement"},
		{with("--where", "id = ?", "--check"), 78, "does not take the statement"},
		{with("--where", "id = :one", "--", "true"), 78, "where"},
		{with("--read", "frob", "--", "true"), 78, "there is no column frob"},
		{with("--token-column", "frob", "--", "true"), 78, "there is no column frob, for token: run the printed migration"},
		{with("--", "./no-such-command"), 127, "no-such-command"},
		{with("--", "no-such-command"), 127, "no-such-command is not in"},
		{with("--lines", "--", "/etc/passwd"), 126, "/etc/passwd"},
		{[]string{"drain", "report"}, 64, "--table: its name is missing"},
		{[]string{"drain", "report", "frob"}, 64, `report: "frob" is no flag`},
	} {
		out := w.plain(c.code, c.args...)
		if !strings.Contains(out, c.says) {
			t.Errorf("%q says, without %q:\n%s", c.args, c.says, out)
		}
		if strings.Contains(out, "s3cr3t") {
			t.Errorf("%q shows a secret:\n%s", c.args, out)
		}
	}
	w.has("pending 1")
	if len(w.sends()) > 0 {
		t.Error("something was run")
	}
	w.run("UPDATE notifications SET status = NULL")
	w.exits(78, "row 1 has no status (NULL): it would never be claimed", does...)
	w.run("UPDATE notifications SET status = 'lost'") // none of the six
	w.ok("1 row in none of the states: they are never claimed", append([]string{"--dry-run"}, does...)...)
	// The password of a file, which others may not change.
	file := write(t, w.dir+"/password", "s3cr3t\n")
	cmd := w.command("--dry-run", "--", "true")
	cmd.Env = append(cmd.Env, "CRONCE_DB=mysql://app@127.0.0.1:1/app", "CRONCE_DB_PASSWORD_FILE="+file+"s")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "CRONCE_DB_PASSWORD_FILE") {
		t.Errorf("a password file that is not there: %v\n%s", err, out)
	}
}

// The reference has every flag of drain, in the words of its help.
func TestReferenceHasDrain(t *testing.T) {
	text, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Table() {
		lookForFlag(t, string(text), keys.Flag(k.Name), k)
	}
	for _, k := range keys.Drain {
		lookForFlag(t, string(text), k.Name, k)
	}
}

func lookForFlag(t *testing.T, text, name string, k keys.Key) {
	t.Helper()
	flag := strings.ReplaceAll(strings.TrimSuffix("--"+name+" "+k.Value, " "), "|", `\|`)
	if line := "| `" + flag + "` | " + k.Help + " |\n"; !strings.Contains(text, line) {
		t.Errorf("docs/reference.md lacks the line\n%s", line)
	}
}
