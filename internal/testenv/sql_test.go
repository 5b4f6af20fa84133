package testenv

import (
	"net/url"
	"strings"
	"testing"
)

// ask runs a statement as the user of a Postgres URL.
func ask(t *testing.T, s *Server, target, statement string) (string, error) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	if u.Host != s.Addr() {
		t.Fatalf("%s is not on %s", target, s.Addr())
	}
	return psql(s, u.User.Username(), strings.TrimPrefix(u.Path, "/"), statement)
}

func TestPostgres(t *testing.T) {
	one, two := Postgres(t), Postgres(t)
	s, err := sharedPostgres()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{one, two} {
		if got, err := ask(t, s.Server, u, "CREATE TABLE t (); SELECT 1"); err != nil || got != "1" {
			t.Errorf("%s: %q, %v", u, got, err)
		}
	}
	if got, err := ask(t, s.Server, one, "CREATE DATABASE more"); err == nil {
		t.Errorf("a test's user has rights beyond its database: %q", got)
	}
}

func TestStartPostgres(t *testing.T) {
	t.Parallel()
	s := StartPostgres(t)
	system := s.SQL("SELECT system_identifier FROM pg_control_system()")
	hurt(t, s.Server,
		func() { s.SQL("CREATE TABLE IF NOT EXISTS t (x int); INSERT INTO t VALUES (1)") },
		func() string { return s.SQL("CREATE TABLE IF NOT EXISTS t (x int); SELECT count(*) FROM t") })
	if after := s.SQL("SELECT system_identifier FROM pg_control_system()"); after == system {
		t.Errorf("a new cluster has the old one's identifier %s", after)
	}
	if got, err := ask(t, s.Server, s.URL(), "SELECT current_user"); err != nil || got != "cronce" {
		t.Errorf("%s: %q, %v", s.URL(), got, err)
	}
}

func TestPostgresReplica(t *testing.T) {
	t.Parallel()
	primary := StartPostgres(t)
	replica := primary.StartReplica(t)
	primary.SQL("CREATE TABLE t (x int)")
	await(t, "the table to arrive", func() error {
		_, err := ask(t, replica.Server, replica.URL(), "SELECT 'public.t'::regclass")
		return err
	})
	if got, err := ask(t, replica.Server, replica.AdminURL(), "INSERT INTO t VALUES (1)"); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a replica takes a write: %q, %v", got, err)
	}
	timeline := "SELECT timeline_id FROM pg_control_checkpoint()"
	primary.Kill()
	replica.Promote()
	replica.SQL("INSERT INTO t VALUES (1); CHECKPOINT")
	if got := replica.SQL(timeline); got != "2" {
		t.Errorf("after its promotion it is on timeline %s", got)
	}
	primary.Restart(Kept)
	if got := primary.SQL(timeline); got != "1" {
		t.Errorf("the old primary comes back on timeline %s", got)
	}
}

func TestStartPgBouncer(t *testing.T) {
	t.Parallel()
	s := StartPostgres(t)
	b := StartPgBouncer(t, "transaction", s.URL())
	where := "SELECT inet_server_port()"
	for range 2 {
		if got, err := ask(t, b.Server, b.URL(), where); err != nil || got != s.SQL(where) {
			t.Errorf("through it: %q, %v", got, err)
		}
		b.Restart(Kept)
	}
	b.Stop()
	silent(t, b.Addr(), "")
	b.Continue()
	// In a pool of transactions, a session's settings go to another client; in
	// one of sessions they do not.
	for mode, want := range map[string]string{"transaction": "777kB", "session": s.SQL("SHOW work_mem")} {
		b := StartPgBouncer(t, mode, s.URL())
		if _, err := ask(t, b.Server, b.URL(), "SET work_mem = '777kB'"); err != nil {
			t.Error(err)
		}
		if got, err := ask(t, b.Server, b.URL(), "SHOW work_mem"); err != nil || got != want {
			t.Errorf("through a pool in %s mode: %q, %v", mode, got, err)
		}
	}
}

func TestMariaDB(t *testing.T) {
	one, two := MariaDB(t), MariaDB(t)
	for _, target := range []string{one, two} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(u.Path, "/")
		s, err := sharedMariaDB()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := mariadb(s.Server, u.User.Username(), name, "CREATE TABLE t (x int); SELECT database()"); err != nil || got != name {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		if got, err := mariadb(s.Server, u.User.Username(), name, "CREATE TABLE cronce.t (x int)"); err == nil {
			t.Errorf("a test's user has rights beyond its database: %q", got)
		}
	}
}

func TestStartMariaDB(t *testing.T) {
	t.Parallel()
	s := StartMariaDB(t)
	hurt(t, s.Server,
		func() { s.SQL("CREATE TABLE IF NOT EXISTS t (x int); INSERT INTO t VALUES (1)") },
		func() string { return s.SQL("CREATE TABLE IF NOT EXISTS t (x int); SELECT count(*) FROM t") })
}
