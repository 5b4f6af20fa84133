package pgstore

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// TestManyMakeTheSchemaAtOnce defends a fleet's first start: whoever comes
// first makes it, once, and the others find it.
func TestManyMakeTheSchemaAtOnce(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	stores := make([]*cronce.Store, 24)
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range stores {
		wg.Go(func() {
			<-start
			stores[i], errs[i] = Open(t.Context(), Options{URL: target + "&pool_max_conns=2"})
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
		defer stores[i].Close()
	}
	if err := stores[0].Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[1].Claim(t.Context(), claimOf("job", 0)); err != nil {
		t.Error(err)
	}
}

// TestSchemaIsBroughtUpToDate defends that a store of an earlier release gets
// what it lacks, and that one of a later release in the same format is used.
func TestSchemaIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	steps, err := statements("cronce")
	if err != nil {
		t.Fatal(err)
	}
	query(t, target, "CREATE SCHEMA cronce; BEGIN; "+steps[0]+steps[1]+"COMMIT")
	s := known(t, target)
	if _, err := s.Claim(t.Context(), claimOf("job", 0)); err != nil {
		t.Error(err)
	}
	query(t, target, "UPDATE cronce.store SET migration = 1000")
	if _, err := open(t, target).Claim(t.Context(), claimOf("job2", 0)); err != nil {
		t.Error(err)
	}
}

// TestTwoRoles defends that who runs jobs needs no right to make anything: an
// owner runs the printed statements, and grants what docs/stores/postgres.md says.
func TestTwoRoles(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	password, _ := must(url.Parse(server.URL()))(t).User.Password()
	server.SQL("CREATE ROLE runner LOGIN PASSWORD '" + password + "'")
	u := must(url.Parse(server.URL()))(t)
	u.User = url.UserPassword("runner", password)
	u.RawQuery += "&schema=jobs"
	runner := u.String()
	refused(t, runner, "there is no schema jobs")

	printed := must(Migrations("jobs", 0))(t)
	query(t, server.URL(), printed)
	refused(t, runner, "may not do this")
	query(t, server.URL(), grants("jobs", "runner"))

	s := known(t, runner)
	c := claimOf("job", 3)
	l := must(s.Claim(t.Context(), c))(t)
	l = must(s.Renew(t.Context(), l))(t)
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Error(err)
	}
	for _, kind := range []cronce.RequestKind{cronce.Pause, cronce.Resume, cronce.Stop} {
		if err := s.Request(t.Context(), cronce.Request{Kind: kind, Job: "job"}); err != nil {
			t.Error(err)
		}
	}
	if n := must(s.Prune(t.Context(), "", l.Granted.AddDate(1, 0, 0)))(t); n != 1 {
		t.Errorf("%d runs pruned, want 1", n)
	}
	if jobs := must(s.Jobs(t.Context()))(t); len(jobs) != 1 {
		t.Errorf("jobs: %+v", jobs)
	}
	// An update is the owner's too.
	query(t, server.URL(), "UPDATE jobs.store SET migration = 2")
	refused(t, runner, "not up to date")
	query(t, server.URL(), must(Migrations("jobs", 2))(t))
	open(t, runner)
	if _, err := Migrations("no good", 0); err == nil {
		t.Error("a schema with a space in its name is printed")
	}
}

// TestSessionSettingsDoNotMatter defends that what a role, a database or a
// server sets for sessions changes no answer.
func TestSessionSettingsDoNotMatter(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	role := must(url.Parse(target))(t).User.Username()
	var b strings.Builder
	for _, setting := range []string{
		"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on",
		"search_path = trap, pg_catalog", "timezone = 'Africa/Monrovia'", "datestyle = 'German'", "intervalstyle = 'sql_standard'",
		"bytea_output = 'escape'", "client_encoding = 'LATIN1'", "synchronous_commit = off", "extra_float_digits = -15",
		"standard_conforming_strings = on", "escape_string_warning = off", "row_security = off", "check_function_bodies = off",
		"statement_timeout = '20s'", "lock_timeout = '20s'", "idle_in_transaction_session_timeout = '1ms'", "idle_session_timeout = '1min'",
	} {
		b.WriteString("ALTER ROLE " + role + " SET " + setting + ";")
	}
	query(t, target, `CREATE SCHEMA trap;
		CREATE TABLE trap.jobs (job text); CREATE TABLE trap.runs (id int); CREATE TABLE trap.store (x int);
		CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''2001-01-01''::timestamptz';
		CREATE FUNCTION trap.jsonb_strip_nulls(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT ''{}''::jsonb';
		CREATE FUNCTION trap.eq(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.eq);`+b.String())
	for _, mode := range []string{"exec", "simple_protocol", "cache_statement"} {
		s := known(t, target+"&default_query_exec_mode="+mode)
		other := open(t, target)
		job := "jöb 日 " + mode
		l := must(s.Claim(t.Context(), claimOf(job, 3)))(t)
		result := cronce.Result{Outcome: cronce.Failed, Message: "nul \x00, \xff and é", Output: []byte("tail\x00\xff'\\\n")}
		if err := other.Finish(t.Context(), l, result); err != nil {
			t.Fatal(err)
		}
		r, ok, err := s.Run(t.Context(), l.Run.ID)
		if err != nil || !ok || string(r.Output) != string(result.Output) || !r.Start.Equal(l.Run.Start) || !r.Tick.Equal(l.Run.Tick) ||
			!strings.HasPrefix(r.Message, "nul \uFFFD, ") || !strings.HasSuffix(r.Message, " and é") {
			t.Errorf("%s: %+v, %v, %v", mode, r, ok, err)
		}
		// Many wait for one row: under SERIALIZABLE most of them would fail.
		c := claimOf(job, 2)
		won := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 16 {
			c := c
			c.RunID = cronce.NewRunID()
			wg.Go(func() {
				_, err := []*cronce.Store{s, other}[i%2].Claim(t.Context(), c)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if asTaken(err) == nil {
					t.Errorf("%s: %v", mode, err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%s: %d of 16 claims got the tick", mode, won)
		}
	}
}

// query runs statements as who a URL names.
func query(t *testing.T, target, statements string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.PgConn().Exec(t.Context(), statements).ReadAll(); err != nil {
		t.Fatalf("%v\n%s", err, statements)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
