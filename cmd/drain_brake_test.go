package cmd_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// An API that takes nothing from anybody stops the drain after a few rows: the others wait, and keep their attempts.
func TestDrain_Brake(t *testing.T) {
	engines(t, 60, func(t *testing.T, w *drained) {
		gone := newOutside(t, func(string, http.ResponseWriter, *http.Request) {})
		gone.Close()
		out := w.exits(1, "10 rows one after the other came to the same end, the last to not sent: dial tcp", "--workers", "3", "--post", gone.URL)
		if !strings.Contains(out, "no more are started, and these keep their attempts") || !strings.Contains(out, "given back") {
			t.Errorf("it says:\n%s", out)
		}
		w.has("pending 60")
		if got := w.text("SELECT COUNT(*) FROM notifications WHERE cronce_attempts > 0"); got != "0" {
			t.Errorf("%s rows have used up an attempt, and nothing was sent", got)
		}
		tries := func() int { return strings.Count(out, "a row was not sent") }
		if n := tries(); n < 10 || n > 12 {
			t.Errorf("%d rows were tried, want 10, and what others were at", n)
		}
		var status atomic.Int64
		s := newOutside(t, func(_ string, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
		w.run("UPDATE notifications SET cronce_next_attempt_at = NULL")
		for _, c := range []struct {
			status         int64
			code           int
			states, column string
		}{
			{401, 1, "pending 60", "0"}, // not let in: no attempt
			{503, 1, "pending 60", "1"},
			{504, 76, "pending 50, unknown 10", "1"},
			{404, 1, "failed 10, pending 40, unknown 10", "1"},
		} {
			status.Store(c.status)
			out = w.exits(c.code, "10 rows one after the other", "--post", s.URL)
			w.has(c.states)
			if got := w.text("SELECT MAX(cronce_attempts) FROM notifications"); got != c.column {
				t.Errorf("after %d a row has %s attempts, want %s", c.status, got, c.column)
			}
			w.run("UPDATE notifications SET cronce_next_attempt_at = NULL, cronce_attempts = CASE status WHEN 'pending' THEN 0 ELSE cronce_attempts END")
		}
		// What is of the row alone stops nothing.
		status.Store(422)
		w.exits(65, "40 failed", "--post", s.URL)
		w.has("failed 50, unknown 10")
	})
}

// A command that cannot do its work for any row, and one that hangs for every one, are no different.
func TestDrain_BrakeOfCommands(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 30)
	w.exits(1, "the last to exit 127", logged("no-such-command-anywhere")...)
	w.has("pending 30")
	w.once(10)
	w.exits(76, "the last to the handler's time-out has passed", append([]string{"--timeout", "50ms", "--workers", "5"}, logged("sleep 600")...)...)
	if n := w.text("SELECT COUNT(*) FROM notifications WHERE status = 'unknown'"); n < "10" || n > "14" {
		t.Errorf("%s rows are unknown, want 10, and what others were at", n)
	}
}

// With --follow the brake is a rest: when the API is there again, all is sent.
func TestDrain_BrakeOfFollow(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 20)
	status := make(chan int, 100)
	for range 10 {
		status <- 401
	}
	close(status)
	s := newOutside(t, func(_ string, w http.ResponseWriter, _ *http.Request) {
		if n, ok := <-status; ok {
			w.WriteHeader(n)
		}
	})
	d := startServer(t, w.command("--follow", "--backoff", "100ms", "--post", s.URL))
	d.await(t, 0, "10 rows one after the other", "the next look is in 1s")
	for w.states() != "sent 20" {
		d.await(t, 0, "the next look is in")
	}
	if code := d.stop(15); code != 0 {
		t.Errorf("exit %d after TERM", code)
	}
}

// A row that a person gives to others while it is worked on may be sent twice: the drain that had it says so by its exit code.
func TestDrain_Overtaken(t *testing.T) {
	engines(t, 2, func(t *testing.T, w *drained) {
		wait := `while [ ! -e "$DIR/go" ]; do sleep 0.02; done`
		s := startServer(t, w.command(append([]string{"--workers", "2", "--where", "note IS NULL"}, logged(wait)...)...))
		w.awaitSends(2)
		w.run("UPDATE notifications SET status = 'pending', note = 'not for the first one' WHERE id = 1")
		w.ok("1 sent", "--", "true")
		write(t, w.dir+"/go", "")
		s.await(t, 0, "others may do its work once more (row 1, result sent)")
		s.await(t, 0, "1 sent, 1 lost to others")
		s.await(t, 0, "the claim of 1 row ended during the work")
		if <-s.gone; s.cmd.ProcessState.ExitCode() != 76 {
			t.Errorf("exit %d, want 76", s.cmd.ProcessState.ExitCode())
		}
		w.has("sent 2")
	})
}

