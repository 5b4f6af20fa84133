package redisstore

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// A server that comes back without what it had decided says so within the
// next claim: what was due is skipped by name, no lease is given for MaxTTL, and
// then all goes on.

func TestKilledWithoutPersistence(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "appendonly no")
	s := &underTest{url: server.URL()}
	forgets(t, s, func(d *driver) string {
		server.Restart(testenv.Kept) // kill -9, and nothing was kept
		findsItsWay(t, d)
		return s.url
	})
}

func TestStaleRDB(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "appendonly no")
	s := &underTest{url: server.URL()}
	saved := false
	forgets(t, s, func(*driver) string {
		if !saved {
			t.Fatal("nothing was saved")
		}
		server.Restart(testenv.Kept)
		return s.url
	}, func() { server.Do("SAVE"); saved = true })
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	g := testenv.StartSentinels(t)
	at := "redis+sentinel://:" + g.Password() + "@" + strings.Join(g.Addrs(), ",") + "/" + testenv.MasterName + "/2"
	s := &underTest{url: at}
	forgets(t, s, func(d *driver) string {
		g.Master.Kill()
		g.AwaitMaster(g.Replica)
		findsItsWay(t, d)
		return at
	})
}

// A promoted replica that had all is not known to have had it; the same two
// servers change places again, and the process is the one it was at first.
func TestPromotedTwice(t *testing.T) {
	t.Parallel()
	a := testenv.StartRedis(t)
	b := a.StartReplica(t)
	s := &underTest{url: a.URL()}
	d := s.open(t, a.URL())
	ctx := t.Context()
	if err := d.Init(ctx); err != nil {
		t.Fatal(err)
	}
	mustRun(t, d, "first")
	// Nothing is claimed at b, and so it leaves no mark: a would not know by its data.
	for _, step := range [][2]*testenv.RedisServer{{b, a}, {a, b}} {
		step[0].Do("REPLICAOF", "NO", "ONE")
		step[1].Do("REPLICAOF", "127.0.0.1", port(step[0]))
		awaitText(t, step[1], "master_link_status:up")
	}
	d = s.open(t, a.URL())
	mustSkip(t, d, "second")
}

// A master takes another replication id with its first replica. That loses
// nothing, and nothing is skipped.
func TestFirstReplicaIsNoFailover(t *testing.T) {
	t.Parallel()
	a := testenv.StartRedis(t)
	s := &underTest{url: a.URL()}
	d := s.open(t, a.URL())
	if err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustRun(t, d, "first")
	before := a.Do("INFO", "replication")
	a.StartReplica(t)
	if after := a.Do("INFO", "replication"); info(before)["master_replid"] == info(after)["master_replid"] {
		t.Fatal("the replication id is the one it was: this tests nothing")
	}
	mustRun(t, d, "second")
	mustRun(t, d, "third")
}

// Emptied by hand, by the process that has it: there is no other sign of it than
// that it is empty.
func TestFlushed(t *testing.T) {
	t.Parallel()
	s := &underTest{url: testenv.Redis(t)}
	forgets(t, s, func(d *driver) string {
		if err := d.client.Do(t.Context(), d.client.B().Flushdb().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		return s.url
	})
}

// forgets has a store run something, lose it, and be asked for it again.
func forgets(t *testing.T, s *underTest, lose func(*driver) string, meanwhile ...func()) {
	t.Helper()
	ctx := t.Context()
	d := s.open(t, s.url)
	if err := d.Init(ctx); err != nil {
		t.Fatal(err)
	}
	mustRun(t, d, "job")
	for _, f := range meanwhile {
		f()
	}
	decided := claimOf(t, d, "job")
	before, err := cronce.NewStore(d).Claim(ctx, decided)
	if err != nil {
		t.Fatal(err)
	}
	d = s.open(t, lose(d))
	again := decided
	again.RunID = cronce.NewRunID()
	_, err = cronce.NewStore(d).Claim(ctx, again)
	var skipped *cronce.SkippedError
	if !errors.As(err, &skipped) && !errors.As(err, new(*cronce.TakenError)) || skipped != nil && skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Fatalf("a tick that had been decided: %v, want store-restarted, or taken", err)
	}
	byHand := claimOf(t, d, "job")
	byHand.Tick = time.Time{}
	_, err = cronce.NewStore(d).Claim(ctx, byHand)
	var held *cronce.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("a run while another may go on that is not on record: %v, want *HeldError", err)
	}
	if err := d.Finish(ctx, before, cronce.Result{Outcome: cronce.Succeeded}); err != nil && !errors.Is(err, cronce.ErrLost) {
		t.Errorf("the run from before ends with %v", err)
	}
	s.offset.Add((cronce.MaxTTL + time.Second).Microseconds())
	byHand.Offered = held.Offered
	after, err := cronce.NewStore(d).Claim(ctx, byHand)
	if err != nil {
		t.Fatalf("after %s: %v", cronce.MaxTTL, err)
	}
	if after.Run.Fence <= before.Run.Fence {
		t.Errorf("fence %d, the run that was forgotten had %d", after.Run.Fence, before.Run.Fence)
	}
	if err := d.Finish(ctx, after, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Error(err)
	}
	s.offset.Add((2 * time.Second).Microseconds())
	mustRun(t, d, "job")
}

// findsItsWay waits until a client of before is connected with the server that
// there is now.
func findsItsWay(t *testing.T, d *driver) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := d.Now(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// claimOf is a claim of the tick that is due now.
func claimOf(t *testing.T, d *driver, job string) cronce.Claim {
	t.Helper()
	now, err := d.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cronce.Claim{RunID: cronce.NewRunID(), Job: job, Tick: now.Truncate(time.Second), Holder: cronce.Holder{Host: "host", PID: 4711}}
}

// mustRun claims and finishes a tick: of a while ago, or, where the store has
// seen itself since, the one that is due now.
func mustRun(t *testing.T, d *driver, job string) {
	t.Helper()
	c := claimOf(t, d, job)
	if d.offset.Load() == 0 {
		c.Tick = c.Tick.Add(-100 * time.Second)
	}
	l, err := cronce.NewStore(d).Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
}

// mustSkip claims the tick that is due now, at a store that may lack decisions.
func mustSkip(t *testing.T, d *driver, job string) {
	t.Helper()
	_, err := cronce.NewStore(d).Claim(t.Context(), claimOf(t, d, job))
	var skipped *cronce.SkippedError
	if !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Fatalf("claim: %v, want it skipped as store-restarted", err)
	}
}

func port(s *testenv.RedisServer) string {
	u, _ := url.Parse(s.URL())
	return u.Port()
}

// awaitText waits until INFO says so.
func awaitText(t *testing.T, s *testenv.RedisServer, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.Do("INFO", "replication"), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", text)
		}
	}
}
