package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/store/localstore"
)

// The command's exit code is the run's, as it is in a shell; the record says more.
func TestRun_ExitCodes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	write(t, filepath.Join(p.dir, "text"), "text")
	for name, text := range map[string]string{"plain": "echo \"$0 $1\"\n", "strange": "#!/no/such/interpreter\n", "binary": "\x7fELF\x00\x00\x00 of some other machine"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	type row struct {
		name    string
		command []string
		code    int
		out     string
		says    string // on stderr
		want    cronce.Result
	}
	rows := []row{
		{"success", []string{"true"}, 0, "", "", cronce.Result{Outcome: "succeeded"}},
		{"failure", []string{"sh", "-c", "echo said; exit 3"}, 3, "said\n", "", cronce.Result{Outcome: "failed", Message: "exit 3"}},
		{"own 75", []string{"sh", "-c", "exit 75"}, 75, "", "", cronce.Result{Outcome: "failed", Message: "exit 75"}},
		{"own 127", []string{"sh", "-c", "exit 127"}, 127, "", "", cronce.Result{Outcome: "failed", Message: "exit 127"}},
		{"not there", []string{"no-such-command"}, 127, "", "cannot start no-such-command: ", cronce.Result{Outcome: "failed"}},
		{"no such file", []string{"./none"}, 127, "", "cannot start ./none: no such file", cronce.Result{Outcome: "failed"}},
		{"not executable", []string{"./text"}, 126, "", "cannot start ./text: permission denied", cronce.Result{Outcome: "failed"}},
		{"a folder", []string{"/"}, 126, "", "cannot start /: permission denied", cronce.Result{Outcome: "failed"}},
		{"script without #!", []string{"./plain", "arg"}, 0, "./plain arg\n", "", cronce.Result{Outcome: "succeeded"}},
		{"no interpreter", []string{"./strange"}, 127, "", "cannot start ./strange: the interpreter that it names is not there", cronce.Result{Outcome: "failed"}},
		{"for another machine", []string{"./binary"}, 126, "", "cannot start ./binary: exec format error", cronce.Result{Outcome: "failed"}},
	}
	for _, sig := range []syscall.Signal{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31, 34, 64} {
		rows = append(rows, row{fmt.Sprintf("signal %d", sig), []string{"sh", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)}, 128 + int(sig), "",
			"ended by " + guard.SignalName(sig), cronce.Result{Outcome: "failed", Signal: guard.SignalName(sig)}})
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			got := p.run(append([]string{"codes", "--"}, c.command...)...)
			if c.says == "" {
				got.want(t, c.code, c.out)
			} else {
				got.want(t, c.code, c.out, c.says)
				got.oneLine(t)
			}
		})
	}
	runs := runsOf(t, p.store)
	if len(runs) != len(rows) {
		t.Fatalf("%d runs on record, want %d", len(runs), len(rows))
	}
	for i, r := range runs {
		c := rows[i]
		if r.Outcome != c.want.Outcome || r.ExitCode != c.code || r.Signal != c.want.Signal || c.want.Message != "" && r.Message != c.want.Message {
			t.Errorf("%s: on record: %+v", c.name, r.Result)
		}
	}
}

// A signal to cronce run goes to the command. How that ends it is its own
// affair, and no failure.
func TestRun_SignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		for _, c := range []struct {
			name, perl string
			code       int
			outcome    cronce.Outcome
		}{
			{"dies", `sleep`, 128 + int(sig), cronce.Cancelled},
			{"obeys", `$SIG{$_} = sub { exit 9 } for qw(TERM INT HUP QUIT); print "up\n"; sleep`, 9, cronce.Cancelled},
			{"ends well", `$SIG{$_} = sub { exit 0 } for qw(TERM INT HUP QUIT); print "up\n"; sleep`, 0, cronce.Succeeded},
		} {
			t.Run(guard.SignalName(sig)+" "+c.name, func(t *testing.T) {
				p := newPlace(t)
				r := p.start("signals", "--", "perl", "-e", `$| = 1; print "up\n"; `+c.perl)
				r.line()
				if c.name != "dies" {
					r.line()
				}
				r.signal(sig)
				r.wait().want(t, c.code, "")
				if last := p.last(); last.Outcome != c.outcome || c.outcome == cronce.Cancelled && last.Message != "got "+guard.SignalName(sig) {
					t.Errorf("on record: %+v", last.Result)
				}
			})
		}
	}
}

