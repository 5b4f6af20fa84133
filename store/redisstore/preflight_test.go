package redisstore

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

func TestRefusedAtOpen(t *testing.T) {
	t.Parallel()
	evicts := testenv.StartRedis(t, "maxmemory-policy allkeys-lru", "maxmemory 100mb")
	master := testenv.StartRedis(t)
	replica := master.StartReplica(t)
	clustered := testenv.StartRedis(t, "cluster-enabled yes")
	later := testenv.StartRedis(t)
	later.Do("SET", "cronce:{0}", "2 and whatever else")
	wrongPassword := strings.Replace(master.URL(), "redis://:", "redis://:wrong", 1)

	for _, c := range []struct {
		name, url, what, cure string
	}{
		{"evicting", evicts.URL(), "allkeys-lru", "noeviction"},
		{"replica", replica.URL(), "replica", master.Addr()},
		{"cluster", clustered.URL(), "Cluster", "redis+cluster://"},
		{"no cluster", strings.Replace(master.URL(), "redis", "redis+cluster", 1), "no Cluster", "redis://"},
		{"later format", later.URL(), "format 2", "version"},
		{"no password", "redis://" + master.Addr(), "password", "CRONCE_STORE_PASSWORD_FILE"},
		{"wrong password", wrongPassword, "password", "CRONCE_STORE_PASSWORD_FILE"},
	} {
		s, err := Open(t.Context(), Options{URL: strings.TrimSuffix(c.url, "/")})
		var refused *cronce.ConfigError
		if !errors.As(err, &refused) || !strings.Contains(refused.What, c.what) || !strings.Contains(refused.Cure, c.cure) {
			t.Errorf("%s: %v, want a *cronce.ConfigError about %q with the cure %q", c.name, err, c.what, c.cure)
		}
		if err == nil {
			s.Close()
		} else if u, _ := url.Parse(c.url); u.User != nil && strings.Contains(err.Error(), passwordOf(u)) {
			t.Errorf("%s: the password is in %q", c.name, err)
		}
	}

	// What evicts only keys that have an expiry touches none of ours.
	evicts.Do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	s, err := Open(t.Context(), Options{URL: evicts.URL()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func passwordOf(u *url.URL) string {
	secret, _ := u.User.Password()
	return secret
}

// A server that took another's place is looked at before it decides anything.
func TestRefusedInTheClaim(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	s := &underTest{url: server.URL()}
	d := s.open(t, s.url)
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	var refused *cronce.ConfigError
	if _, err := cronce.NewStore(d).Claim(t.Context(), claimOf(t, d, "job")); !errors.As(err, &refused) || !strings.Contains(refused.What, "allkeys-random") {
		t.Errorf("claim on a server that evicts: %v", err)
	}
	if keys := server.Do("KEYS", "*"); keys != "" {
		t.Errorf("it wrote %s", keys)
	}
	server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	server.Do("SET", "cronce:{0}", "2 and whatever else")
	for name, err := range map[string]error{
		"claim":   errOf(cronce.NewStore(d).Claim(t.Context(), claimOf(t, d, "job"))),
		"request": d.Request(t.Context(), cronce.Request{Kind: cronce.Pause, Job: "job"}),
		"prune":   errOf(d.Prune(t.Context(), "job", time.Now())),
		"init":    d.Init(t.Context()),
	} {
		if !errors.As(err, &refused) || !strings.Contains(refused.What, "format 2") {
			t.Errorf("%s in a store of another format: %v", name, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	server.Kill()
	_, err := Open(t.Context(), Options{URL: server.URL()})
	var unavailable *cronce.UnavailableError
	u, _ := url.Parse(server.URL())
	if !errors.As(err, &unavailable) || strings.Contains(err.Error(), passwordOf(u)) {
		t.Errorf("open: %v, want *cronce.UnavailableError without the password", err)
	}
}

// A silent server is given up in time, and by a caller's deadline at once; what
// was asked meanwhile has not been done.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.URL())
	s := &underTest{url: proxy.URL()}
	d := s.open(t, s.url)
	c := claimOf(t, d, "job")
	proxy.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := cronce.NewStore(d).Claim(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("claim with a deadline: %v", err)
	}
	var unavailable *cronce.UnavailableError
	if _, err := cronce.NewStore(d).Claim(t.Context(), c); !errors.As(err, &unavailable) {
		t.Errorf("claim: %v, want *cronce.UnavailableError", err)
	}
	proxy.Restore()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		runs, err := d.Runs(t.Context(), cronce.RunQuery{})
		if err == nil && len(runs) == 0 {
			return
		}
		if err == nil || time.Now().After(end) {
			t.Fatalf("after the silence: %+v, %v", runs, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisTLS(t)
	if _, err := Open(t.Context(), Options{URL: server.URL()}); err == nil {
		t.Error("a certificate by an unknown authority is taken")
	}
	s := &underTest{url: server.URL() + "?ca=" + url.QueryEscape(server.CAFile())}
	d := s.open(t, s.url)
	if err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustRun(t, d, "job")
}

// Work starts only when the replicas have the claim; until then the claim is
// repeated, and gets the same answer.
func TestReplicasAcknowledge(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	replica := master.StartReplica(t)
	s := &underTest{url: master.URL() + "?replicas=1"}
	d := s.open(t, s.url)
	if err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustRun(t, d, "job")
	replica.Stop()
	c := claimOf(t, d, "other")
	_, err := cronce.NewStore(d).Claim(t.Context(), c)
	var unavailable *cronce.UnavailableError
	if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Fatalf("claim without its replica: %v, want *cronce.UnavailableError", err)
	}
	replica.Continue()
	l, err := cronce.NewStore(d).Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if has := replica.Do("HEXISTS", "cronce:{0}:job:other", "r:"+l.Run.ID); has != "1" {
		t.Error("the replica lacks a claim that it acknowledged")
	}
	if runs, err := d.Runs(t.Context(), cronce.RunQuery{Job: "other"}); err != nil || len(runs) != 1 {
		t.Errorf("on record: %+v, %v", runs, err)
	}
}

// History is bounded, and what is forgotten stays decided.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	s := &underTest{url: testenv.Redis(t)}
	d := s.open(t, s.url)
	d.keep = 10
	ctx := t.Context()
	if err := d.Init(ctx); err != nil {
		t.Fatal(err)
	}
	const n = 200
	first := claimOf(t, d, "job")
	first.Tick = first.Tick.Add(-n * time.Second)
	for i := range n {
		c := first
		c.RunID, c.Tick = cronce.NewRunID(), first.Tick.Add(time.Duration(i)*time.Second)
		l, err := cronce.NewStore(d).Claim(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Finish(ctx, l, cronce.Result{Outcome: cronce.Failed, Output: []byte(strings.Repeat("x", 100<<10))}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := d.Runs(ctx, cronce.RunQuery{Job: "job"})
	if err != nil || len(runs) < 10 || len(runs) > 10+64 {
		t.Errorf("%d runs are kept, %v; want 10 and a few", len(runs), err)
	}
	for name, command := range map[string][]string{"fields of the job": {"HLEN", "cronce:{0}:job:job"}, "outputs": {"LLEN", "cronce:{0}:output:job"}} {
		got, err := d.client.Do(ctx, d.client.B().Arbitrary(command[0]).Keys(command[1]).Build()).AsInt64()
		if err != nil || got > 3*(10+64)+10 {
			t.Errorf("%d %s are kept, %v", got, name, err)
		}
	}
	for _, i := range []int{0, n / 2, n - 1} {
		c := first
		c.RunID, c.Tick = cronce.NewRunID(), first.Tick.Add(time.Duration(i)*time.Second)
		if _, err := cronce.NewStore(d).Claim(ctx, c); !errors.As(err, new(*cronce.TakenError)) {
			t.Errorf("tick %d again: %v, want *cronce.TakenError", i, err)
		}
	}
}

// No key of ours has an expiry: what decides is not to vanish by itself.
func TestNoKeyExpires(t *testing.T) {
	t.Parallel()
	s := &underTest{url: testenv.Redis(t)}
	d := s.open(t, s.url)
	if err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustRun(t, d, "job")
	if err := d.Request(t.Context(), cronce.Request{Kind: cronce.Pause, Job: "job"}); err != nil {
		t.Fatal(err)
	}
	keys, err := d.client.Do(t.Context(), d.client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil || len(keys) < 4 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	for _, k := range keys {
		if ttl, err := d.client.Do(t.Context(), d.client.B().Ttl().Key(k).Build()).AsInt64(); err != nil || ttl != -1 {
			t.Errorf("%s ends in %d s, %v", k, ttl, err)
		}
	}
}

// The permissions that the page asks for are enough, and without them it says so.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	page, err := os.ReadFile("../../docs/stores/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(page), "ACL SETUSER ")
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if !ok || len(words) < 4 || words[0] != "cronce" || words[2] != ">PASSWORD" {
		t.Fatalf("the page has no line for ACL SETUSER, or another one: %q", line)
	}
	words[2] = ">secret"
	server.Do(append([]string{"ACL", "SETUSER"}, words...)...)
	s := &underTest{url: "redis://cronce:secret@" + server.Addr() + "?replicas=0"}
	store, err := Open(t.Context(), Options{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := cronce.Claim{RunID: cronce.NewRunID(), Job: "job"}
	l, err := store.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = store.Renew(t.Context(), l); err != nil {
		t.Error(err)
	}
	if err := store.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded, Output: []byte("x")}); err != nil {
		t.Error(err)
	}
	if err := store.Request(t.Context(), cronce.Request{Kind: cronce.Pause, Job: "job"}); err != nil {
		t.Error(err)
	}
	if jobs, err := store.Jobs(t.Context()); err != nil || len(jobs) != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
	if n, err := store.Prune(t.Context(), "", time.Now().Add(time.Minute)); err != nil || n != 1 {
		t.Errorf("%d pruned, %v", n, err)
	}

	server.Do("ACL", "SETUSER", "cronce", "-info")
	var refused *cronce.ConfigError
	c.RunID = cronce.NewRunID()
	if _, err := store.Claim(t.Context(), c); !errors.As(err, &refused) || !strings.Contains(refused.What, "permission") {
		t.Errorf("claim without INFO: %v, want a *cronce.ConfigError", err)
	}
}

// Many programs come to a new store at once, and one of them runs the tick.
func TestManyComeToANewStore(t *testing.T) {
	t.Parallel()
	s := &underTest{url: testenv.Redis(t)}
	c := claimOf(t, s.open(t, s.url), "job")
	var wg sync.WaitGroup
	won := make(chan string, 32)
	for range cap(won) {
		wg.Go(func() {
			store, err := Open(t.Context(), Options{URL: s.url})
			if err != nil {
				t.Error(err)
				return
			}
			defer store.Close()
			if err := store.Init(t.Context()); err != nil {
				t.Error(err)
				return
			}
			mine := c
			mine.RunID = cronce.NewRunID()
			if l, err := store.Claim(t.Context(), mine); err == nil {
				won <- l.Run.ID
			} else if !errors.As(err, new(*cronce.TakenError)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d of %d run it, want 1", len(won), cap(won))
	}
}
