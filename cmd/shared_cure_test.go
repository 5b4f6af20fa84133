package cmd_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// A cron line whose settings change is refused until the store is told: the message says by
// what command, a dry run says it beforehand, and the command does it.
func TestShared_ConflictNamesItsCure(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	f.ok(t, "run", "--schedule", "* * * * *", "--retries", "2", "report", "--", "true")
	line := func(flags ...string) []string {
		return append(append([]string{"run", "--schedule", "0-59 * * * *", "--timeout", "50s"}, flags...), "report", "--", "true")
	}
	refused := func(want string, args ...string) string {
		t.Helper()
		out, err := f.command(args...).CombinedOutput()
		if code, _ := exitCode(err); code != map[bool]int{true: 0, false: 78}[strings.Contains(want, "would")] || !strings.Contains(string(out), want) {
			t.Fatalf("%v: exit %d\n%s", args, code, out)
		}
		return string(out)
	}
	refused("would be refused: ", line("--dry-run")...)
	out := refused("another definition", line()...)
	const update = "cronce job update report --schedule '0-59 * * * *' --timeout 50s --retries default"
	if !strings.Contains(out, update) {
		t.Fatalf("the cure is not named:\n%s", out)
	}
	cmd := f.command()
	cure := exec.Command("sh", "-c", strings.Replace(update, "cronce", cmd.Path, 1))
	cure.Env = cmd.Env
	if out, err := cure.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// It may be too late for this tick, or taken, but is no conflict.
	if out, err := f.command(line()...).CombinedOutput(); strings.Contains(string(out), "another definition") {
		t.Errorf("after the cure: %v\n%s", err, out)
	}
	if out := f.ok(t, line("--dry-run")...); strings.Contains(out, "refused") {
		t.Errorf("after the cure: %s", out)
	}
}
