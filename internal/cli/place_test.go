package cli_test

import (
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/cli"
)

// Whatever a URL has of passwords is neither taken on a command line nor shown.
func TestWithoutSecrets(t *testing.T) {
	for _, c := range []struct{ url, shown string }{
		{"/var/lib/cronce", "/var/lib/cronce"},
		{"redis://host", "redis://host"},
		{"redis://host:6379/2?replicas=1", "redis://host:6379/2?replicas=1"},
		{"redis://:hush@host/2", "redis://host/2"},
		{"redis://ann:hush@host/2", "redis://ann@host/2"},
		{"redis://ann:hu@sh@host/2", "redis://ann@host/2"},
		{"redis://ann:hu/sh@host", "redis://ann@/host"},
		{"postgres://ann@host/db", "postgres://ann@host/db"},
		{"redis+sentinel://a:hush@h1,h2/m?sentinel_password=hush&replicas=1", "redis+sentinel://a@h1,h2/m?replicas=1"},
		{"postgres://host/db?password=hush", "postgres://host/db"},
		{"redis://ann:hush?more@host/2", "redis://ann@host/2"},
		{"redis://ann:12#hush@host/2", "redis://ann@host/2"},
		{"redis:/ann:hush@host", "redis:…"},
		{"Redis:ann:hush@host/2", "Redis:…"},
		{"/srv/redis:hu@st/2", "/srv/redis:hu@st/2"},
		{"./redis:here", "./redis:here"},
		{"postgres://host/db?PASSWORD=hush&sslmode=require", "postgres://host/db?sslmode=require"},
	} {
		if got := cli.WithoutSecrets(c.url); got != c.shown {
			t.Errorf("%s is shown as %s, want %s", c.url, got, c.shown)
		}
		f := cli.NewFlags("status")
		cli.StoreFlag(f)
		_, err := f.Parse([]string{"--store", c.url})
		if secret := strings.Contains(c.url, "hush") || strings.Contains(c.url, "hu@sh") || strings.Contains(c.url, "hu/sh"); secret != (err != nil) {
			t.Errorf("--store %s: %v", c.url, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "sh@")) {
			t.Errorf("--store %s: %v: the password is shown", c.url, err)
		}
	}
}
