package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// trouble is a server of a shared store that is about to get into some.
type trouble struct {
	url        string
	begin, end func()
	says       string // what a run says of it meanwhile
	exit       int    // and ends with
}

// troubles are what servers do that neither answer as they should nor are gone. ok is
// false where it cannot be tried here.
var troubles = map[string]func(t *testing.T) (trouble, bool){
	"redis: its memory is full": func(t *testing.T) (trouble, bool) {
		return configured(t, "maxmemory", "1", "0", "OOM"), true
	},
	"redis: it lacks replicas": func(t *testing.T) (trouble, bool) {
		return configured(t, "min-replicas-to-write", "1", "0", "NOREPLICAS"), true
	},
	"redis: a snapshot fails": func(t *testing.T) (trouble, bool) {
		s := testenv.StartRedis(t, "appendonly no", `save "3600 1000000"`)
		in := filepath.Join(strings.Fields(s.Do("CONFIG", "GET", "dir"))[1], "dump.rdb", "in the way")
		return trouble{s.URL(), func() {
			if err := os.MkdirAll(in, 0o700); err != nil {
				t.Fatal(err)
			}
			s.Do("BGSAVE")
		}, func() {
			if err := os.RemoveAll(filepath.Dir(in)); err != nil {
				t.Fatal(err)
			}
			s.Do("BGSAVE")
		}, "MISCONF", 69}, true
	},
	"redis: its disk is full": func(t *testing.T) (trouble, bool) {
		s := testenv.StartRedis(t)
		disk, ok := s.SmallDisk("2m")
		return trouble{s.URL(), func() {
			disk.Fill()
			s.Do("SET", "filler", strings.Repeat("x", 16<<10)) // the next write needs room
		}, func() { disk.Free() }, "No space left on device", 69}, ok
	},
	"redis: it has as many clients as it takes": func(t *testing.T) (trouble, bool) {
		s := testenv.StartRedis(t)
		ask := redisAt(t, s.URL())
		return trouble{s.URL(), func() {
			ask("CONFIG SET maxclients 1")
			ask("CLIENT KILL TYPE normal SKIPME yes")
		}, func() { ask("CONFIG SET maxclients 1000") }, "", 69}, true
	},
	"postgres: it takes no writes": func(t *testing.T) (trouble, bool) {
		s := testenv.StartPostgres(t)
		return trouble{s.URL(), func() {
			s.SQL("ALTER SYSTEM SET default_transaction_read_only = on")
			s.SQL("SELECT pg_reload_conf()")
		}, func() {
			s.SQL("SET default_transaction_read_only = off;\nALTER SYSTEM RESET default_transaction_read_only;")
			s.SQL("SELECT pg_reload_conf()")
		}, "read-only", 78}, true
	},
	"postgres: it has as many clients as it takes": func(t *testing.T) (trouble, bool) {
		s := testenv.StartPostgres(t)
		return trouble{s.URL(), func() {
			s.SQL("ALTER DATABASE cronce CONNECTION LIMIT 0")
			s.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'cronce'")
		}, func() { s.SQL("ALTER DATABASE cronce CONNECTION LIMIT -1") }, "too many connections", 69}, true
	},
	"postgres: its disk is full": func(t *testing.T) (trouble, bool) {
		s := testenv.StartPostgres(t)
		disk, ok := s.SmallDisk("100m")
		return trouble{s.URL(), func() {
			disk.Fill()
			s.SQL("SELECT pg_switch_wal()") // the next write needs room
		}, func() {
			disk.Free()
			s.Restart(testenv.Kept) // it has ended by itself
		}, "", 69}, ok
	},
	"mysql: it takes no writes": func(t *testing.T) (trouble, bool) {
		s := testenv.StartMariaDB(t)
		return trouble{s.URL(), func() { s.SQL("SET GLOBAL read_only = 1") }, func() { s.SQL("SET GLOBAL read_only = 0") }, "read-only", 78}, true
	},
	"mysql: it has as many clients as it takes": func(t *testing.T) (trouble, bool) {
		s := testenv.StartMariaDB(t)
		return trouble{s.URL(), func() {
			s.SQL("ALTER USER cronce WITH MAX_USER_CONNECTIONS -1")
			s.SQL("KILL USER cronce")
		}, func() { s.SQL("ALTER USER cronce WITH MAX_USER_CONNECTIONS 0") }, "max_user_connections", 69}, true
	},
}

// configured is the trouble of a Redis that a setting makes.
func configured(t *testing.T, setting, bad, good, says string) trouble {
	s := testenv.StartRedis(t)
	return trouble{s.URL(), func() { s.Do("CONFIG", "SET", setting, bad) }, func() { s.Do("CONFIG", "SET", setting, good) }, says, 69}
}

// redisAt is a connection to a Redis that is there before it takes no more of them.
func redisAt(t *testing.T, target string) (ask func(command string)) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	answers := bufio.NewReader(c)
	ask = func(command string) {
		t.Helper()
		fmt.Fprintf(c, "%s\r\n", command)
		if answer, err := answers.ReadString('\n'); err != nil || answer[0] == '-' {
			t.Fatalf("%s: %q, %v", command, answer, err)
		}
	}
	password, _ := u.User.Password()
	ask("AUTH " + password)
	return ask
}

// A server that is in trouble is for those who serve one that is away, and said with its own
// words, not at each tick; when it is well again they go on by themselves. No tick is sent twice, each is
// decided, and what is on record as sent was sent.
func TestShared_ServerInTrouble(t *testing.T) {
	t.Parallel()
	for name, start := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ok := start(t)
			if !ok {
				return
			}
			f := newFleet(t, s.url)
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
			s.begin()
			for _, serve := range serves {
				serve.await(t, 0, "AWAY")
			}
			out, err := f.command("run", "--manual", "--store-timeout", "3s", "byhand", "--", "echo", "ran").CombinedOutput()
			if code, _ := exitCode(err); code != s.exit || strings.Contains(string(out), "ran\n") || !strings.Contains(string(out), s.says) {
				t.Errorf("a run meanwhile: exit %d, want %d and %q\n%s", code, s.exit, s.says, out)
			}
			s.end()
			for _, serve := range serves {
				serve.await(t, serve.await(t, 0, "  serve  back"), "often", "succeeded")
			}
			everyTick(t, f, serves[0], "often")
			for _, serve := range serves {
				if code := serve.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
				// Twice: a tick that another had decided before is answered all the same.
				if away, back := serve.count("AWAY"), serve.count("back"); away > 2 || back != away {
					t.Errorf("told %d times that it is away, %d that it is back", away, back)
				}
				if n := serve.count("NOT RUN"); n > 0 {
					t.Errorf("%d ticks are given up", n)
				}
			}
			f.sentOnce(t, sent, "often")
		})
	}
}

// sentOnce compares what a job has sent, a tick a line, with what is on record.
func (f *fleet) sentOnce(t *testing.T, path, job string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if sent[strings.TrimSpace(line)]++; sent[strings.TrimSpace(line)] > 1 {
			t.Errorf("tick %s was sent twice", strings.TrimSpace(line))
		}
	}
	for _, r := range f.runs(t) {
		tick := cronce.Stamp(r.Tick)
		n := sent[tick]
		delete(sent, tick)
		if r.Job == job && (r.Outcome == cronce.Succeeded && n == 0 || r.Skip != "" && n > 0) {
			line, _ := json.Marshal(r)
			t.Errorf("tick %s was sent %d times; on record is %s", tick, n, line)
		}
	}
	for tick := range sent {
		t.Errorf("tick %s was sent, and is not on record", tick)
	}
}
