package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// Common steps are prepared where the session is the connection's own, and nothing is
// where a pooler stands between.
func TestPreparedWhereNoPoolerIs(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	known(t, server.URL())
	for name, c := range map[string]struct {
		url      string
		prepares bool
	}{
		"directly":                    {server.URL(), true},
		"where the URL says not to":   {server.URL() + "&default_query_exec_mode=exec", false},
		"pooled by transactions":      {testenv.StartPgBouncer(t, "transaction", server.URL()).URL(), false},
		"pooled by whole connections": {testenv.StartPgBouncer(t, "session", server.URL()).URL(), false},
	} {
		d, err := openDriver(t.Context(), Options{URL: c.url}, func(c *pgxpool.Config) { c.MaxConns = 1 })
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s := cronce.NewStore(d)
		// The first of a job is the functions' to decide.
		for i := range 3 {
			l, err := s.Claim(t.Context(), claimOf("job "+name, 3-i))
			if err == nil {
				err = s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := preparedIn(t, d); (n > 0) != c.prepares {
			t.Errorf("%s: %d statements are prepared", name, n)
		}
	}
}

func preparedIn(t *testing.T, d *driver) (n int) {
	t.Helper()
	err := d.pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		return c.QueryRow(context.Background(), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%durable%'").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// After a migration that this program does not know, the functions decide all.
func TestFunctionsDecideAfterALaterMigration(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	s := known(t, server.URL())
	for i := range 2 {
		l, err := s.Claim(t.Context(), claimOf("job", 10-i))
		if err == nil {
			err = s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	server.SQL(`CREATE OR REPLACE FUNCTION cronce.claim(c jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"answer": "skew"}'::jsonb $$`)
	l, err := s.Claim(t.Context(), claimOf("job", 8))
	if err == nil {
		err = s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
	}
	if err != nil {
		t.Errorf("with the migration that it knows: %v", err)
	}
	server.SQL("UPDATE cronce.store SET migration = migration + 1")
	if _, err := s.Claim(t.Context(), claimOf("job", 7)); !errors.As(err, new(*cronce.SkewError)) {
		t.Errorf("after a later migration: %v, want what its function says", err)
	}
}
