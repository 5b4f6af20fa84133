package pgstore

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// open opens a store that must open.
func open(t *testing.T, target string) *cronce.Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// refused opens a store that must be refused, for a reason that has the word.
func refused(t *testing.T, target, word string) {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: target})
	if err == nil {
		s.Close()
	}
	var config *cronce.ConfigError
	if !errors.As(err, &config) || !strings.Contains(config.What, word) || config.Cure == "" {
		t.Errorf("%v, want a refusal that speaks of %q", err, word)
		return
	}
	keepsSecrets(t, err, target)
}

// keepsSecrets checks that no error shows the password.
func keepsSecrets(t *testing.T, err error, target string) {
	t.Helper()
	u, parsed := url.Parse(target)
	if parsed != nil {
		return
	}
	if password, _ := u.User.Password(); password != "" && strings.Contains(err.Error(), password) {
		t.Errorf("the password is in %q", err)
	}
}

// claimOf is a claim of the minute before this one, or so many before that.
func claimOf(job string, before int) cronce.Claim {
	return cronce.Claim{
		RunID: cronce.NewRunID(), Job: job, TTL: cronce.MinTTL,
		Tick:   time.Now().UTC().Truncate(time.Minute).Add(time.Duration(-before-1) * time.Minute),
		Holder: cronce.Holder{Host: "host", PID: 4711, User: "user", Via: "test"},
	}
}

// TestSettingsThatBreakThePromiseAreRefused defends that they are found at the
// start, each by its name.
func TestSettingsThatBreakThePromiseAreRefused(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	open(t, server.URL())

	server.SQL("ALTER SYSTEM SET fsync = off;\nSELECT pg_reload_conf();")
	until(t, func() bool { return server.SQL("SHOW fsync") == "off" })
	refused(t, server.URL(), "fsync = off")
	server.SQL("ALTER SYSTEM RESET fsync;\nSELECT pg_reload_conf();")
	until(t, func() bool { return server.SQL("SHOW fsync") == "on" })

	server.SQL("ALTER ROLE cronce SET default_transaction_read_only = on")
	refused(t, server.URL(), "read-only")
	server.SQL("ALTER ROLE cronce RESET default_transaction_read_only")

	server.SQL("CREATE DATABASE latin OWNER cronce ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	refused(t, strings.Replace(server.URL(), "/cronce?", "/latin?", 1), "LATIN1")

	server.SQL("ALTER TABLE cronce.runs SET UNLOGGED")
	refused(t, server.URL(), "unlogged, and empty after a crash: runs")
	server.SQL("ALTER TABLE cronce.runs SET LOGGED")

	server.SQL("UPDATE cronce.store SET format = 2")
	refused(t, server.URL(), "format 2")
	server.SQL("UPDATE cronce.store SET format = 1")

	replica := server.StartReplica(t)
	refused(t, replica.URL(), "read replica")
	// Of several hosts, the one that takes writes is found.
	open(t, strings.Replace(server.URL(), server.Addr(), replica.Addr()+","+server.Addr(), 1))
}

// TestPoolers defends that a PgBouncer may stand before the server in any of
// its modes, from the making of the schema on.
func TestPoolers(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for _, pool := range []string{"statement", "transaction", "session"} {
		target := testenv.StartPgBouncer(t, pool, server.URL()).URL() + "&schema=" + pool
		for _, mode := range []string{"exec", "simple_protocol"} {
			s, c := known(t, target+"&default_query_exec_mode="+mode), claimOf(mode, 0)
			l, err := s.Claim(t.Context(), c)
			if err != nil {
				t.Errorf("%s, %s: %v", pool, mode, err)
			} else if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
				t.Errorf("%s, %s: %v", pool, mode, err)
			}
		}
	}
}

