// Package all opens stores of every kind by URL. Only the full program knows it.
package all

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/mysqlstore"
	"github.com/cronce/cronce/store/pgstore"
	"github.com/cronce/cronce/store/redisstore"
)

// kind is how stores of a URL scheme are opened.
type kind struct {
	open func(ctx context.Context, url string) (*cronce.Store, error)
	// migrations is what the store's owner can carry out beforehand, for stores
	// whose programs may not; nil: there is nothing of that kind.
	migrations func(url string) (string, error)
}

var redis = kind{open: func(ctx context.Context, url string) (*cronce.Store, error) {
	return redisstore.Open(ctx, redisstore.Options{URL: url})
}}

var postgres = kind{
	open: func(ctx context.Context, url string) (*cronce.Store, error) {
		return pgstore.Open(ctx, pgstore.Options{URL: url})
	},
	migrations: postgresMigrations,
}

var mysql = kind{
	open: func(ctx context.Context, url string) (*cronce.Store, error) {
		return mysqlstore.Open(ctx, mysqlstore.Options{URL: url})
	},
	migrations: func(string) (string, error) { return mysqlstore.Schema(), nil },
}

// kinds are the schemes of URLs. Package config has them too, as it knows no store.
var kinds = map[string]kind{
	"redis": redis, "rediss": redis,
	"redis+sentinel": redis, "rediss+sentinel": redis,
	"redis+cluster": redis, "rediss+cluster": redis,
	"valkey": redis, "valkeys": redis,
	"valkey+sentinel": redis, "valkeys+sentinel": redis,
	"valkey+cluster": redis, "valkeys+cluster": redis,
	"postgres": postgres, "postgresql": postgres,
	"mysql": mysql,
}

// meant are the schemes of others for the same servers.
var meant = map[string]string{
	"mariadb": "mysql", "mysql2": "mysql", "mysqls": "mysql", "maria": "mysql",
	"pg": "postgres", "psql": "postgres", "pgsql": "postgres", "pgx": "postgres",
	"redis-sentinel": "redis+sentinel", "sentinel": "redis+sentinel", "redis-cluster": "redis+cluster", "redis-socket": "redis",
	"tls": "rediss", "redis+tls": "rediss",
}

// PasswordFile is the environment variable that names a file with the password of the
// store whose URL has none.
const PasswordFile = "CRONCE_STORE_PASSWORD_FILE"

// Open opens the store at that URL. *cronce.ConfigError: there is none of that kind, or
// it cannot keep the promise. *cronce.UnavailableError: it cannot be reached.
func Open(ctx context.Context, storeURL string) (*cronce.Store, error) {
	k, scheme, err := find(storeURL)
	if err != nil {
		return nil, err
	}
	withPassword, err := addPassword(storeURL)
	if err != nil {
		return nil, &cronce.ConfigError{Store: scheme, What: err.Error(), Cure: "name a file with the password alone, which only its owner may change"}
	}
	// What answers there is asked while there is time for it, also where the client library waits on.
	opening, giveUp := context.WithCancel(ctx)
	defer giveUp()
	wrong := make(chan error, 1)
	ask := time.AfterFunc(patience(ctx), func() {
		if what := mismatch(ctx, scheme, storeURL); what != nil {
			wrong <- what
			giveUp()
		}
	})
	store, err := k.open(opening, withPassword)
	early := ask.Stop()
	if err == nil || errors.As(err, new(*cronce.ConfigError)) {
		return store, err
	}
	select {
	case what := <-wrong:
		return nil, what
	default:
	}
	if early && ctx.Err() == nil {
		if what := mismatch(ctx, scheme, storeURL); what != nil {
			return nil, what
		}
	}
	return nil, err
}

// patience is a quarter of the time that there is.
func patience(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return askTime
	}
	return time.Until(end) / 4
}

// Migrations is what the owner of that store can carry out beforehand, "" if there is
// nothing.
func Migrations(storeURL string) (string, error) {
	k, _, err := find(storeURL)
	if err != nil || k.migrations == nil {
		return "", err
	}
	return k.migrations(storeURL)
}

// postgresMigrations are those for the schema that the URL names.
func postgresMigrations(storeURL string) (string, error) {
	u, err := url.Parse(storeURL)
	if err != nil { // which would show the URL
		return "", &cronce.ConfigError{Store: "postgres", What: "its URL cannot be read", Cure: "write postgres://HOST/DATABASE?schema=NAME"}
	}
	text, err := pgstore.Migrations(u.Query().Get("schema"), 0)
	if err != nil {
		return "", &cronce.ConfigError{Store: "postgres", What: err.Error(), Cure: "name another one as schema=NAME in its URL"}
	}
	return text, nil
}

func find(storeURL string) (kind, string, error) {
	scheme, _, _ := strings.Cut(storeURL, "://")
	scheme = strings.ToLower(scheme)
	k, ok := kinds[scheme]
	if meant := meant[scheme]; meant != "" {
		return k, scheme, &cronce.ConfigError{Store: scheme + "://…", What: "no store is of this kind", Cure: "write " + meant + "://"}
	}
	if !ok {
		return k, scheme, &cronce.ConfigError{Store: scheme + "://…", What: "no store is of this kind",
			Cure: "give an absolute folder, or a URL that begins with " + strings.Join(slices.Sorted(maps.Keys(kinds)), "://, ") + "://"}
	}
	return k, scheme, nil
}

// addPassword puts the password of the file into a URL without one.
func addPassword(storeURL string) (string, error) { return WithPassword(storeURL, PasswordFile) }

// WithPassword puts the password of the file that an environment variable names into a URL without one. Others than the
// owner may not change that file. Errors do not show the URL.
func WithPassword(text, variable string) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return text, nil // whoever opens it says what is wrong with it, without the secrets
	}
	if _, has := u.User.Password(); has {
		return text, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s: %s may be changed by others (mode %04o)", variable, path, info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s: %s is empty", variable, path)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}
