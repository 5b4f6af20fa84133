package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// A store that nobody has made known says so with the first tick that it skips, and by what
// command that is done; that takes the URL as people type it, and says what it found.
func TestShared_NewStore(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	f := &fleet{url: url, dir: t.TempDir(), bin: bin}
	out, err := f.command("run", "--tick", cronce.Stamp(time.Now().Add(-time.Minute)), "job", "--", "true").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "store-restarted: the store is new") || !strings.Contains(string(out), "cronce store init") {
		t.Errorf("the first tick: %v\n%s", err, out)
	}
	scheme, rest, _ := strings.Cut(url, "://")
	user, rest, _ := strings.Cut(rest, ":")
	password, rest, _ := strings.Cut(rest, "@")
	bare := scheme + "://" + user + "@" + rest
	file := write(t, filepath.Join(f.dir, "password"), password+"\n")
	without := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "cronce"), args...)
		cmd.Env = append(os.Environ(), "CRONCE_LOCAL_STORE="+f.dir, "CRONCE_STORE_PASSWORD_FILE="+file)
		return cmd
	}
	made, err := without("store", "init", bare).CombinedOutput()
	if err != nil {
		t.Fatalf("init: %v\n%s", err, made)
	}
	if !strings.Contains(string(made), "is ready for use; it was in use already, by 1 job") {
		t.Errorf("init: %v\n%s", err, made)
	}
	f.ok(t, "run", "--manual", "job", "--", "true")
	host, _ := os.Hostname()
	if list := f.ok(t, "runs", "job"); !strings.Contains(list, "  HOST  ") || !strings.Contains(list, "  "+host+"  ") {
		t.Errorf("runs:\n%s", list)
	}
	for _, args := range [][]string{{"store", "init", "redis://:hush@127.0.0.1:1"}, {"store", "init", "--store", bare, bare}} {
		out, err := without(args...).CombinedOutput()
		if code, _ := exitCode(err); code != 64 || strings.Contains(string(out), "hush") {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
	}
}

// Each kind of event has its name.
func TestEventKind_String(t *testing.T) {
	t.Parallel()
	for k := cronce.EventStarted; k <= cronce.EventAgreed; k++ {
		if k.String() == "" || strings.Contains(k.String(), "(") {
			t.Errorf("event %d is %q", k, k)
		}
	}
}