// At the timeout: TERM, after the grace KILL, and exit 124 either way.
func TestRun_Timeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, signal string }{
		{"obeys", `exec sleep 1000`, "SIGTERM"},
		{"ignores TERM", `trap "" TERM; while :; do sleep 0.01; done`, "SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			got := p.run("--timeout=200ms", "--grace=100ms", "slow", "--", "sh", "-c", c.script)
			got.want(t, 124, "", "cronce: slow: run ", "longer than its timeout of 200ms")
			got.oneLine(t)
			if r := p.last(); r.Outcome != cronce.TimedOut || r.Signal != c.signal {
				t.Errorf("on record: %+v", r.Result)
			}
		})
	}
}

// A run that failed is tried again as one run: same tick, same fence.
func TestRun_Retries(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	got := p.run(tick(0), "--retries=3", "--retry-delay=1ms", "again", "--",
		"sh", "-c", `echo "$CRONCE_ATTEMPT $CRONCE_RUN_ID $CRONCE_FENCE $CRONCE_TICK"; [ $CRONCE_ATTEMPT = 3 ]`)
	r := p.last()
	want := ""
	for n := 1; n <= 3; n++ {
		want += fmt.Sprintf("%d %s %d 2026-01-01T00:00:00Z\n", n, r.ID, r.Fence)
	}
	got.want(t, 0, want, "attempt 1 of 4 failed (exit 1)", "attempt 2 of 4 failed (exit 1)")
	if r.Outcome != cronce.Succeeded || r.Attempts != 3 || len(runsOf(t, p.store)) != 1 {
		t.Errorf("on record: %+v", runsOf(t, p.store))
	}

	t.Run("in vain", func(t *testing.T) {
		p := newPlace(t)
		p.run("--retries=2", "--retry-delay=1ms", "again", "--", "sh", "-c", "exit $CRONCE_ATTEMPT").want(t, 3, "", "attempt 2 of 3")
		if r := p.last(); r.Outcome != cronce.Failed || r.Attempts != 3 {
			t.Errorf("on record: %+v", r)
		}
	})
	t.Run("all of them are on record", func(t *testing.T) {
		p := newPlace(t)
		p.run("--retries=2", "--retry-delay=1ms", "again", "--", "sh", "-c", "printf 'try %d' $CRONCE_ATTEMPT; exit $((4 + CRONCE_ATTEMPT))")
		r := p.last()
		const output = "try 1\ncronce: attempt 1 of 3 failed (exit 5)\ntry 2\ncronce: attempt 2 of 3 failed (exit 6)\ntry 3"
		if r.OutputBytes != int64(len(output)) {
			t.Errorf("%d bytes are on record, want %d", r.OutputBytes, len(output))
		}
		one := p.cronce("runs", "--id", r.ID)
		one.want(t, 0, one.out)
		for _, want := range []string{"\nattempts  3\n", "exit 7 after 3 attempts\n", fmt.Sprintf(" %d bytes\n", len(output)), "\n\n" + output + "\n"} {
			if !strings.Contains(one.out, want) {
				t.Errorf("%q is not in\n%s", want, one.out)
			}
		}
		if begin := p.cronce("runs", "--id", r.ID[:13]); begin != one {
			t.Errorf("the beginning of its id: %+v", begin)
		}
		p.run("other", "--", "true")
		p.cronce("runs", "--id", r.ID[:2]).want(t, 64, "", "2 runs have an id that begins so", r.ID)
		p.cronce("runs", "--id", "ffff").want(t, 1, "", `there is no run "ffff"`)
		if list := p.cronce("runs", "again"); !strings.HasSuffix(list.out, "  exit 7 after 3 attempts\n") {
			t.Errorf("%s", list.out)
		}
	})
	t.Run("the last one cannot be started", func(t *testing.T) {
		p := newPlace(t)
		script := filepath.Join(t.TempDir(), "once")
		if err := os.WriteFile(script, []byte("#!/bin/sh\necho once; rm $0; exit 3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		p.run("--retries=1", "--retry-delay=1ms", "again", "--", script).want(t, 127, "once\n", "cannot start "+script)
		if out := p.cronce("runs", "--id", p.last().ID); !strings.HasSuffix(out.out, "\nonce\ncronce: attempt 1 of 2 failed (exit 3)\n") {
			t.Errorf("%s", out.out)
		}
	})
	t.Run("signal during the delay", func(t *testing.T) {
		p := newPlace(t)
		r := p.start("--retries=1", "--retry-delay=1h", "again", "--", "false")
		r.await("the next one is in 1h0m0s")
		r.signal(syscall.SIGTERM)
		r.wait().want(t, 143, "", "attempt 1 of 2")
		if r := p.last(); r.Outcome != cronce.Cancelled || r.Message != "got SIGTERM" {
			t.Errorf("on record: %+v", r.Result)
		}
	})
	t.Run("one timeout for all", func(t *testing.T) {
		p := newPlace(t)
		p.run("--retries=1", "--retry-delay=1h", "--timeout=30m", "again", "--", "false").
			want(t, 1, "", "exit 1; no time is left for another attempt within its timeout of 30m0s")
		p.run("--retries=1", "--retry-delay=1ms", "--timeout=5s", "again", "--", "sh", "-c", "[ $CRONCE_ATTEMPT = 2 ] || exit 1; exec sleep 1000").
			want(t, 124, "", "longer than its timeout of 5s")
	})
	t.Run("left-overs of an attempt do not end the run", func(t *testing.T) {
		p := newPlace(t)
		up, left, main := p.gate("up"), p.gate("left"), p.gate("main")
		r := p.start(tick(0), "--retries=1", "--retry-delay=1ms", "again", "--", "sh", "-c",
			"if [ $CRONCE_ATTEMPT = 1 ]; then echo $$; (read x <"+left+") & exit 1; fi; echo up >"+up+"; read x <"+main)
		awaitCollected(t, r.pid())
		p.open(left)
		r.hear(up)
		// The second attempt is work, not what was left behind.
		p.run(tick(1), "again", "--", "false").want(t, 0, "", "overlap: run "+runsOf(t, p.store)[0].ID)
		p.open(main)
		r.wait().want(t, 0, "", "attempt 1 of 2")
	})
}

// It says once, while it runs, that it goes on for long.
func TestRun_WarnAt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	gate := p.gate("gate")
	r := p.start("--warn-at=50ms", "--retries=1", "--retry-delay=1ms", "long", "--", "sh", "-c", "read x <"+gate+"; exit 1")
	r.await("cronce: long: it has been running for 50ms")
	p.open(gate)
	r.await("attempt 1 of 2")
	p.open(gate)
	got := r.wait()
	if n := strings.Count(got.err, "it has been running"); n != 1 || got.code != 1 {
		t.Errorf("exit %d, said %d times: %q", got.code, n, got.err)
	}
}

// The command is told of its run, and nothing of a run around it.
func TestRun_Environment(t *testing.T) {
	p := newPlace(t)
	show := `env | grep ^CRONCE_ | grep -v ^CRONCE_STORE | sort`
	told := func(e ended) map[string]string {
		m := map[string]string{}
		for line := range strings.Lines(e.out) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			m[strings.TrimPrefix(k, "CRONCE_")] = v
		}
		return m
	}
	first := told(p.run(tick(0), "--timeout=1h", "env", "--", "sh", "-c", show))
	r := p.last()
	want := map[string]string{"JOB": "env", "RUN_ID": r.ID, "TICK": "2026-01-01T00:00:00Z", "FENCE": strconv.FormatInt(r.Fence, 10),
		"ATTEMPT": "1", "DEADLINE": cronce.Stamp(r.Start.Add(time.Hour))}
	if at, err := time.Parse(time.RFC3339, first["DEADLINE"]); err != nil || at.Sub(r.Start.Add(time.Hour)).Abs() > time.Minute {
		t.Errorf("the deadline is %q for a start at %s", first["DEADLINE"], r.Start)
	}
	want["DEADLINE"] = first["DEADLINE"]
	if fmt.Sprint(first) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", first, want)
	}
	// Within a run, and with perl, which sees a variable as the kernel gave it.
	inner := told(p.run(tick(1), "--timeout=1h", "env", "--", "sh", "-c",
		`$RUN inner -- perl -e 'open E, "/proc/self/environ"; $_ = join "", <E>; print map {"$_\n"} grep /^CRONCE_(?!STORE)/, split /\0/'`))
	r = runsOf(t, p.store)[2]
	want = map[string]string{"JOB": "inner", "RUN_ID": r.ID, "FENCE": strconv.FormatInt(r.Fence, 10), "ATTEMPT": "1"}
	if fmt.Sprint(inner) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", inner, want)
	}
	third := told(p.run(tick(2), "env", "--", "sh", "-c", show))
	if third["PREVIOUS_SUCCESS"] != "2026-01-01T00:01:00Z" {
		t.Errorf("previous success: %v", third)
	}
	f1, _ := strconv.ParseInt(first["FENCE"], 10, 64)
	f3, _ := strconv.ParseInt(third["FENCE"], 10, 64)
	if f3 <= f1 || f1 == 0 {
		t.Errorf("fences do not grow: %d, %d", f1, f3)
	}
}

