package all

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// A URL whose kind is not that of the server at its address is told so, and what to write instead, whatever the client
// library makes of what it gets to read.
func TestAnotherKindAnswers(t *testing.T) {
	t.Parallel()
	plain := testenv.StartRedis(t).Addr()
	encrypted := testenv.StartRedisTLS(t).Addr()
	postgres := testenv.StartPostgres(t).Addr()
	mariadb := testenv.StartMariaDB(t).Addr()
	for _, c := range []struct{ url, says, cure string }{
		{"rediss://" + plain, "speaks no TLS", "redis://"},
		{"valkeys://ann:hush@" + plain, "speaks no TLS", "valkey://"},
		{"REDISS://" + plain + "/1", "speaks no TLS", "redis://"},
		{"redis://" + encrypted, "speaks TLS only", "rediss://"},
		{"redis://" + postgres, "is no Redis: it is Postgres", "postgres://"},
		{"rediss://" + postgres, "is no Redis: it is Postgres", "postgres://"},
		{"redis://" + mariadb, "is no Redis: it is MariaDB", "mysql://"},
		{"rediss://" + mariadb, "is no Redis: it is MariaDB", "mysql://"},
		{"redis+sentinel://" + postgres + "/main", "is no Redis: it is Postgres", "postgres://"},
		{"postgres://ann:hush@" + plain + "/db", "is no Postgres: it is Redis", "redis://"},
		{"postgres://ann:hush@" + plain + "/db?sslmode=disable", "is no Postgres: it is Redis", "redis://"},
		{"postgres://ann:hush@" + encrypted + "/db", "is no Postgres: it speaks TLS", "port"},
		{"postgres://ann:hush@" + mariadb + "/db", "is no Postgres: it is MariaDB", "mysql://"},
		{"mysql://ann:hush@" + plain + "/db", "is no MariaDB or MySQL: it is Redis", "redis://"},
		{"mysql://ann:hush@" + postgres + "/db", "is no MariaDB or MySQL: it is Postgres", "postgres://"},
		{"mysql://ann:hush@" + encrypted + "/db", "is no MariaDB or MySQL: it speaks TLS", "port"},
	} {
		t.Run(c.url[:strings.Index(c.url, ":")]+" "+c.says, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 16*time.Second)
			defer cancel()
			store, err := Open(ctx, c.url)
			if err == nil {
				store.Close()
			}
			var config *cronce.ConfigError
			if !errors.As(err, &config) || !strings.Contains(config.What, c.says) || !strings.Contains(config.Cure, c.cure) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v, want that it %s, and %s", c.url, err, c.says, c.cure)
			}
		})
	}
}

// Others' names for the same servers are understood well enough to say ours.
func TestSchemesThatAreMeant(t *testing.T) {
	for url, want := range map[string]string{
		"mariadb://ann:hush@h/db": "write mysql://", "pg://h/db": "write postgres://", "PSQL://h/db": "write postgres://", "redis-sentinel://h/m": "write redis+sentinel://",
	} {
		_, err := Open(t.Context(), url)
		var config *cronce.ConfigError
		if !errors.As(err, &config) || config.Cure != want || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want the cure %q", url, err, want)
		}
	}
	for scheme := range meant {
		if _, ok := kinds[scheme]; ok {
			t.Errorf("%s:// is a scheme of its own", scheme)
		}
		if _, ok := kinds[meant[scheme]]; !ok {
			t.Errorf("%s:// is said to be %s://, which is none", scheme, meant[scheme])
		}
	}
	for _, upper := range []string{"REDIS://127.0.0.1:1", "Postgres://127.0.0.1:1/db", "MySQL://ann@127.0.0.1:1/db"} {
		if _, err := Open(t.Context(), upper); !errors.As(err, new(*cronce.UnavailableError)) {
			t.Errorf("%s: %v, want that it cannot be reached", upper, err)
		}
	}
}
