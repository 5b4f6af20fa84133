package cmd_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// A store that is slow to answer, though not as slow as an attempt to renew a lease may be, costs
// no run its lease, and no run's end its record. Nor is the time that answers take taken for a
// clock that is off.
func TestShared_SlowStore(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			proxy := testenv.NewProxy(t, f.url)
			direct := f.url
			f.url = proxy.URL()
			// Longer than a lease lasts that is not renewed, and that it was renewed at the start.
			crontab := write(t, filepath.Join(f.dir, "crontab"), "# cronce: name=long\n@reboot  echo up; sleep 18; echo done\n# cronce: name=long\n0 0 29 2 *  echo up; sleep 18; echo done\n")
			serve := startServer(t, f.command("serve", "--crontab", crontab))
			serve.await(t, 0, "long", "| up")
			proxy.Delay(300 * time.Millisecond) // so that there is time for a new connection, too
			serve.await(t, serve.await(t, 0, "long", "| done"), "long", "succeeded")
			f.url = direct
			if runs := f.runs(t); len(runs) != 1 || runs[0].Outcome != "succeeded" {
				t.Errorf("on record: %+v", runs)
			}
			for _, word := range []string{"AWAY", "PROBLEM"} {
				if n := serve.count(word); n > 0 {
					t.Errorf("%s is said %d times", word, n)
				}
			}
			proxy.Restore()
		})
	}
}
