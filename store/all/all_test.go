package all

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/config"
)

// A YAML file may name every store that there is, and none that there is not.
func TestConfigKnowsTheSame(t *testing.T) {
	listed, _, _ := strings.Cut(storeError("nothing"), "\n")
	_, listed, _ = strings.Cut(listed, "one of ")
	told := slices.DeleteFunc(strings.Split(listed, ", "), func(s string) bool { return s == "file" })
	slices.Sort(told)
	if have := slices.Sorted(maps.Keys(kinds)); !slices.Equal(told, have) {
		t.Errorf("a YAML file may name %q, and there are %q", told, have)
	}
	for scheme := range kinds {
		if msg := storeError(scheme); msg != "" {
			t.Errorf("store: %s://h: %s", scheme, msg)
		}
	}
}

// storeError is what package config says of a store with that scheme.
func storeError(scheme string) string {
	_, err := config.Parse(strings.NewReader("store: "+scheme+"://h\njobs: {a: {schedule: '@hourly', command: ['true']}}\n"), "f.yaml")
	if err != nil {
		return err.Error()
	}
	return ""
}

// Each scheme is one that its store takes: it gets as far as the missing server.
func TestSchemesAreTheStores(t *testing.T) {
	for scheme := range kinds {
		rest := "127.0.0.1:1"
		switch {
		case strings.HasSuffix(scheme, "+sentinel"):
			rest += "/master"
		case scheme == "mysql":
			rest = "ann@" + rest + "/db"
		case strings.HasPrefix(scheme, "postgres"):
			rest += "/db"
		}
		store, err := Open(t.Context(), scheme+"://"+rest)
		var away *cronce.UnavailableError
		if !errors.As(err, &away) {
			t.Errorf("%s: %v, want that it cannot be reached", scheme, err)
		}
		if err == nil {
			store.Close()
		}
	}
}

// Where programs may not make tables, the owner of a store gets what they would run.
func TestMigrations(t *testing.T) {
	for _, c := range []struct{ url, has string }{
		{"redis://h", ""},
		{"postgres://h/db", "CREATE SCHEMA IF NOT EXISTS cronce;"},
		{"postgresql://h/db?schema=other", "CREATE SCHEMA IF NOT EXISTS other;"},
		{"mysql://h/db", "cronce_jobs"},
	} {
		text, err := Migrations(c.url)
		if err != nil || !strings.Contains(text, c.has) || (text == "") != (c.has == "") {
			t.Errorf("%s: %v, %q", c.url, err, text)
		}
	}
	for _, bad := range []string{"postgres://h/db?schema=A-b", "postgres://ann:hush@h:port/db", "nothing://h"} {
		text, err := Migrations(bad)
		var config *cronce.ConfigError
		if !errors.As(err, &config) || text != "" || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, %q", bad, err, text)
		}
	}
}

// A password with signs in it that end it, so that a part of it is taken for something else, is
// in no error.
func TestPasswordInTheWrongPlace(t *testing.T) {
	for scheme := range kinds {
		for _, password := range []string{"hush?hush", "12?hush", "12?hush=hush", "hush#hush", "12#hush", "hush/hush", "12/hush", "hu%sh", "hush@hush", "12:hush?hush"} {
			for _, user := range []string{"ann", ""} {
				store, err := Open(t.Context(), scheme+"://"+user+":"+password+"@127.0.0.1:1/db")
				if err == nil {
					store.Close()
				}
				if err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "hu%sh") {
					t.Errorf("%s with the password %s: %v", scheme, password, err)
				}
			}
		}
	}
}
