package cmd_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// Every byte goes through, to the stream it was written to.
func TestRun_StreamsAreApart(t *testing.T) {
	p := newPlace(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	input := write(t, filepath.Join(p.dir, "input"), string(bytes.Repeat(all, 1000)))
	got := p.shell(`$RUN streams -- sh -c 'tee /dev/stderr' <` + input).wait()
	if want := strings.Repeat(string(all), 1000); got.code != 0 || got.out != want || got.err != want {
		t.Errorf("exit %d, %d bytes of stdout, %d of stderr, want %d each", got.code, len(got.out), len(got.err), len(want))
	}
	if n := p.last().OutputBytes; n != 512_000 {
		t.Errorf("counted %d bytes, want 512000", n)
	}
}

// Where both streams go to one place, what is written first comes first.
func TestRun_StreamsInOrderOnOneFile(t *testing.T) {
	p := newPlace(t)
	want := ""
	for i := range 500 {
		want += fmt.Sprintf("out %d\nerr %d\n", i, i)
	}
	script := `i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done`
	p.shell(`$RUN order -- sh -c "$1" 2>&1`, script).wait().want(t, 0, want)
	p.shell(`$RUN order -- sh -c "$1" >log 2>&1; cat log`, script).wait().want(t, 0, want)
	p.shell(`$RUN order -- sh -c "$1" >log 2>>log; cat log`, script).wait().want(t, 0, want)
}

// A gigabyte of output takes no more memory than a little.
func TestRun_MuchOutput(t *testing.T) {
	p := newPlace(t)
	gate := p.gate("gate")
	r := p.start("much", "--", "sh", "-c", "echo up; read x <"+gate+"; head -c 1G /dev/zero; read x <"+gate)
	r.line()
	before := peakKiB(t, r.cmd.Process.Pid)
	p.open(gate)
	if n, err := io.CopyN(io.Discard, r.out, 1<<30); err != nil {
		t.Fatalf("%d bytes came: %v", n, err)
	}
	// The detector's shadow of the buffers counts too.
	if after := peakKiB(t, r.cmd.Process.Pid); after-before > 16<<10 {
		t.Errorf("it took %d KiB at most before, %d KiB after", before, after)
	}
	p.open(gate)
	r.wait().want(t, 0, "")
	if n := p.last().OutputBytes; n != 1<<30+3 {
		t.Errorf("counted %d bytes", n)
	}
}

// peakKiB is the most memory that a process had so far.
func peakKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no VmHWM in %s", b)
	return 0
}

// A reader that goes away neither ends the command nor costs its exit code;
// nor does one of cronce's own lines.
func TestRun_ReaderGone(t *testing.T) {
	p := newPlace(t)
	gate := p.gate("gate")
	r := p.start("reader", "--", "sh", "-c", "echo one; read x <"+gate+"; yes | head -c 200000; echo two >&2; exit 3")
	r.line()
	r.pipe.Close()
	p.open(gate)
	<-r.shut
	<-r.done
	if code := r.cmd.ProcessState.ExitCode(); code != 3 || r.said() != "two\n" {
		t.Errorf("exit %d, said %q", code, r.said())
	}
	if r := p.last(); r.Outcome != cronce.Failed || r.OutputBytes != 200_008 {
		t.Errorf("on record: %+v", r)
	}
	// Stderr is a pipe without a reader from the start.
	got := p.shell(`{ $RUN --timeout=100ms --status-file=status reader -- sleep 1000; echo $? >code; } 2>&1 | exec true; cat code status`).wait()
	if got.code != 0 || !strings.HasPrefix(got.out, "124\n{") {
		t.Errorf("%+v", got)
	}
}

// What the command printed and could not be written, as on a full disk, makes
// a success a failure: without cronce the command would have had the error.
func TestRun_OutputCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	p.shell(`$RUN full -- echo said >/dev/full`).wait().want(t, 74, "", "5 bytes of its output are lost: ", "no space left")
	if r := p.last(); r.Outcome != cronce.Failed || r.ExitCode != 74 {
		t.Errorf("on record: %+v", r)
	}
	p.shell(`$RUN full -- sh -c "echo said; exit 3" >/dev/full`).wait().want(t, 3, "", "exit 3; 5 bytes of its output are lost")
	p.shell(`$RUN full -- sh -c "echo said >&2" 2>/dev/full`).wait().want(t, 74, "")
}

