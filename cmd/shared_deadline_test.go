package cmd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// A command's deadline is that of its timeout, also under a lease that ends unless it is
// renewed: that end moves on, and would tell it nothing.
func TestShared_Deadline(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	tell := []string{"--", "sh", "-c", "echo $CRONCE_DEADLINE"}
	if out := f.ok(t, append([]string{"run", "--manual", "job"}, tell...)...); out != "\n" {
		t.Errorf("without a timeout it is %q", out)
	}
	before := time.Now().Truncate(time.Second)
	out := f.ok(t, append([]string{"run", "--manual", "--timeout", "10m", "job"}, tell...)...)
	after := time.Now()
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(out))
	if err != nil || at.Before(before.Add(10*time.Minute)) || at.After(after.Add(10*time.Minute)) {
		t.Errorf("it is %q (%v) for ten minutes from %s to %s", out, err, before, after)
	}
	f.ok(t, "store", "check")
	crontab := write(t, f.dir+"/crontab", "# cronce: name=served timeout=10m\n@every 1s echo until $CRONCE_DEADLINE.\n# cronce: name=without\n@every 1s echo until $CRONCE_DEADLINE.\n")
	serve := startServer(t, f.command("serve", "--crontab", crontab))
	serve.await(t, 0, "without", "| until .")
	line := serve.await(t, 0, "served", "| until 2")
	_, text, _ := strings.Cut(serve.said(line, line+1)[0], "until ")
	if at, err := time.Parse(time.RFC3339, strings.TrimSuffix(text, ".")); err != nil || at.Before(before.Add(10*time.Minute)) || at.After(time.Now().Add(10*time.Minute)) {
		t.Errorf("serve tells it of %q (%v)", text, err)
	}
}
