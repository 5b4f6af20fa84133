package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// hold starts a run of the job for the tick that goes on until its gate is
// opened, and returns when it does.
func (p *place) hold(minute int, job string, flags ...string) (r *cronceRun, gate string) {
	p.t.Helper()
	gate = p.gate(fmt.Sprintf("gate-%s-%d", job, minute))
	r = p.start(append(append([]string{tick(minute)}, flags...), job, "--", "sh", "-c", "echo up; read x <"+gate)...)
	r.line()
	return r, gate
}

// decided is what became of each tick, oldest first, in a word.
func (p *place) decided() string {
	p.t.Helper()
	var words []string
	for _, r := range runsOf(p.t, p.store) {
		word := string(r.Skip)
		switch {
		case r.Live():
			word = "running"
		case word == "":
			word = string(r.Outcome)
		}
		words = append(words, fmt.Sprintf("%d:%s", r.Tick.Minute(), word))
	}
	return strings.Join(words, " ")
}

func (p *place) wantDecided(want string) {
	p.t.Helper()
	if got := p.decided(); got != want {
		p.t.Errorf("decided was %s\nwant        %s", got, want)
	}
}

// A run longer than its interval: the next tick is skipped, once, with the
// holder on record and in one line; when it has ended the next tick runs.
func TestRun_OverlapSkip(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, gate := p.hold(0, "long")
	first := runsOf(t, p.store)[0]
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	got := p.run(tick(1), "long", "--", "echo", "ran")
	got.want(t, 0, "", fmt.Sprintf("cronce: long: tick 2026-01-01T00:01:00Z is skipped: overlap: run %s, pid %d on %s, since %s; look: cronce status --store %s long\n",
		first.ID, holder.cmd.Process.Pid, host, cronce.Stamp(first.Start), p.store))
	got.oneLine(t)
	// The same tick again is taken, and not decided a second time: not even
	// when the job is free.
	p.run(tick(1), "long", "--", "echo", "ran").want(t, 75, "")
	p.run(tick(0), "long", "--", "echo", "ran").want(t, 0, "") // its winner still runs
	p.open(gate)
	holder.wait().want(t, 0, "")
	p.run(tick(0), "long", "--", "echo", "ran").want(t, 0, "") // and has succeeded
	p.run(tick(1), "-v", "long", "--", "echo", "ran").want(t, 75, "", "tick 2026-01-01T00:01:00Z is taken by run ", "(skipped)")
	p.run(tick(2), "long", "--", "sh", "-c", "echo ran; exit 3").want(t, 3, "ran\n")
	p.run(tick(2), "long", "--", "echo", "ran").want(t, 75, "") // its winner failed
	p.wantDecided("0:succeeded 1:overlap 2:failed")
	skip := runsOf(t, p.store)[1]
	if skip.Held != first.ID || skip.Start.Before(first.Start) {
		t.Errorf("the skip on record: %+v", skip)
	}
}

// The exit code of a skip: 0 for a tick, 75 for a run without one, any by flag.
func TestRun_SkipExit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, gate := p.hold(0, "held")
	p.run(tick(1), "--skip-exit=9", "held", "--", "echo", "ran").want(t, 9, "", "skipped")
	p.run("--manual", "held", "--", "echo", "ran").want(t, 75, "", "cronce: held: a run by hand is skipped: overlap")
	p.run("--skip-exit=0", "held", "--", "echo", "ran").want(t, 0, "", "a run by hand is skipped")
	p.run(tick(2), "--log-level=error", "held", "--", "echo", "ran").want(t, 0, "")
	p.run(tick(3), "--log-format=json", "held", "--", "echo", "ran").want(t, 0, "", `{"time":"`, `"level":"WARN"`, `"msg":"tick 2026-01-01T00:03:00Z is skipped: `, `"job":"held"`)
	p.run(tick(4), "--start-deadline=1h", "--overlap=wait=1h", "held", "--", "echo", "ran").want(t, 0, "", "is skipped: late: offered")
	// Elsewhere than by default the store belongs to the way to look, whoever named it.
	p.run("--store="+p.store, tick(5), "held", "--", "echo", "ran").want(t, 0, "", "; look: cronce status --store "+p.store+" held\n")
	p.open(gate)
	holder.wait().want(t, 0, "")
}

