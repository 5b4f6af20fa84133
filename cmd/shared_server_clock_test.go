package cmd_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// The clock of a real server that jumps is said once, and once that it is right again; meanwhile
// nothing is started, no tick before its time is decided, and none is sent twice.
func TestShared_ServersClockIsSet(t *testing.T) {
	t.Parallel()
	type ownClock interface {
		URL() string
		OwnClock() (set func(time.Duration))
	}
	for kind, start := range map[string]func(testing.TB) ownClock{
		"postgres": func(t testing.TB) ownClock { return testenv.StartPostgres(t) },
		"mysql":    func(t testing.TB) ownClock { return testenv.StartMariaDB(t) },
	} {
		for off, way := range map[time.Duration]string{-time.Hour: "ahead of", time.Hour: "behind"} {
			t.Run(fmt.Sprint(kind, " ", off), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				set := s.OwnClock()
				f := newFleet(t, s.URL())
				sent := filepath.Join(f.dir, "sent")
				crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=often catchup=all catchup-window=10m start-deadline=10m
@every 1s  echo "$CRONCE_TICK" >>%s
`, sent))
				var serves []*server
				for _, host := range []string{"a", "b"} {
					serves = append(serves, startServer(t, f.on(host, "serve", "--crontab", crontab)))
				}
				for _, serve := range serves {
					serve.await(t, 0, "often", "succeeded")
				}
				jumped := time.Now()
				set(off)
				for _, serve := range serves {
					serve.await(t, 0, "PROBLEM", "skew", way+" the store's", "nothing is started")
				}
				set(0)
				for _, serve := range serves {
					serve.await(t, serve.await(t, 0, "  serve  in time"), "often", "succeeded")
				}
				everyTick(t, f, serves[0], "often")
				for _, serve := range serves {
					if code := serve.stop(syscall.SIGTERM); code != 0 {
						t.Errorf("exit %d", code)
					}
					if n := serve.count("NOT RUN"); n > 0 {
						t.Errorf("%d ticks are given up", n)
					}
				}
				f.sentOnce(t, sent, "often")
				for _, r := range f.runs(t) {
					if r.Tick.After(jumped.Add(30 * time.Minute)) {
						t.Errorf("tick %s is decided, which is to come", r.Tick)
					}
				}
			})
		}
	}
}
