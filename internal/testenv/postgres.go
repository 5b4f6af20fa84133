package testenv

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// PostgresServer is a Postgres of a test's own, with Debian's settings but
// for 200 connections. Passwords are asked for (SCRAM).
type PostgresServer struct{ *Server }

var (
	sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) { return newPostgres(nil) })
	databases      atomic.Int64 // of all servers: a name is never used twice
)

// Postgres returns the URL of an empty database that belongs to a new user,
// postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=disable, on a server
// that all tests of the process share. Both are dropped after the test.
func Postgres(t testing.TB) string {
	t.Helper()
	need(t, "initdb", "psql")
	s, err := sharedPostgres()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.show(t) })
	return s.Database(t)
}

// StartPostgres starts a Postgres for this test alone.
func StartPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	need(t, "initdb", "psql")
	s, err := newPostgres(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// StartReplica starts a streaming replica that takes reads only.
func (s *PostgresServer) StartReplica(t testing.TB) *PostgresServer {
	t.Helper()
	server, err := newServer(t, "postgres-replica", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	r := &PostgresServer{server}
	r.fresh = func() error {
		cmd := r.command(r.as([]string{"pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "postgres",
			"-D", r.path("data"), "-R", "--checkpoint=fast", "--no-sync"}))
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
		return run(cmd, "")
	}
	if err := r.begin(r.configure); err != nil {
		t.Fatal(err)
	}
	await(t, "the replica to stream", func() error {
		if r.SQL("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'") != "1" {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	return r
}

// Promote makes a replica a primary with a timeline of its own (pg_ctl
// promote), and returns when it takes writes.
func (s *PostgresServer) Promote() {
	s.t.Helper()
	if err := s.tool("pg_ctl", "promote", "-w", "-D", s.path("data")); err != nil {
		s.t.Fatal(err)
	}
}

// URL is that of the database cronce as its owner, a user with no rights
// beyond.
func (s *PostgresServer) URL() string { return s.url("cronce", "cronce") }

// AdminURL is that of the database cronce as the superuser postgres.
func (s *PostgresServer) AdminURL() string { return s.url("postgres", "cronce") }

// Database makes an empty database that belongs to a new user, and returns
// its URL.
func (s *PostgresServer) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := s.sql(fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s';\nCREATE DATABASE %[1]s OWNER %[1]s;", name, password)); err != nil {
		t.Fatal(err)
	}
	if s.t == nil {
		t.Cleanup(func() {
			if _, err := s.sql(fmt.Sprintf("DROP DATABASE %[1]s WITH (FORCE);\nDROP ROLE %[1]s;", name)); err != nil {
				t.Error(err)
			}
		})
	}
	return s.url(name, name)
}

// SQL runs statements in the database cronce as the superuser, and returns
// the rows: a line each, fields parted by |.
func (s *PostgresServer) SQL(statements string) string {
	s.t.Helper()
	out, err := s.sql(statements)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// Dump is what pg_dump --clean makes of the database that a URL names: SQL that
// drops what is there and makes it as it is now, without commands of psql.
func (s *PostgresServer) Dump(database string) string {
	s.t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.client("pg_dump", "--clean", "--inserts", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "postgres", u.Path[1:])
	cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	out, err := output(cmd, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return psqlCommand.ReplaceAllString(out, "")
}

var psqlCommand = regexp.MustCompile(`(?m)^\\.*$`)

func (s *PostgresServer) url(user, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: s.Addr(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

func (s *PostgresServer) sql(statements string) (string, error) {
	return psql(s.Server, "postgres", "cronce", statements)
}

func psql(s *Server, user, database, statements string) (string, error) {
	cmd := s.client("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", user, "-d", database)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	return output(cmd, statements)
}

func newPostgres(t testing.TB) (*PostgresServer, error) {
	server, err := newServer(t, "postgres", "postgres")
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{server}
	s.fresh = func() error {
		template, err := postgresTemplate()
		if err != nil {
			return err
		}
		return copyTree(template, s.path("data"))
	}
	if err := s.begin(s.configure); err != nil {
		return nil, err
	}
	// What comes after a loss is another cluster by its own word too.
	s.fresh = s.initdb
	return s, nil
}

func (s *PostgresServer) configure() error {
	s.argv = []string{"postgres", "-D", s.path("data"), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200"}
	s.ready = func() error {
		_, err := s.sql("SELECT 1")
		return err
	}
	return nil
}

// postgresTemplate is a folder of data to be copied, which is a tenth of the
// work of making it. All copies have one system identifier.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	server, err := newServer(nil, "postgres-template", "postgres")
	if err != nil {
		return "", err
	}
	s := &PostgresServer{server}
	return s.path("data"), s.initdb()
})

// initdb makes new data, with the database and the users.
func (s *PostgresServer) initdb() error {
	if err := s.write("password", password+"\n"); err != nil {
		return err
	}
	defer os.Remove(s.path("password"))
	if err := s.tool("initdb", "-D", s.path("data"), "-U", "postgres", "--auth=scram-sha-256", "--pwfile="+s.path("password"),
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"); err != nil {
		return err
	}
	cmd := s.command(s.as([]string{"postgres", "--single", "-D", s.path("data"), "postgres"}))
	return run(cmd, fmt.Sprintf("CREATE ROLE cronce LOGIN PASSWORD '%s'\nCREATE DATABASE cronce OWNER cronce\n", password))
}