// wait: it runs when the holder has ended, also when that was killed; later
// ticks are skipped meanwhile.
func TestRun_OverlapWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     func(p *place, holder *cronceRun, gate string)
		outcome string
	}{
		{"the holder ends", func(p *place, holder *cronceRun, gate string) { p.open(gate) }, "succeeded"},
		{"the holder is killed", func(p *place, holder *cronceRun, gate string) {
			holder.signal(syscall.SIGKILL)
			<-holder.done
			p.open(gate) // its command still had the lock
		}, "lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			holder, gate := p.hold(0, "queue")
			waiter := p.start(tick(1), "-v", "--overlap=wait=1h", "queue", "--", "echo", "ran")
			waiter.await("waits up to 1h0m0s: job \"queue\" is held: run ")
			p.run(tick(2), "--overlap=wait=1h", "queue", "--", "echo", "ran").want(t, 0, "", "tick 2026-01-01T00:02:00Z is skipped: overlap")
			p.run(tick(3), "queue", "--", "echo", "ran").want(t, 0, "", "tick 2026-01-01T00:03:00Z is skipped: overlap")
			c.end(p, holder, gate)
			waiter.wait().want(t, 0, "ran\n", "starts")
			p.wantDecided("0:" + c.outcome + " 2:overlap 3:overlap 1:succeeded")
		})
	}
	t.Run("in vain", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		holder, gate := p.hold(0, "queue")
		got := p.run(tick(1), "--overlap=wait=300ms", "queue", "--", "echo", "ran")
		got.want(t, 75, "", fmt.Sprintf("is skipped after it waited for 300ms: overlap: run %s, pid %d", runsOf(t, p.store)[0].ID, holder.cmd.Process.Pid))
		got.oneLine(t)
		p.open(gate)
		holder.wait()
		p.wantDecided("0:succeeded 1:overlap")
	})
	t.Run("the waiter is killed", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		holder, gate := p.hold(0, "queue")
		dead := p.start(tick(1), "-v", "--overlap=wait=1h", "queue", "--", "echo", "ran")
		dead.await("waits up to")
		dead.signal(syscall.SIGKILL)
		<-dead.done
		// Its place is free, and its tick undecided: another process has both.
		waiter := p.start(tick(1), "-v", "--overlap=wait=1h", "queue", "--", "echo", "ran")
		waiter.await("waits up to")
		p.open(gate)
		holder.wait().want(t, 0, "")
		waiter.wait().want(t, 0, "ran\n", "starts")
		p.wantDecided("0:succeeded 1:succeeded")
	})
	t.Run("the waiter gets a signal", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		holder, gate := p.hold(0, "queue")
		waiter := p.start(tick(1), "-v", "--overlap=wait=1h", "--status-file=status", "queue", "--", "echo", "ran")
		waiter.await("waits up to")
		waiter.signal(syscall.SIGTERM)
		waiter.wait().want(t, 143, "", "got SIGTERM while it waited: not run")
		if b, err := os.ReadFile(filepath.Join(p.dir, "status")); err != nil || !hasAll(string(b), []string{`"decision":"none"`, `"exit":143`}) {
			t.Errorf("status: %s, %v", b, err)
		}
		p.open(gate)
		holder.wait().want(t, 0, "")
		p.run(tick(1), "queue", "--", "echo", "ran").want(t, 0, "ran\n")
		p.wantDecided("0:succeeded 1:succeeded")
	})
}

