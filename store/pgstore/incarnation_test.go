package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// TestPromotedReplica defends rule 5.7 on the real thing: an asynchronous
// replica that lacks the last claims takes the primary's place.
func TestPromotedReplica(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t)
	s := known(t, primary.URL())
	arrived := claimOf("job", 5)
	l := must(s.Claim(t.Context(), arrived))(t)
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	replica := primary.StartReplica(t)
	lag(t, replica)
	onlyThere := claimOf("job", 4)
	running := must(s.Claim(t.Context(), onlyThere))(t)
	primary.Kill()
	replica.Promote()

	s = open(t, replica.URL())
	again := arrived
	again.RunID = cronce.NewRunID()
	if e := asTaken(errOf(s.Claim(t.Context(), again))); e == nil || e.Run.ID != arrived.RunID {
		t.Errorf("a tick whose decision arrived: %+v", e)
	}
	again = onlyThere
	again.RunID = cronce.NewRunID()
	var skipped *cronce.SkippedError
	if err := errOf(s.Claim(t.Context(), again)); !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Errorf("a tick whose decision did not arrive: %v, want store-restarted", err)
	}
	byHand := claimOf("job", 0)
	byHand.Tick = time.Time{}
	var held *cronce.HeldError
	if err := errOf(s.Claim(t.Context(), byHand)); !errors.As(err, &held) || held.Holder.ID != "" {
		t.Errorf("while a run that it knows nothing of may go on: %v, want to be held", err)
	}
	if _, err := s.Renew(t.Context(), running); !errors.Is(err, cronce.ErrLost) {
		t.Errorf("the lease that did not arrive is renewed: %v", err)
	}
	query(t, replica.URL(), `CREATE OR REPLACE FUNCTION cronce.store_time() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS $$ SELECT clock_timestamp() + interval '1 minute' $$`)
	l = must(s.Claim(t.Context(), byHand))(t)
	if l.Run.Fence <= running.Run.Fence || l.Granted.Before(held.Expires) {
		t.Errorf("given at %v with fence %d, held until %v, and the lost one was %d", l.Granted, l.Run.Fence, held.Expires, running.Run.Fence)
	}

	// A crash is none of this, nor is it once a person has said so.
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	replica.Restart(testenv.Kept)
	if _, err := open(t, replica.URL()).Claim(t.Context(), claimOf("other", 1)); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

// lag makes a replica receive nothing more.
func lag(t *testing.T, replica *testenv.PostgresServer) {
	t.Helper()
	replica.SQL("ALTER SYSTEM SET primary_conninfo = '';\nSELECT pg_reload_conf();")
	until(t, func() bool { return replica.SQL("SELECT count(*) FROM pg_stat_wal_receiver") == "0" })
}

// TestLoadedDumpIsAnotherStore defends rule 5.7 where the server is the same
// and the rows are yesterday's.
func TestLoadedDumpIsAnotherStore(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	s := known(t, target)
	must(s.Claim(t.Context(), claimOf("job", 3)))(t)
	// What psql does with a dump of the table.
	query(t, target, `CREATE TABLE cronce.dump AS TABLE cronce.store; DROP TABLE cronce.store; ALTER TABLE cronce.dump RENAME TO store`)
	var skipped *cronce.SkippedError
	if err := errOf(s.Claim(t.Context(), claimOf("job", 2))); !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Errorf("%v, want store-restarted", err)
	}
}

// TestDecisionsAreOnDisk defends them against synchronous_commit = off, which a
// role or a server may have: what was answered survives a crash.
func TestDecisionsAreOnDisk(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	// Nothing else brings the log to the disk in time.
	server.SQL("ALTER SYSTEM SET synchronous_commit = off;\nALTER SYSTEM SET wal_writer_delay = '10s';\nALTER SYSTEM SET wal_writer_flush_after = 0;\nALTER ROLE cronce SET synchronous_commit = off;\nSELECT pg_reload_conf();")
	s := known(t, server.URL())
	for i := range 3 {
		c := claimOf("job", 5-i)
		l := must(s.Claim(t.Context(), c))(t)
		if i%2 == 1 {
			if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
				t.Fatal(err)
			}
		}
		server.Restart(testenv.Kept)
		s = open(t, server.URL())
		r, ok, err := s.Run(t.Context(), c.RunID)
		if err != nil || !ok || r.Live() != (i%2 == 0) {
			t.Fatalf("after the crash: %+v, %v, %v", r, ok, err)
		}
		if r.Live() {
			if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Failed}); err != nil {
				t.Fatal(err)
			}
		}
	}

	// A stronger setting is left as it is.
	for setting, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		c := must(pgx.Connect(t.Context(), server.URL()))(t)
		defer c.Close(t.Context())
		tx := must(c.Begin(t.Context()))(t)
		var got string
		if _, err := tx.Exec(t.Context(), "SET synchronous_commit = "+setting); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT cronce.request('{"job": "job", "request": {"kind": "pause"}}')`); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil || got != want {
			t.Errorf("under %s the transaction commits under %s, want %s; %v", setting, got, want, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func asTaken(err error) *cronce.TakenError {
	var e *cronce.TakenError
	errors.As(err, &e)
	return e
}
