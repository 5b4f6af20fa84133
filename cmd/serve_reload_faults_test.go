package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of a file is not waited for: serve goes on, listens to
// signals, and loads the file that comes after it.
func TestServe_ReloadWaitsForNoPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=cron\n@every 1s  echo first\n")
	file := write(t, filepath.Join(dir, "jobs.yaml"), "jobs: {yaml: {schedule: '@every 1s', command: 'echo first'}}\n")
	s := startConfig(t, filepath.Join(dir, "store"), file, "--crontab", crontab)
	at := s.await(t, s.await(t, 0, "cron", "| first"), "yaml", "| first")
	for _, path := range []string{file, crontab} {
		pipe := path + ".pipe"
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(pipe, path); err != nil {
			t.Fatal(err)
		}
		at = s.await(t, at, "NOT LOADED", path+" is no file but a pipe or the like: these are read only at the start; what was served goes on")
		at = s.await(t, at, "yaml", "| first")
		// In one step, as an editor does.
		if err := os.Rename(write(t, path+".new", string(text)), path); err != nil {
			t.Fatal(err)
		}
		at = s.await(t, at, "loaded", "2 jobs")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	s.await(t, at, "NOT LOADED")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// At the start a pipe is read, as from the shell's <(…), until its writer ends.
func TestServe_StartsFromAPipe(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"--config", "--crontab"} {
		dir := t.TempDir()
		pipe := filepath.Join(dir, "jobs")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		text := "jobs: {piped: {schedule: '@every 1s', command: 'echo ran'}}\n"
		if option == "--crontab" {
			text = "# cronce: name=piped\n@every 1s  echo ran\n"
		}
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, []byte(text), 0o600) }() // waits for a reader
		other := write(t, filepath.Join(dir, "crontab"), "# cronce: name=other\n@every 1s  true\n")
		s := startServe(t, filepath.Join(dir, "store"), other, option, pipe)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		at := s.await(t, 0, "piped", "| ran")
		s.cmd.Process.Signal(syscall.SIGHUP)
		at = s.await(t, at, "NOT LOADED", pipe+" is no file but a pipe")
		s.await(t, at, "piped", "| ran")
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
}

// What a crontab says is shown, and does nothing to the terminal that shows it.
func TestServe_ProblemsAreReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const good, bad = "# cronce: name=good\n@every 1s  true\n", "# cronce: timeout=\x1b]0;PWN\a\u009b2J\u202e\n@every 1s  true\n"
	crontab := write(t, filepath.Join(dir, "crontab"), bad+good)
	s := startServe(t, filepath.Join(dir, "store"), crontab)
	at := s.await(t, 0, "crontab:1:", "timeout=", `\x1b]0;PWN`, `\u202e`)
	at = s.await(t, at, "serves 1 job")
	write(t, crontab, good+bad)
	s.await(t, at, "PROBLEM", "crontab:3:", "timeout=", `\x1b]0;PWN`, `\u202e`)
	s.stop(syscall.SIGTERM)
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := strings.Join(s.log, ""); strings.ContainsAny(all, "\x1b\a\u009b\u202e") {
		t.Errorf("%q", all)
	}
}
