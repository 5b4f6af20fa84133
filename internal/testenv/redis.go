package testenv

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// RedisServer is a Redis of a test's own. What it has answered it has written
// to a file (append-only), so that Restart(Kept) keeps all of it, as Redis
// does where it is told to; with Gone it comes back as one without persistence
// does.
type RedisServer struct {
	*Server
	tls bool
}

const redisDatabases = 4096

var (
	sharedRedis = sync.OnceValues(func() (*RedisServer, error) { return newRedis(nil, "redis", false) })
	redisUsed   atomic.Int64
)

// Redis returns the URL of an empty database, redis://:PASSWORD@HOST:PORT/NUMBER,
// on a server that all tests of the process share.
func Redis(t testing.TB) string {
	t.Helper()
	need(t, "redis-server", "redis-cli")
	s, err := sharedRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.show(t) })
	n := redisUsed.Add(1)
	if n >= redisDatabases {
		t.Fatalf("the shared Redis has %d databases, all of which were used", redisDatabases)
	}
	return s.URL() + strconv.FormatInt(n, 10)
}

// StartRedis starts a Redis for this test alone. Settings are lines of its
// settings file, which override those that it has by itself.
func StartRedis(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	return startRedis(t, "redis", false, settings...)
}

// StartRedisTLS starts a Redis for this test alone that takes TLS only, with a
// certificate for 127.0.0.1 and localhost that CAFile vouches for.
func StartRedisTLS(t testing.TB) *RedisServer {
	t.Helper()
	return startRedis(t, "redis", true)
}

// StartReplica starts a replica of the server, and returns when it has
// caught up.
func (s *RedisServer) StartReplica(t testing.TB) *RedisServer {
	t.Helper()
	r := startRedis(t, "redis-replica", false, fmt.Sprintf("replicaof 127.0.0.1 %d", s.port))
	await(t, "the replica to have caught up", func() error {
		return r.says("master_link_status:up", "INFO", "replication")
	})
	return r
}

// URL is redis://:PASSWORD@HOST:PORT/, or rediss: where it takes TLS.
func (s *RedisServer) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: s.Addr(), Path: "/"}
	if s.tls {
		u.Scheme = "rediss"
	}
	return u.String()
}

// CAFile is the PEM file of who vouches for the server's certificate.
func (s *RedisServer) CAFile() string { return s.path("ca.pem") }

// Do sends a command to the server with redis-cli and returns what that
// prints.
func (s *RedisServer) Do(args ...string) string {
	s.t.Helper()
	out, err := s.do(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func startRedis(t testing.TB, name string, tls bool, settings ...string) *RedisServer {
	t.Helper()
	need(t, "redis-server", "redis-cli")
	s, err := newRedis(t, name, tls, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRedis(t testing.TB, name string, tls bool, settings ...string) (*RedisServer, error) {
	server, err := newServer(t, name, "")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{Server: server, tls: tls}
	if tls {
		if err := s.certify(); err != nil {
			return nil, err
		}
	}
	s.argv = []string{"redis-server", s.path("redis.conf")}
	s.fresh = func() error { return os.Mkdir(s.path("data"), 0o700) }
	s.ready = func() error { return s.says("PONG", "PING") }
	return s, s.begin(func() error {
		lines := append([]string{
			"bind 127.0.0.1",
			"dir " + s.path("data"),
			"requirepass " + password,
			"masterauth " + password,
			`save ""`,
			"appendonly yes",
			"appendfsync no", // no test takes the power away
			fmt.Sprintf("databases %d", redisDatabases),
			"repl-diskless-sync-delay 0",
		}, settings...)
		if tls {
			lines = append(lines, "port 0", fmt.Sprintf("tls-port %d", s.port), "tls-auth-clients no",
				"tls-ca-cert-file "+s.path("ca.pem"), "tls-cert-file "+s.path("cert.pem"), "tls-key-file "+s.path("key.pem"))
		} else {
			lines = append(lines, fmt.Sprintf("port %d", s.port))
		}
		return s.write("redis.conf", strings.Join(lines, "\n")+"\n")
	})
}

// says tells whether the answer to a command contains the text.
func (s *RedisServer) says(text string, args ...string) error {
	return redisSays(s.Server, s.tls, text, args...)
}

func (s *RedisServer) do(args ...string) (string, error) { return redisDo(s.Server, s.tls, args...) }

// redisDo asks a Redis or Sentinel.
func redisDo(s *Server, tls bool, args ...string) (string, error) {
	argv := []string{"redis-cli", "-e", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)}
	if tls {
		argv = append(argv, "--tls", "--cacert", s.path("ca.pem"))
	}
	cmd := s.client(append(argv, args...)...)
	cmd.Env = append(cmd.Env, "REDISCLI_AUTH="+password)
	out, err := output(cmd, "")
	if err != nil {
		return "", fmt.Errorf("%s on %s: %v: %w", s.name, s.Addr(), args, err)
	}
	return out, nil
}

func redisSays(s *Server, tls bool, text string, args ...string) error {
	out, err := redisDo(s, tls, args...)
	if err == nil && !strings.Contains(out, text) {
		err = fmt.Errorf("%s on %s: %v says no %q but\n%s", s.name, s.Addr(), args, text, out)
	}
	return err
}
