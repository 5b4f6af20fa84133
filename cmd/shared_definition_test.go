package cmd_test

import (
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// A job that is served, with settings that only a serve can follow, and run from a cron line
// that cannot say them: they agree where all is the same that is for both.
func TestShared_ServedAndRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	crontab := write(t, f.dir+"/crontab", "# cronce: name=job timeout=5m catchup=all catchup-window=2h jitter=1s on-lost=rerun idempotent=yes start-deadline=100000h\n0 0 1 1 *  true\n")
	startServer(t, f.command("serve", "--crontab", crontab))
	run := func(tick string, flags ...string) (string, int) {
		args := append([]string{"run", "--schedule", "0 0 1 1 *", "--tick", tick, "--start-deadline", "100000h"}, flags...)
		out, err := f.command(append(args, "job", "--", "echo", "ran")...).CombinedOutput()
		code, _ := exitCode(err)
		return string(out), code
	}
	for !strings.Contains(f.ok(t, "status"), "catchup=all") { // until serve has told the store
	}
	if out, code := run("2024-01-01T00:00:00Z", "--timeout", "5m"); code != 0 || !strings.Contains(out, "ran") {
		t.Errorf("with what both know the same: exit %d\n%s", code, out)
	}
	if out, code := run("2025-01-01T00:00:00Z", "--timeout", "6m"); code != 78 || !strings.Contains(out, "another definition") {
		t.Errorf("with another timeout: exit %d\n%s", code, out)
	}
	if out := f.ok(t, "job", "list"); !strings.Contains(out, "catchup=all") {
		t.Errorf("the definition is now\n%s", out)
	}
}
