package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultStoreTimeout is how long a command tries to reach a store.
const DefaultStoreTimeout = 5 * time.Second

// StoreTimeoutVariable is the environment variable for --store-timeout.
const StoreTimeoutVariable = "CRONCE_STORE_TIMEOUT"

// LocalStoreVariable is the environment variable that names the local store where
// CRONCE_STORE names one that hosts share.
const LocalStoreVariable = "CRONCE_LOCAL_STORE"

// IsURL reports whether a store is named by a URL, and so is not a local one.
func IsURL(store string) bool {
	return strings.Contains(store, "://") && !strings.HasPrefix(store, "file://")
}

// StoreFlag adds --store and --store-timeout, and returns where the first one's value
// is; it is CRONCE_STORE by default. On the command line a folder may be relative, as
// people type it, and a URL has no password, as everybody on the machine can read it
// there.
func StoreFlag(f *Flags) *string {
	store := os.Getenv("CRONCE_STORE")
	f.Func("store", "", func(v string) (err error) {
		if v == "" {
			return errors.New("a folder or a URL is expected")
		}
		if scheme := almostURL(v); scheme != "" {
			f.secret = fmt.Errorf("--store %s:…: a URL has :// behind %[1]s; a folder of this name is ./%[1]s:…", scheme)
			return nil
		}
		if store = v; !strings.Contains(v, "://") {
			store, err = filepath.Abs(v)
		}
		if shown := WithoutSecrets(v); IsURL(v) && shown != v {
			f.secret = fmt.Errorf("--store %s: a password on a command line can be read by everybody on this machine: set CRONCE_STORE to the URL, or %s to a file with the password", shown, PasswordFileVariable)
		}
		return err
	})
	f.StoreTimeout = DefaultStoreTimeout
	if d, err := time.ParseDuration(os.Getenv(StoreTimeoutVariable)); err == nil && d > 0 {
		f.StoreTimeout = d
	}
	f.Func("store-timeout", "", func(v string) (err error) {
		if f.StoreTimeout, err = time.ParseDuration(v); err != nil || f.StoreTimeout <= 0 {
			return errors.New("a duration as 5s is expected")
		}
		return nil
	})
	return &store
}

// almostURL is what a place begins with that was to be a URL and lacks "://", with which it would
// be a folder of each host's own; else "".
func almostURL(place string) string {
	scheme, rest, ok := strings.Cut(place, ":")
	if !ok || scheme == "" || strings.HasPrefix(rest, "//") || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz+") != "" {
		return ""
	}
	return scheme
}

// PasswordFileVariable is the environment variable that names a file with the password of
// the store whose URL has none.
const PasswordFileVariable = "CRONCE_STORE_PASSWORD_FILE"

// CommandEnvironment is the environment for what a job runs: it gets no password of the
// store, which it could print into its record, nor is it told where that is. The URL stays,
// so that a cronce in there does not take another store, which no other host would know.
func CommandEnvironment(env []string) []string {
	var out []string
	for _, kv := range env {
		switch name, value, _ := strings.Cut(kv, "="); name {
		case PasswordFileVariable:
			continue
		case "CRONCE_STORE":
			kv = name + "=" + WithoutSecrets(value)
		}
		out = append(out, kv)
	}
	return out
}

// WithoutSecrets is a store's URL as it may be shown. net/url would do, but the program
// that is started for every job does not link it.
func WithoutSecrets(store string) string {
	scheme, rest, ok := strings.Cut(store, "://")
	if !ok {
		if almost := almostURL(store); almost != "" {
			return almost + ":…"
		}
		return store
	}
	if i := strings.LastIndexByte(rest, '@'); i > strings.IndexAny(rest, "?#") && strings.ContainsAny(rest[:max(i, 0)], "?#") {
		// Not as a password should be written, but secret.
		user, _, _ := strings.Cut(rest, ":")
		rest = strings.TrimRight(user, "?#") + ":" + rest[i:]
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path, hasPath := strings.Cut(rest, "/")
	if i := strings.LastIndex(rest, "@"); i >= len(authority) {
		// A password with a slash in it: not as it should be written, but secret.
		authority, path, hasPath = rest[:i]+"@", rest[i+1:], true
	}
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, _, secret := strings.Cut(authority[:i], ":")
		switch {
		case secret && user == "":
			authority = authority[i+1:]
		case secret:
			authority = user + authority[i:]
		}
	}
	shown := scheme + "://" + authority
	if hasPath {
		shown += "/" + path
	}
	if !hasQuery {
		return shown
	}
	var kept []string
	for _, setting := range strings.Split(query, "&") {
		if name, _, _ := strings.Cut(strings.ToLower(setting), "="); !strings.Contains(name, "password") {
			kept = append(kept, setting)
		}
	}
	if len(kept) > 0 {
		shown += "?" + strings.Join(kept, "&")
	}
	return shown
}
