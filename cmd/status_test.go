package cmd_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// A job has a next tick as long as somebody is there to start it: a serve that
// lives and has it in its crontab, or whatever calls cronce run.
func TestStatus_NextIsForWhoServes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	const kept, gone = "# cronce: name=kept\n@every 1s true\n", "# cronce: name=gone\n@every 1s true\n"
	crontab := write(t, filepath.Join(dir, "jobs.cron"), kept+gone)
	status := func() (next map[string]bool, text string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "cronce"), "status", "--store", store)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		next = map[string]bool{}
		for line := range strings.Lines(string(out)) {
			job, _, _ := strings.Cut(line, " ")
			next[job] = !strings.Contains(line, "  -  ")
		}
		return next, string(out)
	}
	const nobody = "\nno serve is running on this store\n"

	cmd := exec.Command(filepath.Join(bin, "cronce"), "run", "--store", store, "--schedule=@every 1s", "ofcron", "--", "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	serve := startServe(t, store, crontab)
	serve.await(t, 0, "kept", "succeeded")
	serve.await(t, 0, "gone", "succeeded")
	if next, text := status(); !next["kept"] || !next["gone"] || !next["ofcron"] || strings.Contains(text, nobody) {
		t.Errorf("while all are served:\n%s", text)
	}

	from := serve.lines()
	write(t, crontab, kept)
	serve.await(t, from, "loaded     1 job")
	if next, text := status(); !next["kept"] || next["gone"] || !next["ofcron"] || strings.Contains(text, nobody) {
		t.Errorf("while one is served no more:\n%s", text)
	}

	serve.cmd.Process.Signal(syscall.SIGKILL)
	<-serve.gone
	if next, text := status(); next["kept"] || next["gone"] || !next["ofcron"] || !strings.HasSuffix(text, nobody) {
		t.Errorf("while nobody serves:\n%s", text)
	}

	serve = startServe(t, store, crontab)
	serve.await(t, 0, "serves 1 job")
	if next, text := status(); !next["kept"] || next["gone"] || strings.Contains(text, nobody) {
		t.Errorf("served anew:\n%s", text)
	}
	notes, err := filepath.Glob(store + "/serves/*")
	if err != nil || len(notes) != 1 {
		t.Errorf("the notes %q, want that of the serve that lives (%v)", notes, err)
	}
	if code := serve.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, text := status(); !strings.HasSuffix(text, nobody) {
		t.Errorf("after an orderly stop:\n%s", text)
	}
}

// On a store that hosts share, a job has a next tick as long as somebody decided its last one.
func TestShared_StatusNext(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=job\n@every 1s true\n")
	attended := func() bool {
		out := f.ok(t, "status")
		has, said := !strings.Contains(out, "  -  "), strings.Contains(out, "no host serves or runs job: ")
		if has == said {
			t.Fatalf("it shows a next tick: %v, and says that there is none: %v\n%s", has, said, out)
		}
		return has
	}
	serve := startServer(t, f.command("serve", "--crontab", crontab))
	serve.await(t, 0, "job", "succeeded")
	if !attended() {
		t.Error("while it is served")
	}
	serve.stop(syscall.SIGTERM)
	eventually(t, "that nobody attends to the job", func() bool { return !attended() })
	f.ok(t, "run", "--manual", "job", "--", "true")
	if attended() {
		t.Error("after a run by hand")
	}
	f.ok(t, "run", "--schedule", "@every 1s", "job", "--", "true")
	if !attended() {
		t.Error("after a run under cron")
	}
}
