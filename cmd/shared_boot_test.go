package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// An @reboot line is each host's own: every host of a fleet runs it once a boot, also while
// another does, and has it on record in its local store. One whose named place is not fit for that
// does not serve.
func TestShared_Reboot(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=warm-up\n@reboot  echo up; read x <"+f.dir+"/gate; echo warm\n# cronce: name=often\n@every 1s  true\n")
	makeFifo(t, filepath.Join(f.dir, "gate"))
	var servers []*server
	for _, host := range []string{"a", "b"} {
		s := startServer(t, f.on(host, "serve", "--crontab", crontab, "--max-running", "3"))
		s.await(t, 0, "serve", "@reboot    warm-up", filepath.Join(f.dir, host))
		s.await(t, 0, "warm-up", "| up")
		servers = append(servers, s)
	}
	again := startServer(t, f.on("a", "serve", "--crontab", crontab))
	again.await(t, 0, "warm-up", "goes on")
	again.await(t, 0, "often", "succeeded")
	servers[0].cmd.Process.Signal(syscall.SIGTERM)
	servers[0].await(t, 0, "serve", "waiting for those that go on", "warm-up (since")
	if err := os.WriteFile(filepath.Join(f.dir, "gate"), []byte("go\ngo\n"), 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		s.await(t, 0, "warm-up", "| warm")
		s.await(t, 0, "warm-up", "succeeded")
	}
	for _, s := range append(servers, again) {
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit %d", code)
		}
		checkDrain(t, s)
	}
	last := startServer(t, f.on("b", "serve", "--crontab", crontab))
	last.await(t, 0, "often", "succeeded")
	if last.says("warm-up", "started") || again.says("warm-up", "started") {
		t.Error("a serve that was started again ran it again")
	}
	last.stop(syscall.SIGTERM)
	for _, r := range f.runs(t) {
		if r.Job != "often" {
			t.Errorf("in the fleet's store: %+v", r)
		}
	}
	for _, host := range []string{"a", "b"} {
		text := f.ok(t, "runs", "warm-up", "--json", "--store", filepath.Join(f.dir, host))
		var r cronce.Run
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Outcome != cronce.Succeeded || strings.Count(text, "\n") != 1 {
			t.Errorf("host %s has on record, %v:\n%s", host, err, text)
		}
	}
	write(t, filepath.Join(f.dir, "nowhere"), "")
	s := startServer(t, f.on("nowhere/store", "serve", "--crontab", crontab))
	<-s.gone
	if s.cmd.ProcessState.ExitCode() != 78 { // a place that was named is to be fit for it
		t.Errorf("exit %d", s.cmd.ProcessState.ExitCode())
	}
}

// A job with an @reboot line and with times is the fleet's: it runs once a boot of the machine, also
// where several serves of that machine, as in containers, know nothing of each other but by the
// store, and while the first is at it.
func TestShared_RebootOnce(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			ups, over := filepath.Join(f.dir, "ups"), filepath.Join(f.dir, "over")
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=boot
@reboot  echo up >>%[1]s; until test -e %[2]s; do sleep 0.1; done
# cronce: name=boot
0 0 29 2 *  echo up >>%[1]s; until test -e %[2]s; do sleep 0.1; done
# cronce: name=often
@every 1s  echo often
`, ups, over))
			first := startServer(t, f.on("a", "serve", "--crontab", crontab))
			first.await(t, 0, "boot", "started")
			next := startServer(t, f.on("b", "serve", "--crontab", crontab))
			for at, n := 0, 0; n < 3; n++ { // by then it had its turn
				at = next.await(t, next.await(t, at, "often", "started"), "often", "succeeded")
			}
			write(t, over, "")
			first.await(t, 0, "boot", "succeeded")
			if next.says("boot", "started") {
				t.Error("it is started while another serve runs it")
			}
			if text, err := os.ReadFile(ups); err != nil || string(text) != "up\n" {
				t.Errorf("it ran %q, %v", text, err)
			}
		})
	}
}