// What a process inherits reaches the command as it would without cronce.
func TestRun_WhatIsInherited(t *testing.T) {
	p := newPlace(t)
	show := `grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status; umask; nice; ulimit -a; pwd; cat`
	for _, c := range []struct{ name, before string }{
		{"as it is", ``},
		{"under nohup", `exec nohup`},
		{"ignored INT", `trap "" INT; exec`},
		{"blocked", `exec perl -e 'use POSIX qw(:signal_h); sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1, SIGUSR2)); exec @ARGV'`},
		{"umask, nice, folder", `umask 027; cd /; exec nice -n 5`},
		{"no PATH", `exec env -u PATH`},
		{"few files", `ulimit -n 32; exec`},
		{"few files, hard limit kept", `ulimit -S -n 100; exec`},
		{"no core, small stack", `ulimit -c 0; ulimit -s 1024; exec`},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := c.before + ` "$@" <` + write(t, filepath.Join(p.dir, "input"), "the input") + " 2>&1"
			without := p.shell(script, "sh", "-c", show).wait()
			with := p.shell(script, append(strings.Fields(filepath.Join(bin, "cronce")+" run inherits --"), "sh", "-c", show)...).wait()
			if without.code != 0 || !strings.Contains(without.out, "the input") {
				t.Fatalf("nothing to compare with: %+v", without)
			}
			with.want(t, 0, without.out)
		})
	}
}

