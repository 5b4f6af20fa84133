package mysqlstore

import (
	"context"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// await waits until the check passes.
func await(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// waits is how many transactions of the server wait for a row. (What innodb_trx shows is
// as old as the first of the questions that come less than 0.1 s after one another.)
const waits = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"

// TestDeadlockIsMadeAgain defends that a claim which the server takes back for
// a deadlock is made again.
func TestDeadlockIsMadeAgain(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	d := known(t, server.URL())
	s := cronce.NewStore(d)
	l := claimed(t, s, due("job", 10))
	if _, err := d.db.Exec("CREATE TABLE weight (x INT) ENGINE=InnoDB"); err != nil {
		t.Fatal(err)
	}

	// Another transaction, which the server rather keeps, has the run and then
	// wants the job.
	other, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	for _, q := range []string{"INSERT INTO weight SELECT seq FROM seq_1_to_1000", "SELECT id FROM cronce_runs WHERE id = '" + l.Run.ID + "' FOR UPDATE"} {
		if _, err := other.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	claim := make(chan error, 1)
	go func() {
		c := due("job", 0)
		c.Offered = c.Tick.Add(-time.Minute) // the holder is known to live
		_, err := s.Claim(t.Context(), c)
		claim <- err
	}()
	await(t, "the claim to want the run", func() bool { return server.SQL(waits) == "1" })
	if _, err := other.Exec("SELECT name FROM cronce_jobs WHERE name = 'job' FOR UPDATE"); err != nil {
		t.Fatalf("the other transaction was taken back: %v", err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-claim; err == nil || number(err) != 0 {
		t.Errorf("the claim: %v, want a skip", err)
	}
	if got := server.SQL("SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_DEADLOCKS'"); got == "0" {
		t.Error("there was no deadlock")
	}
}

// TestWaitForARowIsMadeAgain defends that a wait which the server gives up is
// not the end of a claim, and that the caller's patience is.
func TestWaitForARowIsMadeAgain(t *testing.T) {
	t.Parallel()
	d := known(t, testenv.MariaDB(t))
	s := cronce.NewStore(d)
	claimed(t, s, byHand("job"))
	other, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	if _, err := other.Exec("SELECT name FROM cronce_jobs WHERE name = 'job' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Claim(ctx, due("job", 0)); err == nil || ctx.Err() == nil {
		t.Errorf("a claim that had 100 ms: %v", err)
	}

	c := due("job", 0)
	claim := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), c)
		claim <- err
	}()
	start := time.Now()
	for time.Since(start) < lockWait+time.Second {
		if _, err := other.Exec("DO SLEEP(0.2)"); err != nil { // it is not idle
			t.Fatal(err)
		}
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-claim; number(err) != 0 {
		t.Errorf("the claim: %v", err)
	}
}

// TestClientThatStopsKeepsNobodyOut defends that a client which stops within a
// transaction, as a host that is suspended does, does not keep the job locked.
func TestClientThatStopsKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	storeURL := testenv.MariaDB(t)
	stopped, s := known(t, storeURL), cronce.NewStore(open(t, storeURL))
	l := claimed(t, s, byHand("job"))
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	goOn, entered, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- stopped.once(t.Context(), func(x *tx) error {
			if _, err := x.enter(t.Context(), "job", new(server)); err != nil {
				return err
			}
			close(entered)
			<-goOn
			x.add("UPDATE cronce_jobs SET zone = 'wrong'")
			return x.commit(t.Context())
		})
	}()
	<-entered
	claimed(t, s, due("job", 1))
	close(goOn)
	if err := <-ended; err == nil {
		t.Error("the client that was stopped could go on as if nothing had been")
	}
	if state, _, err := s.Job(t.Context(), "job"); err != nil || state.Definition.Zone != "" {
		t.Errorf("the job is %+v, %v", state, err)
	}
}