// A reader that reads no more holds the run, as it would hold the command; but
// not longer than the command would be let live.
func TestRun_ReaderStuck(t *testing.T) {
	t.Parallel()
	// More than the pipes and the guard have room for.
	const script = "echo up; head -c 1000000 /dev/zero; echo never >&2"
	const fits = "echo up; head -c 100000 /dev/zero; echo done >&2" // into the two pipes, or nearly
	for _, c := range []struct {
		name, script string
		flags        []string
		signal       syscall.Signal
		code         int
		outcome      cronce.Outcome
	}{
		{"timeout, the command blocked", script, []string{"--timeout=200ms"}, 0, 124, cronce.TimedOut},
		{"timeout, the command ended", fits, []string{"--timeout=1s"}, 0, 124, cronce.TimedOut},
		{"signal, the command ended", fits, nil, syscall.SIGTERM, 143, cronce.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			r := p.start(append(append([]string{"--grace=100ms"}, c.flags...), "stuck", "--", "sh", "-c", c.script)...)
			if c.signal != 0 {
				r.await("done")
				r.signal(c.signal)
			}
			<-r.done
			if code := r.cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d, want %d: %s", code, c.code, r.said())
			}
			if last := p.last(); last.Outcome != c.outcome || !strings.HasSuffix(last.Message, ": nobody reads its output") {
				t.Errorf("on record: %+v", last.Result)
			}
		})
	}
}

