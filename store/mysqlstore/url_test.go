package mysqlstore

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

func TestURLs(t *testing.T) {
	const secret = "s%2Fcr%3At"
	for _, c := range []struct{ url, place, net, addr, user, password, database string }{
		{"mysql://ann:" + secret + "@db.example.org/cron", "mysql://ann@db.example.org/cron", "tcp", "db.example.org:3306", "ann", "s/cr:t", "cron"},
		{"mysql://ann@127.0.0.1:3307/cron", "mysql://ann@127.0.0.1:3307/cron", "tcp", "127.0.0.1:3307", "ann", "", "cron"},
		{"mysql://ann:" + secret + "@[::1]:3307/cron?tls=skip-verify", "mysql://ann@[::1]:3307/cron", "tcp", "[::1]:3307", "ann", "s/cr:t", "cron"},
		{"mysql://a%40b:" + secret + "@/cron?socket=/run/mysqld/mysqld.sock", "mysql://a%40b@/cron", "unix", "/run/mysqld/mysqld.sock", "a@b", "s/cr:t", "cron"},
	} {
		got, place, err := parseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if place != c.place || got.Net != c.net || got.Addr != c.addr || got.User != c.user || got.Passwd != c.password || got.DBName != c.database {
			t.Errorf("%s: place %s, %s %s, %s %s, %s", c.url, place, got.Net, got.Addr, got.User, got.Passwd, got.DBName)
		}
	}
}

// TestURLsThatAreWrong defends that each says what is wrong, and not the password.
func TestURLsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"", "does not begin with mysql://"},
		{"ann:hunter2@tcp(127.0.0.1)/cron", "does not begin with mysql://"},
		{"postgres://ann:hunter2@host/cron", "does not begin with mysql://"},
		{"mysql:ann:hunter2@host/cron", "does not begin with mysql://"},
		{"mysql://ann:hunter2@host:port/cron", "cannot be read"},
		{"mysql://ann:hunter2%zz@host/cron", "cannot be read"},
		{"mysql://host/cron", "names no user"},
		{"mysql://ann:hunter2@host", "names no database"},
		{"mysql://ann:hunter2@host/", "names no database"},
		{"mysql://ann:hunter2@host/cron/more", "is no name of a database"},
		{"mysql://ann:hunter2@/cron", "neither a host nor a socket"},
		{"mysql://ann:hunter2@host/cron?socket=/s", "a host and a socket"},
		{"mysql://ann:hunter2@host/cron?multiStatements=true", `parameter "multiStatements"`},
		{"mysql://ann:hunter2@host/cron?tls=maybe", "tls=maybe is none of"},
		{"mysql://ann:hunter2@host/cron?tls=true&tls=false", "tls needs one value"},
		{"mysql://ann:hunter2@host/cron?tls=false&tls-ca=/ca.pem", "does not look at the certificate"},
		{"mysql://ann:hunter2@host/cron?tls-ca=/no/such/file", "no such file"},
		{"mysql://ann:hunter2@host/cron?tls-ca=/dev/null", "no certificate in /dev/null"},
		{"mysql://ann:hunter2@host/cron#part", "ends with #"},
	} {
		_, err := Open(t.Context(), Options{URL: c.url})
		var config *cronce.ConfigError
		if !errors.As(err, &config) || !strings.Contains(err.Error(), c.says) || config.Cure == "" {
			t.Errorf("%s: %v, want a *ConfigError that says %q", c.url, err, c.says)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %v", err)
		}
	}
}

// TestServersThatCannotBeUsed defends that who is asked says why, without the
// password, and which of these a person has to cure.
func TestServersThatCannotBeUsed(t *testing.T) {
	good, err := url.Parse(testenv.MariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := good.User.Password()
	with := func(change func(u *url.URL)) string {
		u := *good
		change(&u)
		return u.String()
	}
	silent := testenv.NewProxy(t, good.String())
	silent.Blackhole()
	for _, c := range []struct {
		name, url string
		config    bool
		says      string
	}{
		{"nobody there", with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), false, "connection refused"},
		{"nothing comes", silent.URL(), false, "no answer in time"},
		{"no such socket", with(func(u *url.URL) { u.Host, u.RawQuery = "", "socket=/no/such" }), false, "/no/such"},
		{"wrong password", with(func(u *url.URL) { u.User = url.UserPassword(good.User.Username(), "hunter2") }), true, "CRONCE_STORE_PASSWORD_FILE"},
		{"no such database", with(func(u *url.URL) { u.Path = "/cronce" }), true, "Access denied"},
		{"no TLS there", at(t, good.String(), "tls", "true"), false, "TLS"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if c.says != "no answer in time" {
			cancel()
			ctx, cancel = context.WithCancel(t.Context())
		}
		_, err := Open(ctx, Options{URL: c.url})
		cancel()
		if got := errors.As(err, new(*cronce.ConfigError)); err == nil || got != c.config || !c.config && !errors.As(err, new(*cronce.UnavailableError)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%T), want %q, a *ConfigError: %v", c.name, err, err, c.says, c.config)
		}
		if err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: the password is in %v", c.name, err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t, "--default-time-zone=+05:30")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = ""
	s, err := Open(t.Context(), Options{URL: at(t, u.String(), "socket", filepath.Join(server.SQL("SELECT @@datadir"), "socket"))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now, err := s.Now(t.Context())
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("the store's time is %v, %v", now, err)
	}
}
