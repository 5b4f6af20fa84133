package pgstore

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// loss is what people do to the tables of a store whose programs go on.
type loss struct {
	before string // done while what is old is on record
	after  string // done under a run that is not
	blind  bool   // only who was there before can know of it
}

const (
	aside = "CREATE TABLE old_store AS TABLE cronce.store; CREATE TABLE old_jobs AS TABLE cronce.jobs; CREATE TABLE old_runs AS TABLE cronce.runs"
	back  = "TRUNCATE cronce.jobs, cronce.runs; INSERT INTO cronce.jobs SELECT * FROM old_jobs; INSERT INTO cronce.runs SELECT * FROM old_runs; "
	// As pg_restore --disable-triggers does it.
	silently = "SET session_replication_role = replica; "
)

var losses = map[string]loss{
	"all truncated":           {after: "TRUNCATE cronce.jobs, cronce.runs, cronce.requests"},
	"jobs truncated":          {after: "TRUNCATE cronce.jobs"},
	"runs truncated":          {after: "TRUNCATE cronce.runs"},
	"jobs deleted":            {after: "DELETE FROM cronce.jobs"},
	"runs deleted":            {after: "DELETE FROM cronce.runs"},
	"one job deleted":         {after: "DELETE FROM cronce.runs WHERE job = 'job'; DELETE FROM cronce.jobs WHERE job = 'job'"},
	"one run deleted":         {after: "DELETE FROM cronce.runs WHERE job = 'job' AND outcome IS NULL"},
	"put back":                {before: aside, after: "BEGIN; " + back + "COMMIT"},
	"put back with store":     {before: aside, after: "BEGIN; TRUNCATE cronce.store; INSERT INTO cronce.store SELECT * FROM old_store; " + back + "COMMIT"},
	"jobs silently truncated": {after: silently + "TRUNCATE cronce.jobs"},
	"runs silently truncated": {after: silently + "TRUNCATE cronce.runs"},
	"silently put back":       {before: aside, after: silently + "BEGIN; " + back + "COMMIT", blind: true},
	"dropped":                 {after: "DROP SCHEMA cronce CASCADE"},
}

// TestLostTables defends rule 5.7 under programs that go on: whatever was taken
// out of the tables or put back into them, no tick is run again, and no run starts
// beside one that is on record no longer.
func TestLostTables(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for name, loss := range losses {
		for _, joins := range []bool{false, true} {
			if joins && loss.blind {
				continue // see docs/guarantees.md
			}
			who := "seen by one that was there"
			if joins {
				who = "seen by one that joins"
			}
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				target := server.Database(t)
				losesUnderARun(t, target, joins, func() { query(t, asAdmin(t, server, target), loss.before) },
					func() { query(t, asAdmin(t, server, target), loss.after) })
			})
		}
	}
}

// TestDumpIsRestored is the same with an older dump, as pg_dump makes it and
// psql takes it.
func TestDumpIsRestored(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for _, joins := range []bool{false, true} {
		target, dump := server.Database(t), ""
		losesUnderARun(t, target, joins, func() { dump = server.Dump(target) },
			func() { query(t, asAdmin(t, server, target), dump) })
	}
}

// losesUnderARun has a store run a tick, and then another, which it loses while it
// runs and another program is there; who is asked first is one that was there, or joins.
func losesUnderARun(t *testing.T, target string, joins bool, before, after func()) {
	t.Helper()
	s, first := known(t, target), open(t, target)
	finish := func(l cronce.Lease) {
		t.Helper()
		if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	finish(must(s.Claim(t.Context(), claimOf("other", 5)))(t))
	finish(must(s.Claim(t.Context(), claimOf("job", 5)))(t))
	before()
	running := must(s.Claim(t.Context(), claimOf("job", 3)))(t)
	next, last := claimOf("job", 2), claimOf("job", 1)
	again := func() error {
		c := claimOf("job", 3)
		c.Tick = running.Run.Tick
		return errOf(first.Claim(t.Context(), c))
	}
	if asTaken(again()) == nil {
		t.Fatal("a tick that is taken is not")
	}
	after()
	if joins {
		first = open(t, target)
		// As serve does when it starts.
		if err := first.Request(t.Context(), cronce.Request{Kind: cronce.Define, Job: "job", Definition: cronce.Definition{Schedule: "* * * * *"}}); err != nil {
			t.Fatal(err)
		}
	} else {
		defer open(t, target).Close() // where the schema is gone, the next one to start makes it
	}

	if err := again(); asTaken(err) == nil { // it may be on record still
		doubted(t, err)
	}
	doubted(t, errOf(first.Claim(t.Context(), next)))
	doubted(t, errOf(s.Claim(t.Context(), last)))
	byHand := byHandOf("job")
	for _, s := range []*cronce.Store{first, s} {
		var held *cronce.HeldError
		if err := errOf(s.Claim(t.Context(), byHand)); !errors.As(err, &held) || held.Holder.ID != "" {
			t.Errorf("while a run that it knows nothing of may go on: %v, want to be held", err)
		}
	}
	// It is the same sight for the other jobs.
	seen := seenAt(t, target)
	doubted(t, errOf(s.Claim(t.Context(), claimOf("other", 4))))
	if err := errOf(s.Claim(t.Context(), byHandOf("other"))); !errors.As(err, new(*cronce.HeldError)) {
		t.Errorf("another job by hand: %v, want to be held", err)
	}
	if again := seenAt(t, target); again != seen {
		t.Errorf("seen at %s, and again at %s", seen, again)
	}
	if _, err := s.Renew(t.Context(), running); !errors.Is(err, cronce.ErrLost) {
		t.Errorf("the run that is on record no longer is renewed: %v", err)
	}

	query(t, target, `CREATE OR REPLACE FUNCTION cronce.store_time() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS $$ SELECT clock_timestamp() + interval '61 seconds' $$`)
	l := must(first.Claim(t.Context(), byHand))(t)
	if l.Run.Fence <= running.Run.Fence {
		t.Errorf("after a minute: fence %d, the run that was lost had %d", l.Run.Fence, running.Run.Fence)
	}
	finish(l)

	// A person says that it is over, and all is as it was.
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*cronce.Store{s, first} {
		finish(must(s.Claim(t.Context(), byHandOf("job")))(t))
	}
}

// doubted checks the answer to the claim of a tick by a store that knows of a loss.
func doubted(t *testing.T, err error) {
	t.Helper()
	var skipped *cronce.SkippedError
	if !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Errorf("claim of a tick: %v, want store-restarted", err)
	}
}

