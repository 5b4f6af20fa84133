package testenv

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// MariaDBServer is a MariaDB of a test's own, as it is without a configuration
// file.
type MariaDBServer struct{ *Server }

var sharedMariaDB = sync.OnceValues(func() (*MariaDBServer, error) { return newMariaDB(nil) })

// MariaDB returns the URL of an empty database with a new user who may do all
// in it, mysql://USER:PASSWORD@HOST:PORT/DATABASE, on a server that all tests
// of the process share. Both are dropped after the test.
func MariaDB(t testing.TB) string {
	t.Helper()
	need(t, "mariadbd", "mariadb-install-db", "mariadb")
	s, err := sharedMariaDB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.show(t) })
	return s.Database(t)
}

// StartMariaDB starts a MariaDB for this test alone. Options are those of
// mariadbd, such as --log-bin.
func StartMariaDB(t testing.TB, options ...string) *MariaDBServer {
	t.Helper()
	need(t, "mariadbd", "mariadb-install-db", "mariadb")
	s, err := newMariaDB(t, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// URL is that of the database cronce as the user cronce, who may do all in it
// and nothing beyond.
func (s *MariaDBServer) URL() string { return s.url("cronce", "cronce") }

// AdminURL is that of the database cronce as a user with all rights.
func (s *MariaDBServer) AdminURL() string { return s.url("admin", "cronce") }

// Database makes an empty database with a new user who may do all in it, and
// returns its URL.
func (s *MariaDBServer) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := s.sql(fmt.Sprintf("CREATE DATABASE %[1]s; CREATE USER %[1]s IDENTIFIED BY '%[2]s'; GRANT ALL ON %[1]s.* TO %[1]s;", name, password)); err != nil {
		t.Fatal(err)
	}
	if s.t == nil {
		t.Cleanup(func() {
			if _, err := s.sql(fmt.Sprintf("DROP DATABASE %[1]s; DROP USER %[1]s;", name)); err != nil {
				t.Error(err)
			}
		})
	}
	return s.url(name, name)
}

// SQL runs statements in the database cronce as a user with all rights, and
// returns the rows: a line each, fields parted by tabs.
func (s *MariaDBServer) SQL(statements string) string {
	s.t.Helper()
	out, err := s.sql(statements)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *MariaDBServer) url(user, database string) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(user, password), Host: s.Addr(), Path: "/" + database}
	return u.String()
}

func (s *MariaDBServer) sql(statements string) (string, error) {
	return mariadb(s.Server, "admin", "cronce", statements)
}

func mariadb(s *Server, user, database, statements string) (string, error) {
	cmd := s.client("mariadb", "--no-defaults", "-N", "-B", "-h", "127.0.0.1", "-P", strconv.Itoa(s.port), "-u", user, database)
	cmd.Env = append(cmd.Env, "MYSQL_PWD="+password)
	return output(cmd, statements)
}

func newMariaDB(t testing.TB, options ...string) (*MariaDBServer, error) {
	server, err := newServer(t, "mariadb", "mysql")
	if err != nil {
		return nil, err
	}
	s := &MariaDBServer{server}
	s.fresh = func() error {
		template, err := mariadbTemplate()
		if err != nil {
			return err
		}
		return copyTree(template, s.path("data"))
	}
	s.ready = func() error {
		_, err := s.sql("SELECT 1")
		return err
	}
	// Runs at each start before anybody is let in. The users that
	// mariadb-install-db makes have no passwords.
	if err := s.write("init.sql", strings.NewReplacer("PASSWORD", password).Replace(`
CREATE DATABASE IF NOT EXISTS cronce;
CREATE USER IF NOT EXISTS admin IDENTIFIED BY 'PASSWORD';
GRANT ALL ON *.* TO admin WITH GRANT OPTION;
CREATE USER IF NOT EXISTS cronce IDENTIFIED BY 'PASSWORD';
GRANT ALL ON cronce.* TO cronce;
DELETE FROM mysql.global_priv WHERE User IN ('', 'root');
FLUSH PRIVILEGES;
`)); err != nil {
		return nil, err
	}
	return s, s.begin(func() error {
		s.argv = append([]string{"mariadbd", "--no-defaults", "--datadir=" + s.path("data"), "--init-file=" + s.path("init.sql"),
			"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port), "--socket=socket", // a short path: it is in the data's folder
			"--pid-file=" + s.path("pid"), "--skip-name-resolve",
			"--tmpdir=" + s.dir}, options...) // one that starts removes what others have in a common one
		return nil
	})
}

// mariadbTemplate is a folder of data to be copied, which takes seconds to
// make.
var mariadbTemplate = sync.OnceValues(func() (string, error) {
	s, err := newServer(nil, "mariadb-template", "mysql")
	if err != nil {
		return "", err
	}
	// mariadbd crashes now and then while it makes the tables, on a machine that is
	// busy; that has nothing to do with what is tested.
	for range 3 {
		failure := s.tool("mariadb-install-db", "--no-defaults", "--datadir="+s.path("data"),
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-use-native-aio=0")
		if failure == nil {
			return s.path("data"), nil
		}
		err = errors.Join(err, failure, os.RemoveAll(s.path("data")))
	}
	return "", err
})
