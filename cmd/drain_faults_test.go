package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// stuck is a command that goes on for ever, in the first drain of a test, and ignores TERM in a session of its own.
const stuck = `[ -e "$DIR/go" ] || { setsid sh -c 'trap "" TERM; exec sleep 600' & sleep 600; }`

// A drain that is killed leaves at most as many rows in doubt as it had workers; its commands end with it, and all other rows are done by
// the next one, each once.
func TestDrain_Killed(t *testing.T) {
	const rows, workers = 40, 3
	engines(t, rows, func(t *testing.T, w *drained) {
		short := []string{"--workers", fmt.Sprint(workers), "--timeout", "1s", "--lease", "7s"}
		first := w.command(append([]string{"--workers", fmt.Sprint(workers), "--timeout", "30s", "--lease", "36s"}, logged(stuck)...)...)
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		w.awaitSends(workers)
		first.Process.Kill()
		first.Wait()
		w.awaitNone()
		w.run("UPDATE notifications SET cronce_lease_until = '2020-01-01 00:00:00'") // its lease passes
		write(t, w.dir+"/go", "")
		code, out := w.end(append(short, logged(stuck)...)...)
		if code != 76 || !strings.Contains(out, fmt.Sprintf("%d sent, %[2]d unknown", rows-workers, workers)) {
			t.Errorf("the next drain: exit %d\n%s", code, out)
		}
		w.has(fmt.Sprintf("sent %d, unknown %d", rows-workers, workers))
		w.once(rows)
		if out := w.exits(76, "rows in doubt", "report"); strings.Count(out, "unknown") != workers {
			t.Errorf("the report:\n%s", out)
		}
	})
}

