package testenv

import (
	"fmt"
	"net"
	"testing"
)

// GaleraNode is a MariaDB that is a node of a Galera cluster.
type GaleraNode struct {
	*MariaDBServer
	group string // where it speaks to the others
}

// StartGalera starts a node for this test alone: one that fetches the data from
// another and joins its cluster, or with nil the first of a new one.
func StartGalera(t testing.TB, other *GaleraNode) *GaleraNode {
	t.Helper()
	ports := freeAddresses(t, 3)
	cluster := []string{"--wsrep-cluster-address=gcomm://", "--wsrep-new-cluster"}
	if other != nil {
		cluster = []string{"--wsrep-cluster-address=gcomm://" + other.group}
	}
	return &GaleraNode{group: ports[0], MariaDBServer: StartMariaDB(t, append(cluster,
		"--wsrep-on=1", "--wsrep-provider=/usr/lib/galera/libgalera_smm.so", "--binlog-format=ROW", "--wsrep-cluster-name=test",
		"--wsrep-node-address="+ports[0], "--wsrep-sst-method=rsync", "--wsrep-sst-receive-address="+ports[2],
		fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=8M", ports[0], ports[1]))...)}
}

// freeAddresses are addresses at which nobody listens.
func freeAddresses(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}
