package cmd_test

import (
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
)

// A store that falls silent anywhere between a command's first word to it and the last, no
// connection being closed: the command ends soon, with 69 unless it has done its work.
func TestShared_FallsSilent(t *testing.T) {
	t.Parallel()
	urls := map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB}
	for kind, start := range urls {
		for _, args := range [][]string{{"status"}, {"pause", "job"}, {"release", "job"}} {
			t.Run(kind+" "+args[0], func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, start(t))
				f.ok(t, "run", "--manual", "job", "--", "true")
				direct := f.url
				for words := 0; ; words++ {
					var said *atomic.Int64
					f.url, said = silentAfter(t, direct, words)
					began := time.Now()
					out, err := f.command(append(args, "--store-timeout", "1s")...).CombinedOutput()
					code, _ := exitCode(err)
					if code == 0 && words > 0 || said.Load() <= int64(words) && said.Load() > 0 {
						break // it has said all that it has to say
					}
					if code != 69 {
						t.Fatalf("silent after %d words: exit %d\n%s", words, code, out)
					}
					// Each step has twice its time and a goodbye a second; a driver's own patience
					// is fifteen.
					if took := time.Since(began); took > 10*time.Second {
						t.Errorf("silent after %d words: took %s", words, took)
					}
				}
			})
		}
	}
}

// silentAfter is the URL of a way to a store on which nothing passes any more, and nothing is
// closed, once clients have said so many things.
func silentAfter(t *testing.T, to string, words int) (way string, said *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	said = new(atomic.Int64)
	server := u.Host
	pass := func(to, from net.Conn, counts bool) {
		defer to.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if counts && said.Add(1) > int64(words) || said.Load() > int64(words) {
				continue
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go pass(there, client, true)
			go pass(client, there, false)
		}
	}()
	u.Host = l.Addr().String()
	return u.String(), said
}
