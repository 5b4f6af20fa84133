package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// Sentinels is a Redis, its replica and three sentinels that watch over them.
type Sentinels struct {
	Master    *RedisServer // as it began
	Replica   *RedisServer // as it began
	Sentinels []*Server

	t testing.TB
}

// MasterName is what the sentinels call the Redis that they watch over.
const MasterName = "cronce"

// StartSentinels starts a Redis, a replica and three sentinels, and returns
// when they all know each other. They hold a silent master for dead after two
// seconds: under one second they ask too seldom to be sure. The password of the sentinels is that of the servers.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	master := StartRedis(t)
	g := &Sentinels{Master: master, Replica: master.StartReplica(t), t: t}
	for range 3 {
		s, err := newSentinel(t, master)
		if err != nil {
			t.Fatal(err)
		}
		g.Sentinels = append(g.Sentinels, s)
	}
	await(t, "the sentinels to know each other", func() error {
		for _, s := range g.Sentinels {
			if err := redisSays(s, false, "OK 3 usable Sentinels", "SENTINEL", "CKQUORUM", MasterName); err != nil {
				return err
			}
			if err := redisSays(s, false, "slave-priority", "SENTINEL", "REPLICAS", MasterName); err != nil {
				return err
			}
		}
		return nil
	})
	return g
}

func newSentinel(t testing.TB, master *RedisServer) (*Server, error) {
	s, err := newServer(t, "redis-sentinel", "")
	if err != nil {
		return nil, err
	}
	s.argv = []string{"redis-server", s.path("sentinel.conf"), "--sentinel"}
	s.ready = func() error { return redisSays(s, false, "PONG", "PING") }
	return s, s.begin(func() error {
		return s.write("sentinel.conf", strings.Join([]string{
			"bind 127.0.0.1",
			fmt.Sprintf("port %d", s.port),
			"dir " + s.dir,
			"requirepass " + password,
			"sentinel sentinel-pass " + password,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterName, master.port),
			fmt.Sprintf("sentinel auth-pass %s %s", MasterName, password),
			fmt.Sprintf("sentinel down-after-milliseconds %s 2000", MasterName),
			fmt.Sprintf("sentinel failover-timeout %s 5000", MasterName),
		}, "\n")+"\n")
	})
}

// Addrs is where the sentinels listen.
func (g *Sentinels) Addrs() []string {
	var all []string
	for _, s := range g.Sentinels {
		all = append(all, s.Addr())
	}
	return all
}

// Password is that of the sentinels and of the servers.
func (g *Sentinels) Password() string { return password }

// Failover has the sentinels make the other server the master, though the
// present one is well, and waits for it as AwaitMaster does.
func (g *Sentinels) Failover(to *RedisServer) {
	g.t.Helper()
	// It is refused for some seconds after another one.
	await(g.t, "a failover to begin", func() error {
		return redisSays(g.Sentinels[0], false, "OK", "SENTINEL", "FAILOVER", MasterName)
	})
	g.AwaitMaster(to)
}

// AwaitMaster waits until every sentinel that runs names that server as the
// master, and it agrees. After Master.Kill() or Master.Stop(), the
// sentinels see to it by themselves.
func (g *Sentinels) AwaitMaster(s *RedisServer) {
	g.t.Helper()
	await(g.t, s.Addr()+" to become the master", func() error {
		for _, sentinel := range g.Sentinels {
			if sentinel.ended() {
				continue
			}
			port := fmt.Sprint(s.port)
			if err := redisSays(sentinel, false, port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName); err != nil {
				return err
			}
		}
		return s.says("role:master", "INFO", "replication")
	})
}
