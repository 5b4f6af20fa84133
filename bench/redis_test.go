package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			})
		}
	}
}

// pairs is what one measurement found: claims and finishes a second, and how
// long one of both took, in µs.
type pairs struct{ rate, p50, p99 float64 }

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
	start := time.Now()
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
	all := time.Since(start)
	if fails != nil || len(took) == 0 {
		return pairs{}, fmt.Errorf("%d pairs: %w", len(took), fails)
	}
	slices.Sort(took)
	at99 := took[len(took)*99/100]
	return pairs{float64(len(took)) / all.Seconds(), ms(took[len(took)/2]) * 1000, ms(at99) * 1000}, nil
}