// TestURLs defends that a wrong URL is a clear error without its password.
func TestURLs(t *testing.T) {
	t.Parallel()
	for target, word := range map[string]string{
		"":                                     "cannot be read",
		"mysql://u:hunter2@h/d":                "cannot be read",
		"postgres://u:hunter2%zz@h/d":          "cannot be read",
		"postgres://u:hunter2@h:port/d":        "cannot be read",
		"postgres://u:hunter2@h/d?shcema=a":    "shcema",
		"postgres://u:hunter2@h/d?schema=":     "schema=",
		"postgres://u:hunter2@h/d?schema=A":    "schema=A",
		"postgres://u:hunter2@h/d?schema=pg_x": "schema=pg_x",
		"postgres://u:hunter2@h/d?sslmode=no":  "parameter",
		"postgres://u:hunter2@h/d?sslrootcert=/hunter2/no/file&sslmode=verify-full": "parameter",
		"postgres://u:hunter2@h/d?search_path=x":                                    "search_path",
	} {
		_, err := Open(t.Context(), Options{URL: target})
		var config *cronce.ConfigError
		if !errors.As(err, &config) || !strings.Contains(config.What, word) || config.Cure == "" {
			t.Errorf("%s: %v, want a refusal that speaks of %q", target, err, word)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in %q", target, err)
		}
	}
}

// TestWhoCannotBeReached defends the kind of the error, and the password.
func TestWhoCannotBeReached(t *testing.T) {
	t.Parallel()
	target := testenv.Postgres(t)
	u, _ := url.Parse(target)
	u.User = url.UserPassword(u.User.Username(), "not-the-password")
	refused(t, u.String(), "does not let us in")
	u, _ = url.Parse(target)
	u.Path = "/nowhere"
	refused(t, u.String(), `database "nowhere" does not exist`)

	p := testenv.NewProxy(t, target)
	s := open(t, p.URL())
	p.Cut()
	for _, err := range []error{
		errOf(Open(t.Context(), Options{URL: p.URL()})),
		errOf(s.Claim(t.Context(), claimOf("job", 0))),
	} {
		if !errors.As(err, new(*cronce.UnavailableError)) {
			t.Errorf("%v, want an UnavailableError", err)
		} else {
			keepsSecrets(t, err, target)
		}
	}
}

// TestDeadlinesAreHonoured defends the caller against a job that another
// transaction has locked, and against a server that does not answer.
func TestDeadlinesAreHonoured(t *testing.T) {
	t.Parallel()
	b := newBed(t, testenv.Postgres(t))
	s, c := known(t, b.url(0)), claimOf("job", 0)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := s.Claim(t.Context(), claimOf("job", 1)); err != nil {
		t.Fatal(err)
	}
	tx, err := b.driver(t, b.url(0)).pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+b.schema+".jobs"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(short(), c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It was given up, and may be done all the same; repeated it is one claim.
	c.Overlap.Policy = cronce.OverlapAllow
	if l, err := s.Claim(t.Context(), c); err != nil || l.Run.ID != c.RunID {
		t.Errorf("claimed again: %+v, %v", l, err)
	}

	p := testenv.NewProxy(t, b.url(0))
	far := open(t, p.URL())
	p.Blackhole()
	if _, err := far.Claim(short(), claimOf("other", 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

// TestTickDecidedWhileAClaimWaits defends the short way through a claim, which
// looks for the tick before it waits for the job's row.
func TestTickDecidedWhileAClaimWaits(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	s, first, c := known(t, server.URL()), claimOf("job", 1), claimOf("job", 0)
	l, err := s.Claim(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Fatal(err)
	}
	d, err := openDriver(t.Context(), Options{URL: server.URL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM cronce.jobs FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error)
	go func() { answer <- errOf(s.Claim(t.Context(), c)) }()
	until(t, func() bool {
		return server.SQL("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
	})
	other := cronce.NewRunID()
	if _, err := tx.Exec(t.Context(), `INSERT INTO cronce.runs (id, job, tick, attempt, slot, holder, skip, started)
		VALUES ($1::text::uuid, 'job', $2, 1, 1, '{}', 'paused', clock_timestamp())`, other, c.Tick); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := asTaken(<-answer); e == nil || e.Run.ID != other {
		t.Errorf("answered %+v, want taken by %s", e, other)
	}
	if s, _, err := s.Job(t.Context(), "job"); err != nil || len(s.Live) != 0 || s.Fence != l.Run.Fence {
		t.Errorf("it left something behind: %+v, %v", s, err)
	}
}

// known opens a store and makes it known.
func known(t *testing.T, target string) *cronce.Store {
	t.Helper()
	s := open(t, target)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func errOf[T any](_ T, err error) error { return err }

// until waits for what a server does by and by.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}
