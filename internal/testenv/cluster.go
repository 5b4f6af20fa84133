package testenv

import (
	"fmt"
	"strconv"
	"testing"
)

// RedisCluster is a Redis Cluster of three masters without replicas.
type RedisCluster struct {
	Nodes []*RedisServer // the slots 0-5460, 5461-10922, 10923-16383
}

// StartRedisCluster starts three masters and returns when each says that the
// cluster is well. It holds a silent node for dead after a second.
func StartRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	g := &RedisCluster{}
	slots := []int{0, 5461, 10923, 16384} // as redis-cli parts them
	var buses []int
	for i := range 3 {
		bus, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		buses = append(buses, bus)
		s := startRedis(t, "redis-cluster", false,
			"cluster-enabled yes",
			"cluster-config-file nodes.conf",
			fmt.Sprintf("cluster-port %d", bus),
			"cluster-node-timeout 1000")
		g.Nodes = append(g.Nodes, s)
		s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots[i]), strconv.Itoa(slots[i+1]-1))
		// They would never get over having the same epoch, all by themselves.
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, s := range g.Nodes[1:] {
		g.Nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(s.port), strconv.Itoa(buses[i+1]))
	}
	g.AwaitOK(t)
	return g
}

// AwaitOK waits until every node says that all slots are served.
func (g *RedisCluster) AwaitOK(t testing.TB) {
	t.Helper()
	await(t, "the cluster to be well", func() error {
		for _, s := range g.Nodes {
			if err := s.says("cluster_state:ok", "CLUSTER", "INFO"); err != nil {
				return err
			}
			if err := s.says("cluster_known_nodes:3", "CLUSTER", "INFO"); err != nil {
				return err
			}
		}
		return nil
	})
}

// Addrs is where the nodes listen.
func (g *RedisCluster) Addrs() []string {
	var all []string
	for _, s := range g.Nodes {
		all = append(all, s.Addr())
	}
	return all
}

// Password is that of each node.
func (g *RedisCluster) Password() string { return password }
