package cmd_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// What a job runs gets neither the password of the store nor the place of it, however it is
// started; but the store itself, so that what it asks of cronce is asked of the same one.
func TestShared_CommandHasNoPassword(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	scheme, rest, _ := strings.Cut(url, "://:")
	password, host, _ := strings.Cut(rest, "@")
	f := newFleet(t, url)
	file := write(t, filepath.Join(f.dir, "password"), password+"\n")
	const show = "echo \"[$CRONCE_STORE][$CRONCE_STORE_PASSWORD_FILE]\"; tr '\\0' '\\n' </proc/$$/environ | grep ^CRONCE_"
	want := "[" + scheme + "://" + host + "][]"
	with := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Env = append(cmd.Env, "CRONCE_STORE_PASSWORD_FILE="+file)
		return cmd
	}
	check := func(how, out string) {
		t.Helper()
		if !strings.Contains(out, want) || strings.Contains(out, password) {
			t.Errorf("%s: the command has\n%s", how, out)
		}
	}
	out, err := with(f.command("run", "--manual", "typed", "--", "sh", "-c", show)).CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	check("run", string(out))
	crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf("CRONCE_STORE_PASSWORD_FILE=%s\n# cronce: name=line\n@every 1s %s; echo done\n", file, show))
	out, err = with(f.command("trigger", "--crontab", crontab, "line")).CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	check("trigger", string(out))
	for how, args := range map[string][]string{"serve": {"serve", "--crontab", crontab}, "hold": {"hold", "kept", "--", "sh", "-c", show + "; echo done; sleep 60"}} {
		s := startServer(t, with(f.command(args...)))
		last := s.await(t, 0, "done")
		s.stop(syscall.SIGTERM)
		check(how, strings.Join(s.said(0, last), "\n"))
	}
	for _, r := range f.runs(t) {
		if r.Skip == "" && r.Output == nil {
			check(r.Job+" on record", f.ok(t, "runs", "--id", r.ID))
		}
	}
}
