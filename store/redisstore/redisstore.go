// Package redisstore keeps jobs, leases and runs in Redis or Valkey: one
// server, one watched over by Sentinel, or a Cluster. See
// docs/stores/redis.md.
//
// Each operation on a job is one script on one server. A server that may lack
// decisions, because it was restarted or took another one's place, is noticed
// within the claim itself; see [cronce.Driver].
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/cronce/cronce"
)

// Options says where a store is and how long it keeps its history.
type Options struct {
	// URL is one of
	//
	//	redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]
	//	redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/MASTER[/DATABASE]
	//	redis+cluster://[USER:PASSWORD@]HOST[:PORT],…
	//
	// or the same with rediss for TLS. Settings follow as ?NAME=VALUE&…:
	// replicas, ca, cert, key, sentinel_user and sentinel_password; see
	// docs/stores/redis.md.
	URL string

	// Keep is how many of its runs and skips each job keeps, the newest; a few
	// more may be there. A forgotten tick stays decided. 0 is DefaultKeep.
	Keep int
}

// The bounds of what is kept of a job.
const (
	DefaultKeep  = 2000     // runs and skips
	keepOutputs  = 100      // runs whose output is kept
	keepOutput   = 16 << 10 // bytes of it, the last
	keepMessage  = 1 << 10  // bytes of a run's message, the first
	keepRequests = 1000
)

// timeout is how long a server may be silent.
const timeout = 5 * time.Second

// buckets is how many parts a store in a Cluster has. A job is in one of them,
// and a bucket is on one server.
const buckets = 256

// Open connects to the store, and creates nothing. *cronce.ConfigError: the
// address or the server's settings cannot keep the promise, and what to do.
// *cronce.UnavailableError: it cannot be reached.
func Open(ctx context.Context, o Options) (*cronce.Store, error) {
	d, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return cronce.NewStore(d), nil
}

// driver is the store as one process uses it.
type driver struct {
	client   rueidis.Client
	place    string // the URL without secrets
	buckets  int
	keep     int
	replicas int // how many must have a claim before its work starts
	claims   []*together
	ends     []*together
	memory   memory
	swept    sync.Map // first sights, in µs, after which all buckets were looked at
	once     sync.Once

	// These are other than usual in tests only.
	quarantine time.Duration
	offset     *atomic.Int64 // added to the server's clock, in µs
}

var _ cronce.Driver = (*driver)(nil)

func open(ctx context.Context, o Options) (*driver, error) {
	a, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	d := &driver{place: a.place(), buckets: 1, keep: o.Keep, replicas: a.replicas, quarantine: cronce.MaxTTL, offset: new(atomic.Int64)}
	if a.kind == inCluster {
		d.buckets = buckets
	}
	for i := range d.buckets {
		d.claims = append(d.claims, &together{d: d, bucket: i, send: d.claimAll})
		d.ends = append(d.ends, &together{d: d, bucket: i, send: d.finishAll})
	}
	if d.keep == 0 {
		d.keep = DefaultKeep
	}
	if d.keep < 0 {
		return nil, d.refuse(fmt.Sprintf("a history of %d runs", d.keep), "keep at least one")
	}
	option, err := a.option()
	if err != nil {
		return nil, err
	}
	if d.client, err = connect(ctx, option); err != nil {
		return nil, d.failed(err)
	}
	if err := d.preflight(ctx, a.kind); err != nil {
		d.client.Close()
		return nil, err
	}
	return d, nil
}

// connect is rueidis.NewClient, which has its own patience, for as long as the
// caller has.
func connect(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	type answer struct {
		client rueidis.Client
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		client, err := rueidis.NewClient(option)
		if err != nil && client != nil {
			client.Close()
		}
		done <- answer{client, err}
	}()
	select {
	case a := <-done:
		return a.client, a.err
	case <-ctx.Done():
		go func() {
			if a := <-done; a.err == nil {
				a.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Close ends the connections.
func (d *driver) Close() error {
	d.once.Do(d.client.Close)
	return nil
}

// refuse is a setting that breaks the promise.
func (d *driver) refuse(what, cure string) error {
	return &cronce.ConfigError{Store: d.place, What: what, Cure: cure}
}

// passwordCure is where a password belongs.
const passwordCure = "let CRONCE_STORE_PASSWORD_FILE name a file with the password; the user is the one in the URL, none where the server has only requirepass, and those of sentinels are sentinel_user and sentinel_password"

// failed says what an error of the client is.
func (d *driver) failed(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("store %s: %w", d.place, err)
	}
	var said *rueidis.RedisError
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server closed the connection, as it does when it ends or has as many clients as it takes (maxclients): %w", err)
	}
	if !errors.As(err, &said) {
		return &cronce.UnavailableError{Store: d.place, Err: err}
	}
	text := said.Error()
	code, rest, _ := strings.Cut(text, " ")
	switch {
	case code == "CRONCEFORMAT": // said by a script
		return d.refuseFormat(rest)
	case code == "CRONCEEVICTS":
		return d.refuseEviction(rest)
	case code == "NOAUTH":
		return d.refuse("the server wants a password, and got none", passwordCure)
	case code == "WRONGPASS", strings.HasPrefix(text, "AUTH "), strings.HasPrefix(text, "invalid password"):
		return d.refuse("the server does not take the user and password: "+text, passwordCure)
	case code == "NOPERM", strings.HasPrefix(text, "The user executing the script"):
		return d.refuse("the user lacks a permission: "+text, "docs/stores/redis.md lists what it needs")
	case strings.HasPrefix(text, "DB index is out of range"):
		return d.refuse("the server has no database of that number: "+text, "name one below its setting databases in the URL")
	case code != strings.ToUpper(code): // ERR, which the client takes away: all but "not now"
		return fmt.Errorf("store %s: %w", d.place, err)
	}
	// READONLY, LOADING, CLUSTERDOWN, NOREPLICAS, OOM, BUSY, …: not now.
	return &cronce.UnavailableError{Store: d.place, Err: err}
}
