package cmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
)

// Root sees the jobs and runs of all users at once, and changes nothing: what one
// has no store, a damaged one or hostile text in it, hides nothing of the others.
func TestSystemView(t *testing.T) {
	m, ok := newMachine(t)
	if !ok {
		return
	}
	m.write("/etc/cron.d/tab", 0o644, `# cronce: name=good
0 0 1 1 *  daemon  true
# cronce: name=bad
0 0 1 1 *  daemon  exit 7
# cronce: name=never
0 0 1 1 *  www-data  true
# cronce: name=roots
0 0 1 1 *  root  true
`)
	m.write("/etc/cron.d/games", 0o644, "# cronce: name=good\n0 0 1 1 *  games  echo up; sleep 1000\n")
	for _, who := range []string{"good daemon 0", "bad daemon 7", "roots root 0"} {
		w := strings.Fields(who)
		m.cronce("trigger", w[0], "--system", "--user", w[1]).says(t, int(w[2][0]-'0'))
	}
	running := m.command(filepath.Join(bin, "cronce"), "trigger", "good", "--system", "--user", "games")
	r := startServer(t, running)
	r.await(t, 0, "up")
	m.cronce("pause", "bad", "--user", "daemon", "--why", "seen \x1b[31m\nroot  forged").says(t, 64)
	m.cronce("pause", "bad", "--user", "daemon", "--why", "broken").says(t, 0)

	got := m.cronce("status", "--system")
	got.says(t, 0, "USER", "daemon  bad ", "paused by root", "broken", "failed ", "daemon  good ", "games   good   running for", "root    roots ")
	if strings.Contains(got.out, "www-data") {
		t.Errorf("a user without a store is shown: %s", got.out)
	}
	got = m.cronce("status", "good", "--system", "--json")
	var states []struct {
		User string
		cronce.JobState
	}
	for dec := json.NewDecoder(strings.NewReader(got.out)); dec.More(); {
		states = append(states, struct {
			User string
			cronce.JobState
		}{})
		if err := dec.Decode(&states[len(states)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(states) != 2 || states[0].User != "daemon" || states[1].User != "games" || len(states[1].Live) != 1 || states[1].Job != "good" {
		t.Errorf("as JSON: %+v\n%s", states, got.err)
	}
	got = m.cronce("runs", "--system")
	got.says(t, 0, "daemon", "bad", "failed", "games", "running", "succeeded")
	if lines := strings.Split(strings.TrimSpace(got.out), "\n"); len(lines) != 5 || !hasAll(lines[3], []string{"root ", "roots"}) || !hasAll(lines[4], []string{"games ", "running"}) {
		t.Errorf("the runs are not all there, or not in their order:\n%s", got.out)
	}
	m.cronce("runs", "--system", "-n", "1").says(t, 0, "games")
	for _, args := range [][]string{{"runs", "--system", "--failed"}, {"runs", "--failed", "--user", "daemon"}} {
		got := m.cronce(args...)
		if lines := strings.Split(strings.TrimSpace(got.out), "\n"); got.code != 0 || len(lines) != 2 || !strings.Contains(lines[1], "bad") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := m.cronce("runs", "bad", "--system", "--since", "1h", "--json"); got.code != 0 || strings.Count(got.out, "\n") != 1 || !strings.Contains(got.out, `"user":"daemon"`) {
		t.Errorf("of one job, as JSON: %+v", got)
	}
	m.cronce("runs", "--system", "--store", "/var/lib/x").says(t, 64)
	m.cronce("status", "nosuch", "--system").says(t, 1, `"nosuch"`)
	m.cronce("runs", "--failed", "--id", "x").says(t, 64, "--failed")

	// A damaged store is named, and the rest is there.
	segments, _ := filepath.Glob(m.store("daemon") + "/jobs/bad/*.jsonl")
	if len(segments) == 0 {
		t.Fatal("no journal")
	}
	for _, path := range segments {
		if err := os.WriteFile(path, []byte("{no \x1b[31m journal\n{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.cronce("runs", "--system").says(t, 78, "user daemon: ", "bad", "daemon", "good", "root", "games")
	m.cronce("status", "--system").says(t, 0, "daemon  bad", "refused", "games")
	running.Process.Signal(syscall.SIGTERM)
}

// Whoever is not root sees nothing of others.
func TestSystemView_OnlyRoot(t *testing.T) {
	for _, command := range []string{"status", "runs"} {
		cmd, done := asNobody(t, command, "--system")
		out, err := cmd.CombinedOutput()
		if code, _ := exitCode(err); code != 78 || !strings.Contains(string(out), "only root") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
		done()
	}
}