// A guard that is killed takes what it guards with it: its row is in doubt, and all others are done.
func TestDrain_GuardKilled(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 5)
	s := startServer(t, w.command(append([]string{"--workers", "1"}, logged(`[ $CRONCE_ROW_ID != 1 ] || { setsid sh -c 'trap "" TERM; exec sleep 600' & sleep 600; }`)...)...))
	w.awaitSends(1)
	for _, pid := range childrenOf(s.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 76 {
		t.Errorf("exit %d, want 76", s.cmd.ProcessState.ExitCode())
	}
	w.has("sent 4, unknown 1")
	w.once(5)
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	w.run("UPDATE notifications SET status = 'pending' WHERE id > 3")
	s = startServer(t, w.command("--lines", "--workers", "2", "--", "sh", "-c", `read -r one; read -r two; echo "has both"; trap '' TERM; sleep 600 & sleep 600`))
	s.await(t, 0, "has both")
	for _, pid := range childrenOf(s.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 76 {
		t.Errorf("exit %d, want 76", s.cmd.ProcessState.ExitCode())
	}
	w.has("sent 2, unknown 3")
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A TERM lets what is worked on come to its end, and gives the rest back at once; a second one ends it, and all that it
// has started.
func TestDrain_Term(t *testing.T) {
	engines(t, 12, func(t *testing.T, w *drained) {
		wait := `while [ ! -e "$DIR/go" ]; do sleep 0.02; done`
		s := startServer(t, w.command(append([]string{"--workers", "2"}, logged(wait)...)...))
		w.awaitSends(2)
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.await(t, 0, "got SIGTERM", "no more rows are started")
		write(t, w.dir+"/go", "")
		if <-s.gone; s.cmd.ProcessState.ExitCode() != 143 {
			t.Errorf("exit %d after TERM", s.cmd.ProcessState.ExitCode())
		}
		w.has("pending 10, sent 2")
		w.once(2)

		s = startServer(t, w.command(append([]string{"--workers", "2"}, logged("rm -f $DIR/go; "+stuck)...)...))
		w.awaitSends(4)
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.await(t, 0, "got SIGTERM")
		s.term()
		if s.cmd.ProcessState.ExitCode() != 76 {
			t.Errorf("exit %d after two TERMs", s.cmd.ProcessState.ExitCode())
		}
		w.has("pending 8, sent 2, unknown 2")
		w.awaitNone()
	})
}

// term sends TERM until the program has ended: one that comes right after the first belongs to it, and one in the
// program's last moment does not take the place of what it has to say.
func (s *server) term() {
	for {
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// A TERM to the drain and another one to its group, as timeout(1) sends them, are one: what is worked on comes to its end.
func TestDrain_TermToTheGroup(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 5)
	cmd := w.command(append([]string{"--workers", "2"}, logged(`while [ ! -e "$DIR/go" ]; do sleep 0.02; done`)...)...)
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = timeout, append([]string{"timeout", "600"}, cmd.Args...)
	s := startServer(t, cmd)
	w.awaitSends(2)
	s.cmd.Process.Signal(syscall.SIGTERM) // it passes this on as it would its own, at its time
	s.await(t, 0, "got SIGTERM")
	write(t, w.dir+"/go", "")
	<-s.gone
	w.has("pending 3, sent 2")
}

// A run that is ended at its timeout ends its drain in order: what was worked on is in doubt, and on record as such, the rest is pending,
// and nothing goes on.
func TestDrain_RunTimeout(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "mariadb", 9)
	// However slow the machine is, two rows are begun in one of these times.
	for timeout := 4 * time.Second; ; timeout *= 2 {
		cmd := w.command(append([]string{"--workers", "2"}, logged(stuck)...)...)
		cmd.Args = append([]string{cmd.Args[0], "run", "--manual", "--timeout", timeout.String(), "notices", "--", cmd.Args[0]}, cmd.Args[1:]...)
		s := startServer(t, cmd)
		if <-s.gone; cmd.ProcessState.ExitCode() != 124 {
			t.Errorf("exit %d, want 124", cmd.ProcessState.ExitCode())
		}
		if left := w.processes(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if begun := len(w.sends()); begun == 2 || timeout > time.Minute {
			break
		}
		w.run("UPDATE notifications SET status = 'pending'")
		os.Remove(w.dir + "/log")
	}
	w.has("pending 7, unknown 2")
}

// A command that takes too long is ended with all that it has started, and its row is in doubt; where the job is idempotent, it is tried
// again.
func TestDrain_Timeout(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	if out := w.exits(76, "attempt 1): the handler's time-out has passed", append([]string{"--timeout", "300ms"}, logged(stuck)...)...); strings.Contains(out, "passed: the") {
		t.Errorf("it says the same twice:\n%s", out)
	}
	w.has("unknown 1")
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	w.run("UPDATE notifications SET status = 'pending'")
	w.exits(75, "1 to be tried again", append([]string{"--timeout", "300ms", "--idempotent"}, logged(stuck)...)...)
	w.has("pending 1")
}

// A command has come to its end when all that it has started has: what mail(1) leaves in the background is the sending. What is still there at
// the time-out is ended, and nobody knows what it has done.
func TestDrain_Background(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 2)
	background := func(wait string) []string {
		return []string{"--", "sh", "-c", `setsid sh -c '` + wait + `; echo "$CRONCE_ROW_ID" >>"$LOG"' & echo "$CRONCE_ROW_ID" >>"$DIR/ended"`}
	}
	s := startServer(t, w.command(background(`while [ ! -e "$DIR/go" ]; do sleep 0.02; done`)...))
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(w.dir + "/ended"); err == nil {
			break
		}
	}
	write(t, w.dir+"/go", "")
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit %d, want 0", s.cmd.ProcessState.ExitCode())
	}
	w.has("sent 2")
	w.once(2)

	w.run("UPDATE notifications SET status = 'pending'")
	w.exits(76, "exit 0, and what it had left in the background had not ended", append([]string{"--timeout", "3s", "--workers", "2"}, background("sleep 600")...)...)
	w.has("unknown 2")
	w.once(2)
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A shell, and timeout(1), say by an exit code that the sending was killed: then nobody knows what it has done.
func TestDrain_KilledInside(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 4)
	w.exits(76, "3 unknown", logged(`case $CRONCE_ROW_ID in 1) sh -c 'kill -9 $$' ;; 2) timeout 0.1 sleep 600 ;; 3) timeout -s KILL 0.1 sleep 600 ;; 4) exit 200 ;; esac`)...)
	w.has("pending 1, unknown 3")
	w.once(4)
}

