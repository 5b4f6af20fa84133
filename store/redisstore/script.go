package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// script is a Lua script, which the server knows by its SHA-1 once it has seen
// it.
type script struct{ text, sum string }

var (
	//go:embed clock.lua
	clockText string
	//go:embed base.lua
	baseText string
	//go:embed store.lua
	storeText string
	//go:embed quick.lua
	quickText string
	//go:embed claims.lua
	claimsText string
	//go:embed claim.lua
	claimText string
	//go:embed lease.lua
	leaseText string
	//go:embed renew.lua
	renewText string
	//go:embed finish.lua
	finishText string
	//go:embed request.lua
	requestText string
	//go:embed read.lua
	readText string
	//go:embed prune.lua
	pruneText string
	//go:embed bucket.lua
	bucketText string

	claimScript   = newScript(clockText, quickText, storeText, claimText, claimsText)
	renewScript   = newScript(clockText, leaseText, renewText)
	finishScript  = newScript(clockText, leaseText, finishText)
	requestScript = newScript(clockText, baseText, storeText, requestText)
	readScript    = newScript(clockText, baseText, storeText, readText)
	pruneScript   = newScript(clockText, baseText, storeText, pruneText)
	bucketScript  = newScript(clockText, baseText, storeText, bucketText)
)

func newScript(parts ...string) script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

// doer is a client, or one connection of it.
type doer interface {
	B() rueidis.Builder
	Do(context.Context, rueidis.Completed) rueidis.RedisResult
}

func (s script) bySum(c doer, keys, args []string) rueidis.Completed {
	return c.B().Evalsha().Sha1(s.sum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// run runs a script, and sends its text where the server does not know it.
func (s script) run(ctx context.Context, c doer, keys, args []string) rueidis.RedisResult {
	r := c.Do(ctx, s.bySum(c, keys, args))
	if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
		r = c.Do(ctx, c.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	return r
}

// run runs a script and reads its answer, a list of texts. ARGV[1] is the
// tests' clock.
func (d *driver) run(ctx context.Context, s script, keys []string, args ...string) ([]string, error) {
	return d.answer(s.run(ctx, d.client, keys, d.args(args)))
}

func (d *driver) args(args []string) []string {
	return append([]string{strconv.FormatInt(d.offset.Load(), 10)}, args...)
}

func (d *driver) answer(r rueidis.RedisResult) ([]string, error) {
	answer, err := r.AsStrSlice()
	if err != nil {
		return nil, d.failed(err)
	}
	return answer, nil
}

// each runs a script for every one of the key lists, and hands the answers
// over in their order.
func (d *driver) each(ctx context.Context, s script, keys [][]string, args []string, take func(i int, answer []string) error) error {
	args = d.args(args)
	for at := 0; at < len(keys); at += 1000 {
		part := keys[at:min(at+1000, len(keys))]
		cmds := make([]rueidis.Completed, len(part))
		for i, k := range part {
			cmds[i] = s.bySum(d.client, k, args)
		}
		for i, r := range d.client.DoMulti(ctx, cmds...) {
			if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
				r = s.run(ctx, d.client, part[i], args)
			}
			answer, err := d.answer(r)
			if err == nil {
				err = take(at+i, answer)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket is the keys of a bucket, where those of a job would stand.
func bucket(i int) []string {
	tag := tagOf(i)
	return []string{tag, tag, tag, tag + ":jobs"}
}

// all is the keys of every bucket.
func (d *driver) all() [][]string {
	keys := make([][]string, d.buckets)
	for i := range keys {
		keys[i] = bucket(i)
	}
	return keys
}

// How many of a job's keys a script needs: those of its lease alone, those of
// a decision, or all.
const (
	leaseKeys = 1
	orderKeys = 2
	jobKeys   = 6

	requestKey, outputKey = 4, 5 // among all
)

// keys is the keys of a job, all on one server of a Cluster: what is between
// the first braces alone decides which.
func (d *driver) keys(job string, n int) []string {
	tag := tagOf(d.bucketOf(job))
	switch n {
	case leaseKeys:
		return []string{tag + ":job:" + job}
	case orderKeys:
		return []string{tag + ":job:" + job, tag + ":order:" + job}
	}
	return []string{tag + ":job:" + job, tag + ":order:" + job, tag, tag + ":jobs", tag + ":requests:" + job, tag + ":output:" + job}
}

// bucketOf is the number of a job's bucket.
func (d *driver) bucketOf(job string) int {
	if d.buckets == 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(job))
	return int(h.Sum32() % uint32(d.buckets))
}

// tagOf is what the keys of a bucket begin with, and its own key.
func tagOf(bucket int) string { return "cronce:{" + strconv.Itoa(bucket) + "}" }

// names is the names of all jobs.
func (d *driver) names(ctx context.Context) ([]string, error) {
	var names []string
	err := d.each(ctx, bucketScript, d.all(), []string{"jobs"}, func(_ int, some []string) error {
		names = append(names, some...)
		return nil
	})
	return names, err
}

// Now is the server's clock; in a Cluster, that of one of them.
func (d *driver) Now(ctx context.Context) (time.Time, error) {
	answer, err := d.run(ctx, bucketScript, bucket(0), "now")
	if err != nil {
		return time.Time{}, err
	}
	return d.time(answer[0]), nil
}

// Init makes every bucket known.
func (d *driver) Init(ctx context.Context) error { return d.look(ctx, "init") }

// look has every bucket see who its server is.
func (d *driver) look(ctx context.Context, how string) error {
	return d.each(ctx, bucketScript, d.all(), []string{how}, func(int, []string) error { return nil })
}

// micros writes an instant as the scripts have it.
func micros(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// time reads one; "" and what is none is zero.
func (d *driver) time(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// checkID keeps what a script takes apart by spaces apart.
func checkID(id string) error {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-'
	}) {
		return fmt.Errorf("run id %q is not of letters, digits and hyphens: NewRunID makes one", id)
	}
	return nil
}