// Who looks at night is told what rows wait for, by a drain that does nothing, a dry run and the report.
func TestDrain_Reasons(t *testing.T) {
	engines(t, 9, func(t *testing.T, w *drained) {
		future, past := "'2099-01-02 03:04:05'", "'2020-01-01 00:00:00'"
		w.run("UPDATE notifications SET cronce_next_attempt_at = " + future + ", cronce_last_error = 'it was shut' WHERE id < 4")
		w.run("UPDATE notifications SET status = 'sending', cronce_lease_until = " + future + " WHERE id IN (4, 5)")
		w.run("UPDATE notifications SET status = 'sent' WHERE id = 6")
		later, held := "3 rows to be tried again at 2099-01-02T03:04:05Z; the first because of: it was shut\n", "2 rows claimed by others until 2099-01-02T03:04:05Z"
		w.run("UPDATE notifications SET status = 'sent' WHERE id > 6")
		for _, args := range [][]string{{"--", "true"}, {"--dry-run"}, {"report"}} {
			out := w.ok("", args...)
			if !strings.Contains(out, later) || !strings.Contains(out, held) {
				t.Errorf("%q says:\n%s", args, out)
			}
		}
		w.run("UPDATE notifications SET status = 'sending', cronce_lease_until = " + past + " WHERE id > 6")
		w.run("UPDATE notifications SET cronce_started_at = " + past + ", cronce_attempts = 1 WHERE id = 9")
		over, doubt := "2 rows claimed by workers that died: the next drain does them\n", "1 row in doubt: started by workers that died"
		if out := w.exits(76, over, "report"); !strings.Contains(out, doubt) || strings.Contains(out, "no row is in doubt") {
			t.Errorf("the report:\n%s", out)
		}
		if out := w.ok("the work would be done: for 2 rows; nothing was changed", "--dry-run"); !strings.Contains(out, over) || !strings.Contains(out, doubt) {
			t.Errorf("the dry run:\n%s", out)
		}
		out := w.exits(76, "2 sent, 1 unknown, 2 taken back from workers that died in ", "--", "true")
		if !strings.Contains(out, "; 3 pending, from 2099-01-02T03:04:05Z on; 2 claimed by others until 2099-01-02T03:04:05Z\n") {
			t.Errorf("the drain:\n%s", out)
		}
		hint := "'cronce drain report --table notifications --key id --state status'"
		if !strings.Contains(out, hint) {
			t.Errorf("the drain says no command to type:\n%s", out)
		}
		// A person has asked, and it did arrive: nothing is left to look at.
		w.exits(76, "9   unknown", "report")
		w.run("UPDATE notifications SET status = 'sent' WHERE id = 9 AND status = 'unknown'")
		w.ok("no row is in doubt", "report")
		// It was sent once more by --idempotent: perhaps twice, until a person says that it is settled.
		w.run("UPDATE notifications SET cronce_attempts = 2 WHERE id = 9")
		w.exits(76, "1 attempt ended with the process: perhaps sent more than once", "report")
		w.run("UPDATE notifications SET cronce_crashes = 0 WHERE id = 9")
		w.ok("no row is in doubt", "report")
	})
}

// A process that never flushes what it prints is told to, and nobody is said to have sent a signal.
func TestDrain_LinesUnflushed(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 2)
	out := w.exits(76, "nobody knows whether a row was sent (row 1, state unknown, attempt 1): the handler's time-out has passed, without an answer; it never answered: it must flush its output after each line",
		"--lines", "--timeout", "1s", "--workers", "2", "--", "sed", `s/.*"key":"\([^"]*\)".*/{"key":"\1","result":"sent"}/`)
	w.has("unknown 2")
	if strings.Contains(out, "signal") || strings.Contains(out, "context canceled") {
		t.Errorf("nobody has sent a signal, and it says:\n%s", out)
	}
	if !strings.Contains(out, "ended, as it did not answer for notifications/") {
		t.Errorf("it does not say how the process ended:\n%s", out)
	}
}

// The report says why it names no run, and a store that is named must be there.
func TestDrain_ReportWithoutRun(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	cmd := w.command(logged(`exit 76`)...)
	cmd.Args = append([]string{cmd.Args[0], "run", "--manual", "night", "--", cmd.Args[0]}, cmd.Args[1:]...)
	cmd.Run()
	w.has("unknown 1")
	w.exits(76, "the store has no run of job notifications with that fence: --job NAME and --store PLACE", "report")
	if out := w.exits(76, "", "report", "--job", "night"); strings.Contains(out, "Where RUN is -") {
		t.Errorf("the report of the job:\n%s", out)
	}
	w.exits(66, "/nowhere", "report", "--store", "/nowhere")
}

// Errors about the description name flags.
func TestDrain_NamesFlags(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	w.exits(78, "is it --where?", "--where", "nonsense ==", "--", "true")
	if out := w.plain(64, "drain", "--table", "notifications", "--key", "id", "--", "true"); !strings.Contains(out, "needs --side") {
		t.Errorf("without --state it says:\n%s", out)
	}
}

// The first of an answer is kept with its row, not the last: a page of HTML ends with nothing.
func TestDrain_PostHTML(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	s := newOutside(t, func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(422)
		fmt.Fprintf(w, "<html>\n<title>No such\n mailbox</title>\n%s</html>\n", strings.Repeat("é", 500))
	})
	w.exits(65, "1 row failed for good", "--post", s.URL)
	got := w.text("SELECT cronce_last_error FROM notifications")
	if want := "HTTP 422 Unprocessable Entity: <html> <title>No such mailbox</title> éé"; !strings.HasPrefix(got, want) || len(got) > 250 {
		t.Errorf("on record is %q", got)
	}
}

// On a terminal the bar is not drawn over what a command prints, also where that has no end of line.
func TestDrain_BarBesideOutput(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	cmd := w.command("--progress", "bar", "--", "printf", "the end")
	words := make([]string, len(cmd.Args))
	for i, a := range cmd.Args {
		words[i] = "'" + a + "'"
	}
	cmd.Args = []string{"script", "-qec", strings.Join(words, " "), "/dev/null"}
	var err error
	if cmd.Path, err = exec.LookPath("script"); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the end\r\n") {
		t.Errorf("%v\n%q", err, out)
	}
	w.has("sent 1")
}
