package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/localstore"
	"github.com/cronce/cronce/store/redisstore"
)

// openStore opens the store that the servers are to share.
func (n *night) openStore(kind string) (err error) {
	switch kind {
	case "local":
		n.storeName, n.place = "a local store", filepath.Join(n.dir, "store")
	case "redis":
		n.storeName = "a Redis"
		if n.place, err = n.startRedis(); err != nil {
			return err
		}
	case "given":
		n.storeName, n.place = "the store of CRONCE_STORE", os.Getenv("CRONCE_STORE")
		if n.place == "" {
			return errors.New("-store given: CRONCE_STORE does not name one")
		}
	default:
		return fmt.Errorf("-store %s: local, redis or given", kind)
	}
	if strings.Contains(n.place, "://") {
		n.store, err = redisstore.Open(n.ctx, redisstore.Options{URL: n.place})
	} else {
		n.store, err = localstore.Open(localstore.Options{Dir: n.place})
	}
	if err == nil && kind == "redis" {
		// It is new, and did not lose its records: cronce store init, in Go.
		err = n.store.Init(n.ctx)
	}
	return err
}

// startRedis starts a Redis and returns its URL.
func (n *night) startRedis() (string, error) {
	program, err := find("redis-server")
	if err != nil {
		return "", err
	}
	address, err := freePort()
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(address)
	p, err := n.start("redis", nil, program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", n.dir)
	if err != nil {
		return "", err
	}
	return "redis://" + address + "/0", n.ready(p, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// runs is what is on record of the ticks from first on.
func (n *night) runs(ctx context.Context, first int64) ([]cronce.Run, error) {
	return n.store.Runs(ctx, cronce.RunQuery{Job: "policy-update", Since: time.Unix(first, 0)})
}

// awaitLost waits until the run that was killed is on record as lost, and with it
// any other of that process: at once on a local store, when its lease has ended
// on one that hosts share.
func (n *night) awaitLost() error {
	ctx, cancel := context.WithTimeout(n.ctx, cronce.MaxTTL+patience)
	defer cancel()
	for {
		runs, err := n.runs(ctx, n.killed.tick-60)
		if err != nil {
			return err
		}
		if n.killed.lost(runs) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the run of tick %s, whose process was killed, is not on record as lost: %w", clock(n.killed.tick), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// lost reports whether the run that was killed is lost, and no other of its
// process goes on.
func (k *killed) lost(runs []cronce.Run) (lost bool) {
	for _, r := range runs {
		switch {
		case r.Holder.PID != k.pid:
		case r.Live():
			return false
		case r.Tick.Unix() == k.tick:
			lost = r.Outcome == cronce.Lost
		}
	}
	return lost
}