// replace: the holder is asked to end, and the new run starts when it has.
func TestRun_OverlapReplace(t *testing.T) {
	t.Run("the holder obeys", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		holder := p.start(tick(0), "--retries=3", "--retry-delay=1ms", "newest", "--", "perl", "-e", `$| = 1; $SIG{TERM} = sub { print "asked\n"; exit 5 }; print "up\n"; sleep`)
		holder.line()
		p.run(tick(1), "--overlap=replace", "newest", "--", "echo", "ran").want(t, 0, "ran\n")
		holder.wait().want(t, 5, "asked\n", "asked to stop by run ", "it replaces this run")
		p.wantDecided("0:cancelled 1:succeeded")
	})
	t.Run("the holder ignores TERM", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		holder := p.start(tick(0), "--grace=200ms", "newest", "--", "sh", "-c", `trap "" TERM; echo up; while :; do sleep 0.01; done`)
		holder.line()
		p.run(tick(1), "--overlap=replace", "newest", "--", "echo", "ran").want(t, 0, "ran\n")
		holder.wait().want(t, 137, "", "asked to stop by run ")
		p.wantDecided("0:cancelled 1:succeeded")
	})
	t.Run("in vain", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		gate := p.gate("gate")
		holder := p.start(tick(0), "newest", "--", "sh", "-c", `trap "" TERM; echo up; read x <`+gate)
		holder.line()
		p.run(tick(1), "--overlap=replace=300ms", "newest", "--", "echo", "ran").want(t, 75, "", "is skipped after it waited for 300ms: overlap: run ")
		holder.signal(syscall.SIGKILL)
		p.open(gate)
	})
	t.Run("the replacer is killed", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		holder := p.start(tick(0), "newest", "--", "perl", "-e", `$| = 1; $SIG{TERM} = sub { print "asked\n"; exit 5 }; print "up\n"; sleep`)
		holder.line()
		replacer := p.start(tick(1), "-v", "--overlap=replace", "newest", "--", "echo", "ran")
		replacer.await("waits up to")
		replacer.signal(syscall.SIGKILL)
		<-replacer.done
		// It is asked all the same; the tick is free for another process.
		holder.wait().want(t, 5, "asked\n", "asked to stop by run ")
		p.run(tick(1), "newest", "--", "echo", "ran").want(t, 0, "ran\n")
		p.wantDecided("0:cancelled 1:succeeded")
	})
}

// allow: side by side, without a fence.
func TestRun_OverlapAllow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first, gate1 := p.hold(0, "many", "--overlap=allow")
	second, gate2 := p.hold(1, "many", "--overlap=allow")
	p.wantDecided("0:running 1:running")
	p.run(tick(2), "--overlap=allow", "many", "--", "sh", "-c", `echo "fence${CRONCE_FENCE-: none}"`).want(t, 0, "fence: none\n")
	p.run(tick(2), "--overlap=allow", "many", "--", "echo", "ran").want(t, 0, "") // the tick is still run once
	// Whoever is to be alone is kept out by them.
	p.run(tick(3), "many", "--", "echo", "ran").want(t, 0, "", "is skipped: overlap")
	p.open(gate1)
	p.open(gate2)
	first.wait().want(t, 0, "")
	second.wait().want(t, 0, "")
	p.run(tick(4), "many", "--", "echo", "ran").want(t, 0, "ran\n")
	p.wantDecided("0:succeeded 1:succeeded 2:succeeded 3:overlap 4:succeeded")
}

// The three ways to deal with what a command leaves behind.
func TestRun_Orphans(t *testing.T) {
	// The child prints its pid and goes on; the command ends at once.
	leave := func(p *place, gate, policy string) (r *cronceRun, child int) {
		r = p.start(tick(0), "--orphans="+policy, "--grace=1m", "left", "--", "sh", "-c",
			`setsid sh -c 'echo $$; read x <`+gate+`' & read x <`+p.gate("main")+`; exit 4`)
		child = r.pid()
		p.open(filepath.Join(p.dir, "main"))
		if policy == "wait" {
			p.awaitOrphaned("left")
		}
		return r, child
	}
	t.Run("wait", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		gate := p.gate("gate")
		r, child := leave(p, gate, "wait")
		got := p.run(tick(1), "left", "--", "echo", "ran")
		got.want(t, 75, "", "is skipped: orphans: run "+runsOf(t, p.store)[0].ID, fmt.Sprintf("; left behind: pid %d (sh); look: cronce status --store %s left\n", child, p.store))
		got.oneLine(t)
		if !r.lives() {
			t.Fatal("the run ended before its last process")
		}
		p.open(gate)
		r.wait().want(t, 4, "")
		p.run(tick(2), "left", "--", "echo", "ran").want(t, 0, "ran\n")
		p.wantDecided("0:failed 1:orphans 2:succeeded")
	})
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		r, child := leave(p, p.gate("gate"), "kill")
		r.wait().want(t, 4, "")
		if syscall.Kill(child, 0) == nil {
			t.Error("the child lives on")
		}
		p.run(tick(1), "left", "--", "echo", "ran").want(t, 0, "ran\n")
	})
	t.Run("leave", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		gate := p.gate("gate")
		r, child := leave(p, gate, "leave")
		<-r.done
		if code := r.cmd.ProcessState.ExitCode(); code != 4 {
			t.Errorf("exit %d", code)
		}
		p.run(tick(1), "left", "--", "echo", "ran").want(t, 0, "ran\n")
		if syscall.Kill(child, 0) != nil {
			t.Error("the child was ended")
		}
		p.open(gate)
		awaitEnd(t, child)
		p.wantDecided("0:failed 1:succeeded")
	})
}

