package cmd_test

import (
	"bufio"
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

// makeFifo makes a named pipe that the test holds open, so that neither side
// waits for the other to come.
func makeFifo(t *testing.T, path string) *bufio.Reader {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return bufio.NewReader(f)
}

// Nobody reads what serve prints, and a job prints a lot: the other jobs run
// at their ticks all the same, and two signals still end serve.
func TestServe_StalledReaderHoldsNothingUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	did := makeFifo(t, filepath.Join(dir, "did"))
	crontab := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf(`
# cronce: name=loud orphans=kill grace=1s
@every 1s  seq 1 100000
# cronce: name=quiet
@every 1s  echo $CRONCE_TICK >%s/did
`, dir))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() // it is never read
	cmd := exec.Command(filepath.Join(bin, "cronce"), "serve", "--store", filepath.Join(dir, "store"), "--crontab", crontab)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer cmd.Process.Kill()
	last := time.Time{}
	for range 8 {
		line, err := did.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		tick, err := time.Parse(time.RFC3339, strings.TrimSpace(line))
		if err != nil || !tick.After(last) {
			t.Fatalf("tick %q after %v: %v", line, last, err)
		}
		last = tick
	}
	cmd.Process.Signal(syscall.SIGTERM)
	<-time.After(time.Second / 2) // else it is the same request
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// An upgrade puts another program into the place of the thin one: the serve
// that runs goes on with the one it was started with.
func TestServe_GoesOnWhenItsProgramsAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := filepath.Join(dir, "bin")
	if out, err := exec.Command("cp", "-r", bin, own).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=tick\n@every 1s  echo hello\n")
	s := startServeFrom(t, own, filepath.Join(dir, "store"), crontab)
	s.await(t, 0, "tick", "succeeded")
	for _, name := range []string{"cronce", "cronced"} {
		write(t, filepath.Join(own, "new"), "#!/bin/false\n")
		if err := os.Chmod(filepath.Join(own, "new"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(own, "new"), filepath.Join(own, name)); err != nil {
			t.Fatal(err)
		}
	}
	at := s.await(t, s.lines(), "tick", "started")
	s.await(t, at, "tick", "| hello")
	s.await(t, at, "tick", "succeeded")
}

// A guard that cannot begin has started nothing: the run is a failure that says
// so, and not lost.
func TestServe_WhatIsNotStartedIsNotLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=tick\n@every 1s  echo hello\n")
	s := startServe(t, store, crontab)
	s.await(t, 0, "tick", "succeeded")
	folders, err := filepath.Glob(store + "/jobs/*")
	if err != nil || len(folders) != 1 {
		t.Fatalf("%v, %v", folders, err)
	}
	control := write(t, filepath.Join(folders[0], "control.json"), "garbage")
	s.await(t, s.lines(), "tick", "failed", "not started", "control.json")
	if err := os.Remove(control); err != nil {
		t.Fatal(err)
	}
	s.await(t, s.lines(), "tick", "succeeded")
	for _, r := range runsOf(t, store) {
		if r.Outcome == cronce.Lost {
			t.Errorf("on record as lost: %+v", r)
		}
	}
}

// With orphans=leave a daemon that a run has left behind goes on printing when
// serve is killed, and the next tick does not wait for it.
func TestServe_LeftBehindIsNotHurt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	did := makeFifo(t, filepath.Join(dir, "did"))
	makeFifo(t, filepath.Join(dir, "gate"))
	t.Cleanup(func() { endAllThatName(t, dir) })
	crontab := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf(`
# cronce: name=daemon orphans=leave
@every 1s  (read x <%[1]s/gate; for i in 1 2 3; do echo still here; done && echo printed >%[1]s/did) & echo $! >%[1]s/did
`, dir))
	s := startServe(t, filepath.Join(dir, "store"), crontab)
	for range 2 { // the second tick runs although the first one's child goes on
		if _, err := did.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		s.await(t, s.await(t, 0, "daemon", "started"), "daemon", "succeeded")
	}
	s.cmd.Process.Kill()
	<-s.gone
	if err := os.WriteFile(filepath.Join(dir, "gate"), []byte("a\nb\nc\nd\ne\nf\n"), 0); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := did.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "printed\n" {
			break
		}
	}
}
