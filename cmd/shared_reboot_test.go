package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// What runs once a boot of the machine runs once, also where several serves of that machine, as
// in containers, know nothing of each other but by the store, and while the first is at it.
func TestShared_RebootOnce(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, open(t))
			ups, over := filepath.Join(f.dir, "ups"), filepath.Join(f.dir, "over")
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=boot
@reboot  echo up >>%s; until test -e %s; do sleep 0.1; done
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
