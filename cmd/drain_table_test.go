package cmd_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/cronce/cronce/internal/testenv"
)

// drained is a table of notifications that drains work off.
type drained struct {
	*sql.DB
	t      *testing.T
	engine string
	url    string // for CRONCE_DB
	dir    string
}

// engines runs a test on a table of so many pending rows in each engine.
func engines(t *testing.T, rows int, test func(t *testing.T, w *drained)) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "mariadb", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, newDrained(t, engine, rows))
		})
	}
}

func newDrained(t *testing.T, engine string, rows int) *drained {
	t.Helper()
	w := &drained{t: t, engine: engine, dir: t.TempDir()}
	driver, source := "sqlite", filepath.Join(w.dir, "app.db")
	switch w.url = source; engine {
	case "mariadb":
		w.url = testenv.MariaDB(t)
		u, err := url.Parse(w.url)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		driver, source = "mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")"+u.Path
	case "postgres":
		w.url = testenv.Postgres(t)
		driver, source = "pgx", w.url
	case "sqlite":
		source += "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w.DB = db
	w.run("CREATE TABLE notifications (id INTEGER PRIMARY KEY, recipient VARCHAR(100) NOT NULL, note VARCHAR(100), status VARCHAR(20))")
	w.add(rows)
	w.run(w.ok("", "--print-migration"))
	t.Cleanup(func() {
		for _, pid := range w.processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return w
}

// add adds pending rows.
func (w *drained) add(rows int) {
	w.t.Helper()
	var all []string
	for i := 1; i <= rows; i++ {
		all = append(all, fmt.Sprintf("(%d, 'u%d@example.com', 'pending')", i, i))
	}
	if len(all) > 0 {
		w.run("INSERT INTO notifications (id, recipient, status) VALUES " + strings.Join(all, ", "))
	}
}

// run runs statements, parted by semicolons at the ends of lines.
func (w *drained) run(statements string) {
	w.t.Helper()
	for s := range strings.SplitSeq(statements, ";\n") {
		if s = strings.TrimSuffix(strings.TrimSpace(s), ";"); s == "" {
			continue
		}
		if _, err := w.Exec(s); err != nil {
			w.t.Fatalf("%s: %v", s, err)
		}
	}
}

// described are the flags that describe the table.
var described = []string{"--table", "notifications", "--key", "id", "--state", "status"}

// command is a drain of the table, with what stands behind the flags that describe it.
func (w *drained) command(args ...string) *exec.Cmd {
	var sub []string
	if len(args) > 0 && args[0] == "report" {
		sub, args = args[:1], args[1:]
	}
	all := append(append(append([]string{"drain"}, sub...), described...), args...)
	cmd := exec.Command(filepath.Join(bin, "cronce"), all...)
	cmd.Env = append(os.Environ(), "CRONCE_DB="+w.url, "CRONCE_STORE="+w.dir+"/store", "LOG="+w.dir+"/log", "DIR="+w.dir, "TZ=UTC")
	return cmd
}

// end runs a drain to its end, and returns its exit code, and what it printed on both streams.
func (w *drained) end(args ...string) (code int, out string) {
	w.t.Helper()
	cmd := w.command(args...)
	text, err := cmd.CombinedOutput()
	if code, ok := exitCode(err); err != nil && ok {
		return code, string(text)
	} else if err != nil {
		w.t.Fatal(err)
	}
	return 0, string(text)
}

// apart is end with the two streams apart.
func (w *drained) apart(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	var out, err strings.Builder
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	if failed := cmd.Run(); failed != nil {
		code, _ = exitCode(failed)
	}
	return out.String(), err.String(), code
}

// ok runs a drain that must end with 0 and say so, and returns what it printed.
func (w *drained) ok(says string, args ...string) string {
	w.t.Helper()
	return w.exits(0, says, args...)
}

func (w *drained) exits(code int, says string, args ...string) string {
	w.t.Helper()
	got, out := w.end(args...)
	if got != code || !strings.Contains(out, says) {
		w.t.Fatalf("%q: exit %d, want %d with %q:\n%s", args, got, code, says, out)
	}
	return out
}

// states are the numbers of rows by state, as "failed 1, sent 2".
func (w *drained) states() string {
	w.t.Helper()
	return w.text("SELECT status, COUNT(*) FROM notifications GROUP BY status ORDER BY status")
}

// text is what a query gives, a row after the other.
func (w *drained) text(query string) string {
	w.t.Helper()
	found, err := w.Query(query)
	if err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	defer found.Close()
	names, _ := found.Columns()
	var all []string
	for found.Next() {
		values := make([]any, len(names))
		for i := range values {
			values[i] = new(sql.NullString)
		}
		if err := found.Scan(values...); err != nil {
			w.t.Fatal(err)
		}
		var cells []string
		for _, v := range values {
			cells = append(cells, v.(*sql.NullString).String)
		}
		all = append(all, strings.Join(cells, " "))
	}
	if err := found.Err(); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(all, ", ")
}

// processes are those of drains of this table, and all that they have started.
func (w *drained) processes() (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, _ := os.ReadFile(path)
		if strings.Contains(string(env), "LOG="+w.dir+"/log\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitNone waits until nothing of a drain goes on.
func (w *drained) awaitNone() {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); len(w.processes()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			w.t.Fatalf("after a minute %v go on", w.processes())
		}
	}
}

// has fails the test unless the states are these.
func (w *drained) has(states string) {
	w.t.Helper()
	if got := w.states(); got != states {
		w.t.Fatalf("the table has: %s; want: %s", got, states)
	}
}

// sends is how often each id stands in the log.
func (w *drained) sends() map[string]int {
	w.t.Helper()
	text, err := os.ReadFile(w.dir + "/log")
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	all := map[string]int{}
	for _, id := range strings.Fields(string(text)) {
		all[id]++
	}
	return all
}

// awaitSends waits until so many rows are in the log.
func (w *drained) awaitSends(rows int) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); len(w.sends()) < rows; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			w.t.Fatalf("after a minute there are %d sends, want %d", len(w.sends()), rows)
		}
	}
}

// once fails the test if a row was sent more than once, or not so many rows at all.
func (w *drained) once(rows int) {
	w.t.Helper()
	all := w.sends()
	for id, n := range all {
		if n > 1 {
			w.t.Errorf("row %s was sent %d times", id, n)
		}
	}
	if len(all) != rows {
		w.t.Errorf("%d rows were sent, want %d", len(all), rows)
	}
}

// logged is a command that puts the row into the log, and then does more.
func logged(more string) []string {
	return []string{"--", "sh", "-c", `echo "$CRONCE_ROW_ID" >>"$LOG"; ` + more}
}
