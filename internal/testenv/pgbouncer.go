package testenv

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// PgBouncerServer is a PgBouncer in front of a Postgres.
type PgBouncerServer struct {
	*Server
	target *url.URL
}

// StartPgBouncer starts a PgBouncer for this test alone, in front of the
// Postgres and for the user that the URL names. The mode is the pool's:
// "transaction", "session" or "statement".
func StartPgBouncer(t testing.TB, mode, target string) *PgBouncerServer {
	t.Helper()
	need(t, "pgbouncer", "psql")
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	server, err := newServer(t, "pgbouncer", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	s := &PgBouncerServer{server, u}
	user, database := u.User.Username(), strings.TrimPrefix(u.Path, "/")
	secret, _ := u.User.Password()
	if err := s.write("users", fmt.Sprintf("%q %q\n", user, secret)); err != nil {
		t.Fatal(err)
	}
	s.argv = []string{"pgbouncer", s.path("pgbouncer.ini")}
	s.ready = func() error {
		_, err := psql(s.Server, user, database, "SELECT 1")
		return err
	}
	if err := s.begin(func() error {
		return s.write("pgbouncer.ini", strings.Join([]string{
			"[databases]",
			fmt.Sprintf("* = host=%s port=%s", u.Hostname(), u.Port()),
			"[pgbouncer]",
			"listen_addr = 127.0.0.1",
			fmt.Sprintf("listen_port = %d", s.port),
			"unix_socket_dir =",
			"auth_type = scram-sha-256",
			"auth_file = " + s.path("users"),
			"pool_mode = " + mode,
			"max_client_conn = 1000",
		}, "\n")+"\n")
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// URL is the Postgres's through the PgBouncer.
func (s *PgBouncerServer) URL() string {
	u := *s.target
	u.Host = s.Addr()
	return u.String()
}