// The status file tells what was decided, and can do no harm to the run.
func TestRun_StatusFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	status := filepath.Join(p.dir, "status.json")
	content := func() string {
		t.Helper()
		b, err := os.ReadFile(status)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	has := func(words ...string) {
		t.Helper()
		if s := content(); !hasAll(s, words) || strings.Count(s, "\n") != 1 {
			t.Errorf("status is %s, want %q in it", s, words)
		}
	}
	p.run(tick(0), "--status-file", status, "told", "--", "sh", "-c", "exit 3").want(t, 3, "")
	has(`"job":"told"`, `"decision":"run"`, `"outcome":"failed"`, `"exit":3`, `"tick":"2026-01-01T00:00:00Z"`, p.last().ID)
	p.run(tick(0), "--status-file", status, "told", "--", "true").want(t, 75, "")
	has(`"decision":"taken"`, `"outcome":"failed"`, `"exit":75`, p.last().ID)
	gate := p.gate("gate")
	r := p.start(tick(1), "told", "--", "sh", "-c", "echo up; read x <"+gate)
	r.line()
	p.run(tick(2), "--status-file", status, "told", "--", "true").want(t, 0, "", "skipped")
	has(`"decision":"skip"`, `"skip":"overlap"`, `"held":"`+runsOf(t, p.store)[1].ID, `"exit":0`)
	p.run(tick(1), "--status-file", status, "told", "--", "true").want(t, 0, "")
	has(`"decision":"taken"`, `"exit":0`)
	p.open(gate)
	r.wait().want(t, 0, "")
	p.run("--tick=2199-01-01T00:00:00Z", "--status-file", status, "told", "--", "true").want(t, 78, "", "ahead of the store's clock")
	has(`"decision":"none"`, `"error":"job`, `"exit":78`)

	t.Run("unwritable", func(t *testing.T) {
		for _, path := range []string{"/no/such/folder/status", p.dir, "/dev/full", gate} {
			p.run("--status-file", path, "told", "--", "sh", "-c", "exit 3").want(t, 3, "", "cronce: told: --status-file "+path+": ")
		}
	})
	t.Run("no regular file", func(t *testing.T) {
		got := p.run("--status-file", "/dev/stdout", "told", "--", "echo", "said")
		if !strings.HasPrefix(got.out, "said\n"+`{"job":"told","decision":"run","run":{"id":"`+p.last().ID) || got.code != 0 || got.err != "" {
			t.Errorf("%+v", got)
		}
		link := filepath.Join(p.dir, "link")
		if err := os.Symlink(status, link); err != nil {
			t.Fatal(err)
		}
		p.run("--status-file", link, "linked", "--", "true").want(t, 0, "")
		has(`"job":"linked"`)
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link was replaced: %v, %v", info, err)
		}
		if info, err := os.Lstat("/dev/stdout"); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("/dev/stdout was replaced: %v, %v", info, err)
		}
	})
	t.Run("full disk", func(t *testing.T) {
		before := content()
		unshare := "unshare -m"
		if os.Getuid() != 0 {
			unshare = "unshare -r -m"
		}
		got := p.shell(unshare + ` sh -c '
			mkdir disk && mount -t tmpfs -o size=64k none disk && cp status.json disk/ && cat /dev/zero >disk/fill 2>/dev/null
			$RUN --status-file disk/status.json told -- sh -c "exit 3"; code=$?
			cat disk/status.json; ls -A disk; exit $code'`).wait()
		got.want(t, 3, before+"fill\nstatus.json\n", "--status-file disk/status.json: ", "no space left")
	})
	// No pieces are left lying about.
	names, err := filepath.Glob(filepath.Join(p.dir, ".*"))
	if err != nil || len(names) > 0 {
		t.Errorf("left over: %v, %v", names, err)
	}
}

// A lease that is taken away ends the run, with a code of its own.
func TestRun_LeaseTakenAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start("--retries=5", "--retry-delay=1ms", "revoked", "--", "sh", "-c", "echo up; exec sleep 1000")
	r.line()
	store, err := localstore.Open(localstore.Options{Dir: p.store})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Request(t.Context(), cronce.Request{Kind: cronce.Revoke, Job: "revoked"}); err != nil {
		t.Fatal(err)
	}
	r.wait().want(t, 70, "", "as its lease was taken away")
	if r := p.last(); r.Outcome != cronce.Cancelled && r.Outcome != cronce.Lost {
		t.Errorf("on record: %+v", r)
	}
}