// Where the database goes away midway, nothing more is started, and what could not be recorded is in doubt, not sent again.
func TestDrain_DatabaseLost(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "mariadb", 20)
	proxy := testenv.NewProxy(t, w.url)
	through := *w
	through.url = proxy.URL()
	wait := `while [ ! -e "$DIR/go" ]; do sleep 0.02; done`
	s := startServer(t, through.command(append([]string{"--workers", "2", "--timeout", "2s", "--lease", "7s"}, logged(wait)...)...))
	w.awaitSends(2)
	proxy.Cut()
	write(t, w.dir+"/go", "")
	if <-s.gone; s.cmd.ProcessState.ExitCode() != 69 {
		t.Errorf("exit %d, want 69", s.cmd.ProcessState.ExitCode())
	}
	if n := len(w.sends()); n != 2 {
		t.Errorf("%d rows were sent, want 2", n)
	}
	// The next one takes over when the leases have ended.
	for until := time.Now().Add(time.Minute); w.states() != "sent 18, unknown 2" && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		w.end(append([]string{"--workers", "2", "--timeout", "2s", "--lease", "7s"}, logged("")...)...)
	}
	w.has("sent 18, unknown 2")
	w.once(20)

	gone := *w
	gone.url = proxy.URL() // which is closed
	if code, out := gone.end("--dry-run", "--", "true"); code != 69 {
		t.Errorf("exit %d, want 69:\n%s", code, out)
	}
}

// Rows that are due and that nobody can claim are an alarm, not an end.
func TestDrain_Blocked(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "mariadb", 2)
	tx, err := w.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("SELECT * FROM notifications FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	w.exits(75, "rows are pending and none can be claimed", append([]string{"--timeout", "100ms", "--lease", "6s"}, logged("")...)...)
	tx.Rollback()
	w.ok("2 sent", logged("")...)
}

// A pooler that changes connections between transactions is no hindrance.
func TestDrain_PgBouncer(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "postgres", 30)
	w.url = testenv.StartPgBouncer(t, "transaction", w.url).URL()
	first := startServer(t, w.command(append([]string{"--workers", "3", "--batch", "5"}, logged("")...)...))
	second := startServer(t, w.command(append([]string{"--workers", "3", "--batch", "5"}, logged("")...)...))
	for _, s := range []*server{first, second} {
		if <-s.gone; s.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("exit %d", s.cmd.ProcessState.ExitCode())
		}
	}
	w.has("sent 30")
	w.once(30)
}

// A run that goes on while a later one has begun, on whatever host, claims nothing more, and says so by its exit code.
func TestDrain_StaleRun(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "mariadb", 3)
	cmd := w.command(append([]string{"--follow"}, logged("")...)...)
	cmd.Args = append([]string{cmd.Args[0], "run", "--manual", "notices", "--", cmd.Args[0]}, cmd.Args[1:]...)
	s := startServer(t, cmd)
	w.awaitSends(3)
	later := w.command(logged("")...)
	later.Env = append(later.Env, "CRONCE_RUN_ID=later", "CRONCE_JOB=notices", "CRONCE_FENCE=9000000000000000000")
	if out, err := later.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.run("INSERT INTO notifications (id, recipient, status) VALUES (4, 'late@example.com', 'pending')")
	s.await(t, 0, "a later run has claimed rows")
	if <-s.gone; cmd.ProcessState.ExitCode() != 70 {
		t.Errorf("exit %d, want 70", cmd.ProcessState.ExitCode())
	}
	w.has("pending 1, sent 3")
	w.once(3)
}