// terminal runs a cronce run on a terminal of its own, with script(1); what is
// typed there comes from a pipe.
func (p *place) terminal(args ...string) (r *cronceRun, keyboard *os.File) {
	p.t.Helper()
	keys, keyboard := pipe(p.t)
	line := "exec " + filepath.Join(bin, "cronce") + " run" // a shell that stayed would die of what is typed
	for _, a := range args {
		line += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	cmd := exec.Command("script", "-qec", line, "/dev/null")
	cmd.Stdin = keys
	r = p.startCommand(cmd)
	keys.Close()
	p.t.Cleanup(func() { keyboard.Close() })
	return r, keyboard
}

// At a terminal --dry-run says what the line would do there, and what it would
// under cron, which has another PATH and other ticks.
func TestRun_DryRunOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	said := func(args ...string) string {
		r, _ := p.terminal(append([]string{"--dry-run", "--schedule=0 0 1 1 *", "yearly", "--"}, args...)...)
		return strings.ReplaceAll(r.wait().out, "\r", "")
	}
	got := said("/bin/sh", "-c", "true")
	for _, want := range []string{"a run by hand: typed at a terminal\n", "\nwould run: /bin/sh -c true\n", "\nunder cron, started now: tick 20"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if day := time.Now().UTC(); day.YearDay() > 1 && !strings.Contains(got, "-01-01T00:00:00Z: would skip: late, the tick was ") {
		t.Errorf("nothing of a late start:\n%s", got)
	}
	if got := said("/nope/report"); !strings.Contains(got, "\nwould run and fail: not found: /nope/report\n") {
		t.Errorf("nothing of a missing command:\n%s", got)
	}
	if got := said("no-such-report"); !strings.Contains(got, "\nunder cron: no-such-report is not in its PATH, /usr/bin:/bin: name it by its whole path\n") {
		t.Errorf("nothing of cron's PATH:\n%s", got)
	}
}

// A terminal stays one, and the command is in the group that it talks to.
func TestRun_OnATerminal(t *testing.T) {
	t.Parallel()
	group := `perl -e 'open S, "/proc/$_/stat" and print((split / /, <S>)[4], " ") for @ARGV' $$ $PPID`
	for _, orphans := range []string{"wait", "leave"} {
		t.Run("orphans="+orphans, func(t *testing.T) {
			p := newPlace(t)
			r, keyboard := p.terminal("--orphans="+orphans, "tty", "--", "sh", "-c",
				`test -t 0 && test -t 1 && test -t 2 && echo a terminal; `+group+`; echo; read line; echo "read $line"; exit 3`)
			if got := r.line(); got != "a terminal" {
				t.Errorf("no terminal: %q", got)
			}
			if f := strings.Fields(r.line()); len(f) != 2 || f[0] != f[1] {
				t.Errorf("groups of the command and of cronce: %v", f)
			}
			// A command outside the group would be stopped when it reads.
			fmt.Fprintln(keyboard, "typed")
			for got := ""; got != "read typed"; {
				got = r.line()
			}
			if got := r.wait(); got.code != 3 {
				t.Errorf("exit %d: %q", got.code, got.out)
			}
			if r := p.last(); r.OutputBytes != 0 || r.ExitCode != 3 || !r.Tick.IsZero() {
				t.Errorf("on record: %+v", r)
			}
		})
	}
}

// Ctrl-C reaches the command once, from the terminal; from cronce it would
// come a second time. A signal that only cronce gets is still passed on.
func TestRun_CtrlC(t *testing.T) {
	t.Parallel()
	counts := `$| = 1; $SIG{INT} = sub { $n++; print "got $n\n" }; $SIG{TERM} = sub { print "counted $n\n"; exit 4 };
		print getppid, "\n"; sleep 1000 while 1`
	t.Run("once", func(t *testing.T) {
		p := newPlace(t)
		r, keyboard := p.terminal("tty", "--", "perl", "-e", counts)
		guard := r.pid()
		keyboard.WriteString("\x03")
		for got := ""; got != "got 1"; got = strings.TrimPrefix(r.line(), "^C") {
		}
		// What cronce passes on it does in order: a second INT would come first.
		if err := syscall.Kill(guard, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		got := r.wait()
		if got.code != 4 || !strings.Contains(got.out, "counted 1\r\n") {
			t.Errorf("exit %d: %q", got.code, got.out)
		}
	})
	t.Run("ends it", func(t *testing.T) {
		p := newPlace(t)
		r, keyboard := p.terminal("tty", "--", "sh", "-c", "echo up; exec sleep 1000")
		r.line()
		keyboard.WriteString("\x03")
		if got := r.wait(); got.code != 130 {
			t.Errorf("exit %d: %q", got.code, got.out)
		}
		if r := p.last(); r.Outcome != cronce.Cancelled || r.Signal != "SIGINT" || r.Message != "got SIGINT" {
			t.Errorf("on record: %+v", r)
		}
	})
	t.Run("while it waits", func(t *testing.T) {
		p := newPlace(t)
		gate := p.gate("gate")
		holder := p.start("tty", "--", "sh", "-c", "echo up; read x <"+gate)
		holder.line()
		r, keyboard := p.terminal("--overlap=wait=1h", "tty", "--", "echo", "ran")
		if got := r.line(); !strings.Contains(got, "waits up to 1h0m0s: ") || !strings.Contains(got, fmt.Sprint("pid ", holder.cmd.Process.Pid)) {
			t.Errorf("it says %q", got)
		}
		keyboard.WriteString("\x03")
		if got := r.wait(); got.code != 130 || !strings.Contains(got.out, "got SIGINT while it waited: not run") {
			t.Errorf("exit %d: %q", got.code, got.out)
		}
		p.open(gate)
		holder.wait().want(t, 0, "")
		if runs := runsOf(t, p.store); len(runs) != 1 {
			t.Errorf("on record: %+v", runs)
		}
	})
}

// A line from a crontab that is typed at a terminal is a run by hand and says
// so; there a skip is a failure, and taken is no secret.
func TestRun_TypedAtATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	type typed struct {
		args []string
		code int
		says string
		tick string
	}
	const at = "2026-01-01T00:00:00Z"
	flags := []string{"--schedule=* * * * *", "--start-deadline=1000000h"}
	for _, c := range []typed{
		{nil, 0, "so this is a run by hand", "-"},
		{[]string{"--manual"}, 0, "", "-"},
		{[]string{"--tick=" + at}, 0, "", at},
		{[]string{"--tick=" + at}, 0, "tick " + at + " is taken by run ", at},
	} {
		r, _ := p.terminal(append(append(append([]string{}, flags...), c.args...), "typed", "--", "true")...)
		got := r.wait()
		if got.code != c.code || !strings.Contains(got.out, c.says) || c.says == "" && got.out != "" {
			t.Errorf("%v: exit %d, %q", c.args, got.code, got.out)
		}
		if tick := cronce.Stamp(p.last().Tick); tick != c.tick {
			t.Errorf("%v: tick %s, want %s", c.args, tick, c.tick)
		}
	}
	gate := p.gate("gate")
	holder := p.start("typed", "--", "sh", "-c", "echo up; read x <"+gate)
	holder.line()
	r, _ := p.terminal(append(flags, "typed", "--", "true")...)
	if got := r.wait(); got.code != 75 || !strings.Contains(got.out, "a run by hand is skipped: overlap: run ") {
		t.Errorf("exit %d: %q", got.code, got.out)
	}
	p.open(gate)
	holder.wait().want(t, 0, "")
}
