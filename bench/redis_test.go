package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/redisstore"
)

// BenchmarkRedis shows how many ticks can be claimed and finished on one
// Redis by so many goroutines of one program, beside how many locks others
// take and give back there: in turn, several rounds, medians.
func BenchmarkRedis(b *testing.B) {
	at := testenv.StartRedis(b, "appendonly no").URL() + "0"
	for _, clients := range []int{1, 64} {
		var all [][]pairs
		for range *rounds {
			var round []pairs
			for _, r := range lockers {
				p, err := measurePairs(at, r, clients)
				if err != nil {
					b.Fatalf("%s: %v", r.name, err)
				}
				round = append(round, p)
			}
			all = append(all, round)
		}
		for i, r := range lockers {
			b.Run(fmt.Sprintf("clients=%d/%s", clients, r.name), func(b *testing.B) {
				of := func(figure func(pairs) float64) float64 {
					var values []float64
					for _, round := range all {
						values = append(values, figure(round[i]))
					}
					return median(values)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(of(func(p pairs) float64 { return p.rate }), "pairs/s")
				b.ReportMetric(of(func(p pairs) float64 { return p.p50 }), "p50-µs")
				b.ReportMetric(of(func(p pairs) float64 { return p.p99 }), "p99-µs")
				b.ReportMetric(of(func(p pairs) float64 { return p.server }), "server-cpu-µs")
				b.ReportMetric(of(func(p pairs) float64 { return p.client }), "client-cpu-µs")
			})
		}
	}
}

// pairs is what one measurement found: claims and finishes a second, how long
// one of both took, and the processor time of server and client for it, in µs.
type pairs struct{ rate, p50, p99, server, client float64 }

// pairTime is how long each measurement goes on.
const pairTime = 1 * time.Second

// locker takes and gives back what goroutine i of a program wants, for the
// n-th time.
type locker struct {
	name string
	open func(at string) (pair func(ctx context.Context, i, n int) error, shut func(), err error)
}

var lockers = []locker{
	{"cronce", func(at string) (func(context.Context, int, int) error, func(), error) {
		s, err := redisstore.Open(context.Background(), redisstore.Options{URL: at})
		if err != nil {
			return nil, nil, err
		}
		if err := s.Init(context.Background()); err != nil {
			return nil, nil, err
		}
		first := time.Now().Truncate(time.Second).Add(-1000 * time.Hour)
		jobs := cronce.NewRunID() // other ones than those of earlier measurements
		return func(ctx context.Context, i, n int) error {
			l, err := s.Claim(ctx, cronce.Claim{
				RunID: cronce.NewRunID(), Job: fmt.Sprint(jobs, "/", i), Tick: first.Add(time.Duration(n) * time.Second),
				Holder: cronce.Holder{Host: "host", PID: 4711, User: "user", Via: "bench"},
			})
			if err != nil {
				return err
			}
			return s.Finish(ctx, l, cronce.Result{Outcome: cronce.Succeeded})
		}, func() { s.Close() }, nil
	}},
	{"bsm/redislock", func(at string) (func(context.Context, int, int) error, func(), error) {
		c, err := goRedis(at)
		if err != nil {
			return nil, nil, err
		}
		locks := redislock.New(c)
		return func(ctx context.Context, i, _ int) error {
			l, err := locks.Obtain(ctx, fmt.Sprint("redislock", i), cronce.DefaultTTL, nil)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}, func() { c.Close() }, nil
	}},
	// gocron's locker on Redis is a redsync mutex for each job.
	{"redsync", func(at string) (func(context.Context, int, int) error, func(), error) {
		c, err := goRedis(at)
		if err != nil {
			return nil, nil, err
		}
		locks := redsync.New(redsyncpool.NewPool(c))
		return func(ctx context.Context, i, _ int) error {
			m := locks.NewMutex(fmt.Sprint("redsync", i), redsync.WithExpiry(cronce.DefaultTTL), redsync.WithTries(1))
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			_, err := m.UnlockContext(ctx)
			return err
		}, func() { c.Close() }, nil
	}},
	{"rueidislock", func(at string) (func(context.Context, int, int) error, func(), error) {
		o, err := rueidis.ParseURL(at)
		if err != nil {
			return nil, nil, err
		}
		o.ForceSingleClient = true
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: o, KeyMajority: 1, KeyValidity: cronce.DefaultTTL, TryNextAfter: time.Second})
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, i, _ int) error {
			// It gives back in the background; who waits for that is now and
			// then not told.
			for {
				_, release, err := locks.TryWithContext(ctx, fmt.Sprint("rueidislock", i))
				if errors.Is(err, rueidislock.ErrNotLocked) {
					continue
				}
				if err != nil {
					return err
				}
				release()
				return nil
			}
		}, locks.Close, nil
	}},
}

func goRedis(at string) (*redis.Client, error) {
	o, err := redis.ParseURL(at)
	if err != nil {
		return nil, err
	}
	o.PoolSize = 64
	return redis.NewClient(o), nil
}

// measurePairs has so many goroutines take and give back, each its own.
func measurePairs(at string, l locker, clients int) (pairs, error) {
	pair, shut, err := l.open(at)
	if err != nil {
		return pairs{}, err
	}
	defer shut()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var (
		mu    sync.Mutex
		took  []time.Duration
		fails error
		wg    sync.WaitGroup
	)
	server, err := serverCPU(ctx, at)
	if err != nil {
		return pairs{}, err
	}
	start, client := time.Now(), cpu()
	for i := range clients {
		wg.Go(func() {
			var mine []time.Duration
			for n := 0; time.Since(start) < pairTime; n++ {
				began := time.Now()
				if err := pair(ctx, i, n); err != nil {
					mu.Lock()
					fails = err
					mu.Unlock()
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	all, clientUsed := time.Since(start), cpu()-client
	serverUsed, err := serverCPU(ctx, at)
	if err != nil {
		return pairs{}, err
	}
	if fails != nil || len(took) == 0 {
		return pairs{}, fmt.Errorf("%d pairs: %w", len(took), fails)
	}
	slices.Sort(took)
	at99 := took[len(took)*99/100]
	n := float64(len(took))
	return pairs{
		n / all.Seconds(), ms(took[len(took)/2]) * 1000, ms(at99) * 1000,
		(serverUsed - server) * 1e6 / n, ms(clientUsed) * 1000 / n,
	}, nil
}

// serverCPU is what the server's own thread has used, in seconds.
func serverCPU(ctx context.Context, at string) (used float64, err error) {
	c, err := goRedis(at)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	info, err := c.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			used += seconds
		}
	}
	return used, nil
}
