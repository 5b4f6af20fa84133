package cmd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// A run whose process was killed is shown as lost once its lease has ended, also when
// nobody claims its job, and release has nothing to wait for.
func TestShared_KilledRunIsNotShownAsRunning(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	kill := func(job string) {
		cmd := f.command("run", "--manual", "--lease", "5s", job, "--", "sh", "-c", "echo up; exec sleep 600")
		s := startServer(t, cmd)
		s.await(t, 0, "up")
		cmd.Process.Kill()
		<-s.gone
	}
	kill("seen")
	kill("waited")
	// If its lease has not ended, that is what release waits for.
	if out := f.ok(t, "release", "waited"); !strings.Contains(out, ": lost") {
		t.Errorf("release, before:\n%s", out)
	}
	for deadline := time.Now().Add(time.Minute); strings.Contains(f.ok(t, "status", "seen"), "running"); {
		if time.Now().After(deadline) {
			t.Fatal("status shows the killed run as running")
		}
		time.Sleep(100 * time.Millisecond) // the end of a lease is no event
	}
	for _, look := range [][]string{
		{"status", "seen"}, {"status", "--json", "seen"}, {"runs", "seen"}, {"runs", "--failed", "seen"}, {"runs", "--json", "seen"},
		{"job", "show", "seen"}, {"store", "check"},
	} {
		out := f.ok(t, look...)
		if strings.Contains(out, "running") || look[0] != "store" && !strings.Contains(out, "lost") {
			t.Errorf("%v:\n%s", look, out)
		}
	}
	for _, how := range [][]string{{"release", "seen"}, {"release", "--force", "seen"}} {
		if out := f.ok(t, how...); !strings.Contains(out, ": lost: its lease ended at") || !strings.Contains(out, "nothing holds it") {
			t.Errorf("%v:\n%s", how, out)
		}
	}
	// A lease that is taken from who was killed ends when it would have ended.
	cmd := f.command("run", "--manual", "--lease", "5s", "forced", "--", "sh", "-c", "echo up; exec sleep 600")
	s := startServer(t, cmd)
	s.await(t, 0, "up")
	cmd.Process.Kill()
	if out := f.ok(t, "release", "--force", "forced"); !strings.Contains(out, ": lost") {
		t.Errorf("release --force:\n%s", out)
	}
}
