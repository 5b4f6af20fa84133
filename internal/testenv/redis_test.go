package testenv

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
)

func TestRedis(t *testing.T) {
	one, two := Redis(t), Redis(t)
	if one == two {
		t.Errorf("two tests have %s", one)
	}
	u, err := url.Parse(one)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	secret, _ := u.User.Password()
	answer := make([]byte, len("-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n:0\r\n"))
	fmt.Fprintf(c, "PING\r\nAUTH %s\r\nSELECT %s\r\nDBSIZE\r\n", secret, strings.TrimPrefix(u.Path, "/"))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n:0\r\n" {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestStartRedis(t *testing.T) {
	t.Parallel()
	s := StartRedis(t)
	n := 0
	hurt(t, s.Server, func() {
		n++
		s.Do("SET", fmt.Sprint("key", n), "1")
	}, func() string { return s.Do("DBSIZE") })
}

func TestStartRedisTLS(t *testing.T) {
	t.Parallel()
	s := StartRedisTLS(t)
	if got := s.Do("PING"); got != "PONG" {
		t.Errorf("it answers %q", got)
	}
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		t.Error("its certificate is taken by who does not know the authority")
	}
	if u := s.URL(); !strings.HasPrefix(u, "rediss://:"+password+"@"+s.Addr()) {
		t.Errorf("its URL is %s", u)
	}
}

func TestStartSentinels(t *testing.T) {
	t.Parallel()
	g := StartSentinels(t)
	g.Master.Do("SET", "key", "value")
	g.Master.Do("WAIT", "1", "0")
	g.Master.Kill()
	g.AwaitMaster(g.Replica)
	if got := g.Replica.Do("GET", "key"); got != "value" {
		t.Errorf("the new master has %q", got)
	}
}

// A failover that nobody needs is the quick way to another master.
func TestSentinelsFailover(t *testing.T) {
	t.Parallel()
	g := StartSentinels(t)
	g.Failover(g.Replica)
}

func TestStartRedisCluster(t *testing.T) {
	t.Parallel()
	g := StartRedisCluster(t)
	for i, key := range []string{"b", "c", "a"} { // of the slots 3300, 7365, 15495
		if got := g.Nodes[i].Do("SET", key, "value"); got != "OK" {
			t.Errorf("node %d answers %q", i, got)
		}
	}
	if _, err := g.Nodes[0].do("SET", "a", "value"); err == nil || !strings.Contains(err.Error(), "MOVED 15495 "+g.Nodes[2].Addr()) {
		t.Errorf("a node that does not have the slot answers %v", err)
	}
	g.Nodes[2].Kill()
	await(t, "the others to see it", func() error { return g.Nodes[0].says("cluster_state:fail", "CLUSTER", "INFO") })
	g.Nodes[2].Restart(Kept)
	g.AwaitOK(t)
}
