package mysqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// TestSomebodyWasFaster defends that a claim which is decided on what was read
// without a lock is put on record only if nothing has changed since: whatever
// others do between the two steps, the answer is the one to the job as it is then.
func TestSomebodyWasFaster(t *testing.T) {
	storeURL := testenv.MariaDB(t)
	d := known(t, storeURL)
	s, other := cronce.NewStore(d), cronce.NewStore(open(t, storeURL))
	definition := cronce.Definition{Schedule: "* * * * *", Zone: "UTC"}
	request := func(r cronce.Request) func(*testing.T, cronce.Claim) {
		return func(t *testing.T, c cronce.Claim) {
			r.Job = c.Job
			if err := other.Request(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
	}
	exec := func(t *testing.T, query string, args ...any) {
		if _, err := d.db.Exec(query, args...); err != nil {
			t.Error(err)
		}
	}
	for name, test := range map[string]struct {
		meanwhile func(*testing.T, cronce.Claim)
		answer    func(error) bool
	}{
		"its tick is decided": {func(t *testing.T, c cronce.Claim) {
			c.RunID = cronce.NewRunID()
			claimed(t, other, c)
		}, is[*cronce.TakenError]},
		"a run by hand has the lease": {func(t *testing.T, c cronce.Claim) { claimed(t, other, byHand(c.Job)) }, is[*cronce.HeldError]},
		"a run side by side": {func(t *testing.T, c cronce.Claim) {
			by := byHand(c.Job)
			by.Overlap.Policy = cronce.OverlapAllow
			claimed(t, other, by)
		}, is[*cronce.HeldError]},
		"it is paused": {request(cronce.Request{Kind: cronce.Pause}), func(err error) bool {
			var e *cronce.SkippedError
			return errors.As(err, &e) && e.Run.Skip == cronce.SkipPaused
		}},
		"it is defined": {request(cronce.Request{Kind: cronce.Define, Definition: definition}), is[*cronce.ConflictError]},
		"ticks are forgotten": {func(t *testing.T, c cronce.Claim) {
			exec(t, "UPDATE cronce_jobs SET pruned_tick = ? WHERE name = ?", c.Tick, c.Job)
		}, is[*cronce.TakenError]},
		"another waits": {func(t *testing.T, c cronce.Claim) {
			p := place{Run: cronce.Run{ID: cronce.NewRunID(), Job: c.Job}, Granted: time.Now().UTC(), Expires: time.Now().UTC().Add(time.Minute)}
			exec(t, "UPDATE cronce_jobs SET waiting = ? WHERE name = ?", asJSON(p), c.Job)
		}, is[*cronce.HeldError]},
		"its own claim arrives": {func(t *testing.T, c cronce.Claim) { claimed(t, other, c) }, func(err error) bool { return err == nil }},
		"nothing":               {func(*testing.T, cronce.Claim) {}, func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			l := claimed(t, s, due(name, 20))
			if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Failed}); err != nil { // a success would be noted meanwhile
				t.Fatal(err)
			}
			c := due(name, 10)
			c.Definition = cronce.Definition{Schedule: "@hourly", Zone: "UTC"}
			steps := 0
			d.committing = func(func() error) error {
				if steps++; steps == 1 {
					test.meanwhile(t, c)
				}
				return nil
			}
			defer func() { d.committing = nil }()
			if _, err := s.Claim(t.Context(), c); !test.answer(err) {
				t.Errorf("the claim: %v", err)
			}
			runs, err := s.Runs(t.Context(), cronce.RunQuery{Job: name})
			if err != nil {
				t.Fatal(err)
			}
			ticks := 0
			for _, r := range runs {
				if r.Tick.Equal(c.Tick) {
					ticks++
				}
			}
			if ticks > 1 {
				t.Errorf("the tick is decided %d times", ticks)
			}
		})
	}
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// TestTakenWaitsForNobody defends that who finds its tick taken, as all hosts
// but one do, neither waits for the job's row nor locks it.
func TestTakenWaitsForNobody(t *testing.T) {
	d := known(t, testenv.MariaDB(t))
	s := cronce.NewStore(d)
	c := due("job", 10)
	claimed(t, s, c)
	holder, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback()
	if _, err := holder.Exec("SELECT name FROM cronce_jobs WHERE name = 'job' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lockWait)
	defer cancel()
	c.RunID = cronce.NewRunID()
	if _, err := s.Claim(ctx, c); !is[*cronce.TakenError](err) {
		t.Errorf("the claim: %v, want *TakenError", err)
	}
}
