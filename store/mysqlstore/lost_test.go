package mysqlstore

import (
	"errors"
	"strings"
	"testing"

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
	aside = "CREATE TABLE old_jobs AS SELECT * FROM cronce_jobs; CREATE TABLE old_runs AS SELECT * FROM cronce_runs"
	back  = "INSERT INTO cronce_jobs SELECT * FROM old_jobs; INSERT INTO cronce_runs SELECT * FROM old_runs; "
)

var losses = map[string]loss{
	"all truncated":    {after: "TRUNCATE cronce_store; TRUNCATE cronce_jobs; TRUNCATE cronce_runs; TRUNCATE cronce_requests"},
	"all but store":    {after: "TRUNCATE cronce_jobs; TRUNCATE cronce_runs; TRUNCATE cronce_requests", blind: true},
	"jobs truncated":   {after: "TRUNCATE cronce_jobs"},
	"runs truncated":   {after: "TRUNCATE cronce_runs"},
	"runs deleted":     {after: "DELETE FROM cronce_runs"},
	"one job deleted":  {after: "DELETE FROM cronce_jobs WHERE name = 'job'; DELETE FROM cronce_runs WHERE job = 'job'", blind: true},
	"put back":         {before: aside, after: "START TRANSACTION; DELETE FROM cronce_jobs; DELETE FROM cronce_runs; " + back + "COMMIT", blind: true},
	"jobs put back":    {before: aside, after: "START TRANSACTION; DELETE FROM cronce_jobs; INSERT INTO cronce_jobs SELECT * FROM old_jobs; COMMIT", blind: true},
	"dropped and made": {after: "DROP TABLE cronce_store, cronce_jobs, cronce_runs, cronce_requests"},
}

// TestLostTables defends rule 5.7 under programs that go on: whatever was taken
// out of the tables or put back into them, no tick is run again, and no run starts
// beside one that the record does not tell of.
func TestLostTables(t *testing.T) {
	t.Parallel()
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
				storeURL := testenv.MariaDB(t)
				d := known(t, storeURL)
				do := func(statements string) func() {
					return func() {
						for q := range strings.SplitSeq(statements, "; ") {
							if _, err := d.db.Exec(q); q != "" && err != nil {
								t.Fatalf("%s: %v", q, err)
							}
						}
					}
				}
				losesUnderARun(t, d, storeURL, joins, do(loss.before), do(loss.after))
			})
		}
	}
}

// losesUnderARun has a store run a tick, and then another, which it loses while it
// runs and another program is there; who is asked first is one that was there, or joins.
func losesUnderARun(t *testing.T, d *driver, storeURL string, joins bool, before, after func()) {
	t.Helper()
	d.db.SetMaxOpenConns(1) // what is done to the tables is one session's
	second := open(t, storeURL)
	s, first := cronce.NewStore(d), cronce.NewStore(second)
	finish := func(l cronce.Lease) {
		t.Helper()
		if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	finish(claimed(t, s, due("other", 500)))
	finish(claimed(t, s, due("job", 500)))
	before()
	c := due("job", 300)
	c.TTL = cronce.MaxTTL
	running := claimed(t, s, c)
	again := func() error {
		c := byHand("job")
		c.Tick = running.Run.Tick
		_, err := first.Claim(t.Context(), c)
		return err
	}
	if err := again(); !is[*cronce.TakenError](err) {
		t.Fatalf("a tick that is taken: %v", err)
	}
	after()
	joined := open(t, storeURL) // where tables are gone, the next one to start makes them
	if joins {
		second = joined
		first = cronce.NewStore(second)
		// As serve does when it starts.
		if err := first.Request(t.Context(), cronce.Request{Kind: cronce.Define, Job: "job", Definition: cronce.Definition{Schedule: "* * * * *"}}); err != nil {
			t.Fatal(err)
		}
	}

	var skipped *cronce.SkippedError
	if err := again(); !is[*cronce.TakenError](err) && (!errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted) {
		t.Errorf("the tick that runs: %v, want store-restarted, or taken", err)
	}
	doubted(t, first, 200)
	doubted(t, s, 100)

	// It is the same sight for the other jobs.
	seen := record(t, d).seen
	_, err := s.Claim(t.Context(), due("other", 400))
	if !errors.As(err, &skipped) || skipped.Run.Skip != cronce.SkipStoreRestarted {
		t.Errorf("another job: %v, want store-restarted", err)
	}
	if again := record(t, d).seen; !again.Equal(seen) {
		t.Errorf("seen at %v, and again at %v", seen, again)
	}

	l := running
	if renewed, err := s.Renew(t.Context(), running); err == nil {
		// It is on record still, and keeps others out until it ends.
		l = renewed
		d.quarantine, second.quarantine = 0, 0
		var held *cronce.HeldError
		if _, err := first.Claim(t.Context(), byHand("job")); !errors.As(err, &held) || held.Holder.ID != l.Run.ID {
			t.Errorf("beside the run that goes on: %v, want to be held by it", err)
		}
		finish(l)
	} else if !errors.Is(err, cronce.ErrLost) {
		t.Errorf("renewal: %v", err)
	}
	d.quarantine, second.quarantine = 0, 0 // it is over
	l = claimed(t, first, byHand("job"))
	if l.Run.Fence <= running.Run.Fence {
		t.Errorf("fence %d, the run before had %d", l.Run.Fence, running.Run.Fence)
	}
	finish(l)

	// A person says that it is over, and all is as it was.
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, s := range []*cronce.Store{s, first} {
		finish(claimed(t, s, due("job", 20-i)))
	}
}

// TestForgottenIsNotLost defends against a minute's rest where the last holder was
// forgotten in order, and a skip that came later was not.
func TestForgottenIsNotLost(t *testing.T) {
	t.Parallel()
	storeURL := testenv.MariaDB(t)
	d := known(t, storeURL)
	s := cronce.NewStore(d)
	l := claimed(t, s, due("job", 100))
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	late := due("job", 50)
	late.StartDeadline = 1
	if _, err := s.Claim(t.Context(), late); !is[*cronce.SkippedError](err) {
		t.Fatalf("%v, want it skipped", err)
	}
	r, ok, err := s.Run(t.Context(), late.RunID)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n, err := s.Prune(t.Context(), "job", r.Start); n != 1 || err != nil {
		t.Fatalf("%d forgotten, %v; want 1", n, err)
	}
	l = claimed(t, s, due("job", 20))
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(t.Context(), "job", l.Run.Start.AddDate(1, 0, 0)); n != 2 || err != nil {
		t.Fatalf("%d forgotten, %v; want 2", n, err)
	}
	claimed(t, s, due("job", 10))
}
