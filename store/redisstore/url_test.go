package redisstore

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cronce/cronce"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url, place             string
		hosts                  []string
		user, password, master string
		database, replicas     int
		tls                    bool
	}{
		{url: "redis://h", place: "redis://h:6379/0", hosts: []string{"h:6379"}},
		{url: "redis://:p%40%2Fw@h:1/3?replicas=2", place: "redis://h:1/3", hosts: []string{"h:1"}, password: "p@/w", database: 3, replicas: 2},
		{url: "rediss://ann:pw@[::1]:7/", place: "rediss://ann@[::1]:7/0", hosts: []string{"[::1]:7"}, user: "ann", password: "pw", tls: true},
		{url: "redis+sentinel://:pw@a:1,b/mymaster/4", place: "redis+sentinel://a:1,b:26379/mymaster/4", hosts: []string{"a:1", "b:26379"}, password: "pw", master: "mymaster", database: 4},
		{url: "rediss+cluster://:pw@a,b:2", place: "rediss+cluster://a:6379,b:2", hosts: []string{"a:6379", "b:2"}, password: "pw", tls: true},
		{url: "valkey://h/1", place: "valkey://h:6379/1", hosts: []string{"h:6379"}, database: 1},
	} {
		a, err := parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if a.place() != c.place || !slices.Equal(a.hosts, c.hosts) || a.user != c.user || a.password != c.password ||
			a.master != c.master || a.database != c.database || a.replicas != c.replicas || a.tls != c.tls {
			t.Errorf("%s is read as %+v, %s", c.url, a, a.place())
		}
	}
}

func TestBadURLs(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"", "redis://"},
		{"http://:s3cret@h", "redis://"},
		{"redis://:s3cret@", "HOST"},
		{"redis://:s3cret@h:99999", "HOST:PORT"},
		{"redis://:s3cret@h:port", "HOST:PORT"},
		{"redis://:s3cret%zz@h", "USER:PASSWORD"},
		{"redis://:s3cret:h", "HOST:PORT"},
		{"redis://:a/s3cret@h", "%2F"},
		{"redis://:a?s3cret@h", "%3F"},
		{"redis://s3cret@h", "USER:PASSWORD"},
		{"redis://:s3cret@h/db", "number"},
		{"redis://:s3cret@h/-1", "number"},
		{"redis://:s3cret@a,b", "redis+sentinel://"},
		{"redis+sentinel://:s3cret@h", "MASTER"},
		{"redis+cluster://:s3cret@h/1", "no databases"},
		{"redis://:s3cret@h?replica=1", `"replica"`},
		{"redis://:s3cret@h?replicas=many", "replicas=many"},
		{"redis://:s3cret@h?ca=/x", "rediss"},
		{"rediss://:s3cret@h?ca=/does/not/exist", "/does/not/exist"},
		{"rediss://:s3cret@h?cert=/x", "together"},
		{"redis+sentinel://:s3cret@h/m?sentinel_password=%zz", "NAME=VALUE"},
	} {
		_, err := Open(t.Context(), Options{URL: c.url})
		var refused *cronce.ConfigError
		if !errors.As(err, &refused) || !strings.Contains(refused.What, c.want) {
			t.Errorf("%s: %v, want a *cronce.ConfigError that speaks of %s", c.url, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is in %q", err)
		}
	}
}
