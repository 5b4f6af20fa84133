package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/cronce/cronce"
)

// preflight refuses servers that cannot keep the promise. A store that is
// empty stays so.
func (d *driver) preflight(ctx context.Context, kind kind) error {
	nodes := d.client.Nodes()
	if kind != inCluster {
		nodes = map[string]rueidis.Client{"": d.client} // the master, whoever that is
	}
	var silent error
	looked := false
	for at, c := range nodes {
		text, err := c.Do(ctx, c.B().Info().Build()).ToString()
		if err != nil {
			err = d.failed(err)
			if kind == inCluster && errors.As(err, new(*cronce.UnavailableError)) {
				silent = err
				continue // the others serve; this one is looked at in its first claim
			}
			return err
		}
		looked = true
		if at != "" {
			at = " " + at
		}
		if err := d.check(kind, at, info(text)); err != nil {
			return err
		}
	}
	if !looked {
		return silent
	}
	known, err := d.client.Do(ctx, d.client.B().Get().Key(bucket(0)[0]).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return d.failed(err)
	}
	if format, _, _ := strings.Cut(known, " "); format != "1" {
		return d.refuseFormat(format)
	}
	return nil
}

// check is of one server.
func (d *driver) check(kind kind, at string, info map[string]string) error {
	if !recent(info["redis_version"]) {
		return d.refuse(fmt.Sprintf("the server%s has version %s", at, info["redis_version"]), "Redis 6.2 or Valkey 7.2 at least is needed")
	}
	clustered := info["redis_mode"] == "cluster"
	switch {
	case kind == inCluster && !clustered:
		return d.refuse("the server"+at+" is in no Cluster", "use redis://, or redis+sentinel://")
	case kind != inCluster && clustered:
		return d.refuse("the server"+at+" is in a Cluster", "use redis+cluster://")
	case kind != inCluster && info["role"] != "master":
		return d.refuse("the server"+at+" is a replica, which does not decide", fmt.Sprintf("use its master, %s:%s, or redis+sentinel://", info["master_host"], info["master_port"]))
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys") {
		return d.refuseEviction(policy)
	}
	return nil
}

func (d *driver) refuseEviction(policy string) error {
	return d.refuse("the server may evict any key when its memory is full (maxmemory-policy "+policy+"), and with it what was decided",
		"CONFIG SET maxmemory-policy noeviction, in its settings file too, or one of volatile-…: no key of cronce's has an expiry")
}

// refuseFormat is for a store that a later program has written.
func (d *driver) refuseFormat(format string) error {
	return d.refuse("it has the format "+format+", which this version of cronce does not know", "use a version that does")
}

// recent tells whether a version is 6.2 or later: scripts of earlier ones see
// no second replication id, and replicate otherwise.
func recent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a > 6 || a == 6 && b >= 2)
}

// info reads what INFO answers.
func info(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}
