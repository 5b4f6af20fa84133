package mysqlstore

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// due is a claim of a tick that is due, so many seconds ago.
func due(job string, ago int) cronce.Claim {
	c := byHand(job)
	c.Tick = time.Now().UTC().Truncate(time.Second).Add(-time.Duration(ago) * time.Second)
	return c
}

// known opens the store and makes it known.
func known(t *testing.T, storeURL string) *driver {
	t.Helper()
	d := open(t, storeURL)
	if err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// claimed claims and must get the lease.
func claimed(t *testing.T, s *cronce.Store, c cronce.Claim) cronce.Lease {
	t.Helper()
	l, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return l
}

// doubted checks that a store does not trust its record: a tick that was due so
// many seconds ago is skipped, and no lease is given.
func doubted(t *testing.T, s *cronce.Store, ago int) {
	t.Helper()
	_, err := s.Claim(t.Context(), due("job", ago))
	var skipped *cronce.SkippedError
	if !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Errorf("claim of a tick due before: %v, want store-restarted", err)
	}
	_, err = s.Claim(t.Context(), byHand("job"))
	var held *cronce.HeldError
	if !errors.As(err, &held) || held.Holder.ID != "" {
		t.Errorf("claim by hand: %v, want *HeldError without a holder", err)
	}
}

// TestAnotherServerIsSeenInTheClaim defends against a server that takes
// another's place under a client that is connected.
func TestAnotherServerIsSeenInTheClaim(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	s := cronce.NewStore(known(t, server.URL()))
	claimed(t, s, due("job", 10))
	server.SQL("SET GLOBAL server_id = 7")
	doubted(t, s, 1)
	if err := s.Init(t.Context()); err != nil { // after a planned change, a person says so
		t.Fatal(err)
	}
	claimed(t, s, due("other", 1))
}

// TestPromotedReplica is the whole of it: asynchronous replication, in which
// the last decisions are lost with the primary.
func TestPromotedReplica(t *testing.T) {
	t.Parallel()
	options := []string{"--log-bin", "--sync-binlog=1", "--replicate-do-db=cronce"}
	primary := testenv.StartMariaDB(t, append(options, "--server-id=1")...)
	replica := testenv.StartMariaDB(t, append(options, "--server-id=2")...)
	host, port, _ := net.SplitHostPort(primary.Addr())
	position := primary.SQL("SELECT @@gtid_binlog_pos")
	primary.SQL("CREATE USER replica IDENTIFIED BY 'replica'; GRANT REPLICATION SLAVE ON *.* TO replica")
	replica.SQL(fmt.Sprintf("SET GLOBAL gtid_slave_pos = '%s'; CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='replica', MASTER_PASSWORD='replica', MASTER_USE_GTID=slave_pos; SET GLOBAL read_only = 1; START SLAVE", position, host, port))

	s := cronce.NewStore(known(t, primary.URL()))
	arrived := claimed(t, s, due("job", 20))
	if got := replica.SQL("SELECT MASTER_GTID_WAIT('" + primary.SQL("SELECT @@gtid_binlog_pos") + "', 60)"); got != "0" {
		t.Fatalf("the replica does not follow: %s\n%s", got, replica.SQL("SHOW SLAVE STATUS"))
	}
	_, err := Open(t.Context(), Options{URL: replica.URL()})
	refused(t, err, "read-only", "primary")

	replica.SQL("STOP SLAVE")
	if err := s.Finish(t.Context(), arrived, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	lost := claimed(t, s, due("job", 10))
	primary.Kill()
	replica.SQL("RESET SLAVE ALL; SET GLOBAL read_only = 0")

	s = cronce.NewStore(open(t, replica.URL()))
	c := due("job", 0)
	c.RunID, c.Tick = cronce.NewRunID(), lost.Run.Tick // lost with the primary: it is not run again
	_, err = s.Claim(t.Context(), c)
	var skipped *cronce.SkippedError
	if !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Errorf("claim of the tick that was lost: %v, want store-restarted", err)
	}
	doubted(t, s, 1)
}

// TestStoreThatWentBack defends that whoever was there sees that a server has
// its data of earlier: the record itself cannot tell.
func TestStoreThatWentBack(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	d := known(t, server.URL())
	s, other := cronce.NewStore(d), cronce.NewStore(open(t, server.URL()))
	finish := func(l cronce.Lease) {
		t.Helper()
		if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	finish(claimed(t, s, due("job", 30)))
	server.Snapshot()
	finish(claimed(t, s, due("job", 20)))
	finish(claimed(t, other, due("job", 10)))
	server.Restart(testenv.Stale)
	doubted(t, s, 1)
	seen := record(t, d).seen
	doubted(t, other, 1000) // for it, too; it is the same sight
	if again := record(t, d).seen; !again.Equal(seen) {
		t.Errorf("seen at %v, and again at %v", seen, again)
	}
}

// TestRestartIsNoLoss defends that a server which was killed and comes back
// goes on where it was.
func TestRestartIsNoLoss(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	s := cronce.NewStore(known(t, server.URL()))
	c := due("job", 10)
	c.TTL = cronce.MaxTTL
	l := claimed(t, s, c)
	server.Restart(testenv.Kept)
	if _, err := s.Renew(t.Context(), l); err != nil { // on a connection that the server closed
		t.Errorf("renewal after a restart: %v", err)
	}
	c.RunID = cronce.NewRunID()
	if _, err := s.Claim(t.Context(), c); !errors.As(err, new(*cronce.TakenError)) {
		t.Errorf("the tick again: %v, want *TakenError", err)
	}
	claimed(t, s, due("other", 1))
}

// record is what the store has on record of itself.
func record(t *testing.T, d *driver) server {
	t.Helper()
	var s server
	err := d.atomic(t.Context(), func(x *tx) error { return x.enterStore(t.Context(), &s, new(time.Time)) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}
