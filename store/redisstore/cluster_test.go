package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/storetest"
)

// TestCluster runs the suite on a Cluster. It has no databases: each subtest
// empties it.
func TestCluster(t *testing.T) {
	t.Parallel()
	g := testenv.StartRedisCluster(t)
	at := "redis+cluster://:" + g.Password() + "@" + strings.Join(g.Addrs(), ",")
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		for _, node := range g.Nodes {
			node.Do("FLUSHALL")
		}
		s := &underTest{url: at}
		h := s.harness()
		h.Ticks = 50
		// The proxy is for one server.
		h.DropReply, h.Partition = nil, nil
		return h
	})
}

// Of three servers one comes back empty: its jobs are in doubt, those of the
// others go on. All of its jobs are, from then on, and not each from its next
// claim.
func TestClusterShardForgets(t *testing.T) {
	t.Parallel()
	g := testenv.StartRedisCluster(t)
	s := &underTest{url: "redis+cluster://:" + g.Password() + "@" + strings.Join(g.Addrs(), ",")}
	d := s.open(t, s.url)
	ctx := t.Context()
	if err := d.Init(ctx); err != nil {
		t.Fatal(err)
	}
	waits := s.open(t, s.url+"?replicas=1") // of which there are none
	if _, err := cronce.NewStore(waits).Claim(ctx, claimOf(t, d, "waits")); err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("claim that waits for a replica: %v", err)
	}
	g.Nodes[1].Do("FLUSHALL")
	var doubted, fine []string
	for i := range 60 {
		job := string(rune('a'+i%26)) + string(rune('a'+i/26))
		c := claimOf(t, d, job)
		c.Tick = c.Tick.Add(-time.Minute)
		_, err := cronce.NewStore(d).Claim(ctx, c)
		var skipped *cronce.SkippedError
		switch {
		case err == nil:
			fine = append(fine, job)
		case errors.As(err, &skipped) && skipped.Run.Skip == cronce.SkipStoreRestarted:
			doubted = append(doubted, job)
		default:
			t.Fatal(err)
		}
	}
	if len(doubted) == 0 || len(fine) < len(doubted) {
		t.Errorf("%d jobs in doubt and %d not, of one server and of two", len(doubted), len(fine))
	}
	// A job that nobody has claimed since: its tick after the first sight runs.
	s.offset.Add((2 * cronce.MaxTTL).Microseconds())
	for i := range 20 {
		c := claimOf(t, d, "later "+string(rune('a'+i)))
		c.Tick = c.Tick.Add(-time.Minute)
		if _, err := cronce.NewStore(d).Claim(ctx, c); err != nil {
			t.Errorf("a tick long after: %v", err)
		}
	}
}