// seenAt is since when the store is not known.
func seenAt(t *testing.T, target string) string {
	t.Helper()
	c := must(pgx.Connect(t.Context(), target))(t)
	defer c.Close(t.Context())
	var seen string
	if err := c.QueryRow(t.Context(), "SELECT seen::text FROM cronce.store").Scan(&seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

// byHandOf is a claim of no tick.
func byHandOf(job string) cronce.Claim {
	c := claimOf(job, 0)
	c.Tick = time.Time{}
	return c
}

// asAdmin is the URL of the same database for the superuser.
func asAdmin(t *testing.T, server *testenv.PostgresServer, target string) string {
	u := must(url.Parse(server.AdminURL()))(t)
	u.Path = must(url.Parse(target))(t).Path
	return u.String()
}

// TestEmptyStoreTable defends that a store whose one row is gone decides nothing.
func TestEmptyStoreTable(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	s := known(t, target)
	must(s.Claim(t.Context(), claimOf("job", 3)))(t)
	query(t, target, "TRUNCATE cronce.store, cronce.jobs, cronce.runs, cronce.requests")
	for _, before := range []int{3, 2} {
		if err := errOf(s.Claim(t.Context(), claimOf("job", before))); !errors.As(err, new(*cronce.ConfigError)) {
			t.Errorf("%v, want it refused", err)
		}
	}
	refused(t, target, "store is empty")
}

// TestNoLoss defends against a minute's rest where nothing was lost: what is
// forgotten in order, also by hand, and tables that are written anew.
func TestNoLoss(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	s := known(t, target)
	for i := range 4 {
		l := must(s.Claim(t.Context(), claimOf("job", 9-i)))(t)
		if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	if n := must(s.Prune(t.Context(), "", time.Now().Add(time.Hour)))(t); n != 4 {
		t.Fatalf("%d runs forgotten, want 4", n)
	}
	l := must(s.Claim(t.Context(), byHandOf("job")))(t)
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	query(t, target, "DELETE FROM cronce.runs") // of no tick
	query(t, target, "VACUUM FULL cronce.jobs")
	query(t, target, "VACUUM FULL cronce.runs")
	query(t, target, "VACUUM FULL cronce.store")
	for i := range 2 {
		l := must([]*cronce.Store{s, open(t, target)}[i].Claim(t.Context(), claimOf("job", 3-i)))(t)
		if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServerThatWentBack defends that whoever was there sees that a server has its
// data folder of earlier, which it comes up with as after a crash.
func TestServerThatWentBack(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	s, other := known(t, server.URL()), open(t, server.URL())
	finish := func(l cronce.Lease) {
		t.Helper()
		if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	finish(must(s.Claim(t.Context(), claimOf("job", 5)))(t))
	server.Snapshot()
	finish(must(s.Claim(t.Context(), claimOf("job", 4)))(t))
	lost := claimOf("job", 3)
	finish(must(other.Claim(t.Context(), lost))(t))
	server.Restart(testenv.Stale)
	until(t, func() bool { // on connections that the server closed
		_, err := s.Now(t.Context())
		return err == nil && errOf(other.Now(t.Context())) == nil
	})
	again := lost
	again.RunID = cronce.NewRunID()
	doubted(t, errOf(other.Claim(t.Context(), again)))
	doubted(t, errOf(s.Claim(t.Context(), claimOf("job", 2))))
	doubted(t, errOf(open(t, server.URL()).Claim(t.Context(), claimOf("job", 1))))
}
