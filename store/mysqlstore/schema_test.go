package mysqlstore

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// TestManyMakeTheTables defends that whoever comes first makes them, and all
// can go on.
func TestManyMakeTheTables(t *testing.T) {
	storeURL := testenv.MariaDB(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s, err := Open(t.Context(), Options{URL: storeURL})
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			defer s.Close()
			if err := s.Init(t.Context()); err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			if _, err := s.Claim(t.Context(), byHand(fmt.Sprint("job ", i))); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// TestHalfMadeTables defends that who died in between leaves nothing to mend:
// the store's row comes last.
func TestHalfMadeTables(t *testing.T) {
	storeURL := testenv.MariaDB(t)
	d := known(t, storeURL)
	for i, q := range []string{"DROP TABLE cronce_store, cronce_requests", "DELETE FROM cronce_store"} {
		if _, err := d.db.Exec(q); err != nil {
			t.Fatal(err)
		}
		_, err := d.Claim(t.Context(), byHand("job"))
		refused(t, err, "open the store a")
		s := cronce.NewStore(open(t, storeURL))
		doubted(t, s, 1+1000*i)
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDroppedTable defends that decisions which somebody dropped are missed.
func TestDroppedTable(t *testing.T) {
	storeURL := testenv.MariaDB(t)
	d := known(t, storeURL)
	if _, err := d.db.Exec("DROP TABLE cronce_runs"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Claim(t.Context(), byHand("job"))
	refused(t, err, "cronce_runs")
	_, err = Open(t.Context(), Options{URL: storeURL})
	refused(t, err, "dropped the table cronce_runs")
}

// TestTablesMadeByHand defends that a user who may make no tables can use what
// another one made, and is told where there are none.
func TestTablesMadeByHand(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	server.SQL("CREATE USER small IDENTIFIED BY 'small'; GRANT SELECT, INSERT, UPDATE, DELETE ON cronce.* TO small")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("small", "small")
	_, err = Open(t.Context(), Options{URL: u.String()})
	refused(t, err, "CREATE", "denied")

	for range 2 { // again does no harm
		server.SQL("USE cronce;" + Schema())
	}
	s := cronce.NewStore(known(t, u.String()))
	l := claimed(t, s, due("job", 1))
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Error(err)
	}
	if err := s.Request(t.Context(), cronce.Request{Kind: cronce.Pause, Job: "job"}); err != nil {
		t.Error(err)
	}
	if n, err := s.Prune(t.Context(), "", l.Run.Start.AddDate(1, 0, 0)); n != 1 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
}

// TestFormatsAreNumbered defends that tables of another cronce are not guessed
// at, also when they come to be so under an open store.
func TestFormatsAreNumbered(t *testing.T) {
	storeURL := testenv.MariaDB(t)
	d := known(t, storeURL)
	for _, format := range []int{-1, 2, 99} {
		if _, err := d.db.Exec("UPDATE cronce_store SET format = ?", format); err != nil {
			t.Fatal(err)
		}
		says := fmt.Sprintf("of format %d", format)
		_, err := Open(t.Context(), Options{URL: storeURL})
		refused(t, err, says)
		_, err = d.Claim(t.Context(), byHand("job"))
		refused(t, err, says)
		refused(t, d.Init(t.Context()), says)
	}
	if !strings.Contains(Schema(), setFormat(format)) {
		t.Error("what is printed does not set the format")
	}
}