// awaitOrphaned waits until it is on record that a job's run has come to its
// left-over processes. There is no event of that to wait for.
func (p *place) awaitOrphaned(job string) {
	p.t.Helper()
	for {
		b, err := os.ReadFile(filepath.Join(p.store, "jobs", job, "journal.000001.jsonl"))
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.Contains(string(b), `"event":"orphans"`) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// lives reports whether cronce itself has not ended.
func (r *cronceRun) lives() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Programs that a command may start in the background, and whether the work
// still has the job's lock when they have started it: this is the table in
// docs/run.md. While cronce run lives, it makes no difference; after kill -9 of
// it the lock is all that is left.
func TestRun_WhoKeepsTheLock(t *testing.T) {
	const child = `sh -c 'echo $$ >up; read x <gate'`
	programs := []struct {
		name, script string
		keeps        bool
	}{
		{"sh &", child + ` &`, true},
		{"nohup", `nohup ` + child + ` &`, true},
		{"setsid", `setsid ` + child + ` &`, true},
		{"timeout, nice, env, xargs", `echo 1 | timeout 1h nice env xargs -I N ` + child + ` &`, true},
		{"perl fork", `perl -e 'fork or exec @ARGV' ` + child, true},
		{"bash, closing it", `exec bash -c 'exec 198>&-; exec "$@" &' bash ` + child, false},
		{"start-stop-daemon", `/sbin/start-stop-daemon --start --background --pidfile none --chdir "$PWD" --startas /bin/sh -- -c 'echo $$ >up; read x <gate'`, false},
		{"perl closing all", `perl -e 'use POSIX; fork and exit; POSIX::setsid; POSIX::close($_) for 3..255; exec @ARGV' ` + child, false},
	}
	if path, err := exec.LookPath("python3"); err == nil { // which Debian can do without
		programs = append(programs, []struct {
			name, script string
			keeps        bool
		}{
			{"python subprocess", path + ` -c 'import subprocess, sys; subprocess.Popen(sys.argv[1:])' ` + child, false},
			{"python subprocess, close_fds=False", path + ` -c 'import subprocess, sys; subprocess.Popen(sys.argv[1:], close_fds=False)' ` + child, true},
		}...)
	}
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			up, gate := p.gate("up"), p.gate("gate")
			r := p.start(tick(0), "kept", "--", "sh", "-c", c.script)
			var pid int
			if _, err := fmt.Sscan(r.hear(up), &pid); err != nil {
				t.Fatal(err)
			}
			p.awaitOrphaned("kept")
			// Whether it left the session or closed the lock: it belongs to the run.
			p.run(tick(1), "kept", "--", "echo", "ran").want(t, 75, "", "orphans: run ", fmt.Sprintf("pid %d (sh)", pid))
			if !r.lives() {
				t.Fatal("the run ended before its last process")
			}
			r.signal(syscall.SIGKILL)
			<-r.done
			got := p.run(tick(2), "kept", "--", "echo", "ran")
			if c.keeps {
				got.want(t, 75, "", "orphans: run ", "left behind: pid ", fmt.Sprintf("pid %d (sh)", pid))
			} else {
				got.want(t, 0, "ran\n")
			}
			if syscall.Kill(pid, 0) != nil {
				t.Fatal("the work had ended: nothing was tested")
			}
			p.open(gate)
			awaitEnd(t, pid)
			p.run(tick(3), "kept", "--", "echo", "ran").want(t, 0, "ran\n")
		})
	}
}
