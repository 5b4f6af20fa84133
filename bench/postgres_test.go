package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/pgstore"
)

// BenchmarkPostgres shows how many ticks can be claimed and finished on one
// Postgres by so many goroutines of one program, beside what others do there
// to keep a job from running twice: in turn, several rounds, medians.
func BenchmarkPostgres(b *testing.B) {
	at := testenv.StartPostgres(b).URL() + "&pool_max_conns=64"
	for _, clients := range []int{1, 64} {
		found := make([][]pgPairs, len(pgWays))
		for range *rounds {
			for i, way := range pgWays {
				p, err := measurePgPairs(at, way, clients)
				if err != nil {
					b.Fatalf("%s: %v", way.name, err)
				}
				found[i] = append(found[i], p)
			}
		}
		for i, way := range pgWays {
			b.Run(fmt.Sprintf("clients=%d/%s", clients, way.name), func(b *testing.B) {
				of := func(figure func(pgPairs) float64) float64 {
					var values []float64
					for _, p := range found[i] {
						values = append(values, figure(p))
					}
					return median(values)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(of(func(p pgPairs) float64 { return p.rate }), "pairs/s")
				b.ReportMetric(of(func(p pgPairs) float64 { return p.p50 }), "p50-µs")
				b.ReportMetric(of(func(p pgPairs) float64 { return p.p99 }), "p99-µs")
			})
		}
	}
}

// pgPairs is what one measurement found: claims with their finishes a second,
// and how long one of both took, in µs.
type pgPairs struct{ rate, p50, p99 float64 }

// pgPairTime is how long each measurement goes on.
const pgPairTime = 2 * time.Second

// warm is how many pairs each goroutine makes before that.
const warm = 20

// A pgWay takes and gives back what goroutine i of a program wants, for the
// n-th time.
type pgWay struct {
	name string
	open func(at string) (pair func(ctx context.Context, i, n int) error, shut func(), err error)
}

var errHeld = errors.New("somebody else has it")

var pgWays = []pgWay{
	{"cronce", func(at string) (func(context.Context, int, int) error, func(), error) {
		s, err := pgstore.Open(context.Background(), pgstore.Options{URL: at})
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
	// What one writes oneself: a row a job, taken over when it has expired.
	{"row lease by hand", func(at string) (func(context.Context, int, int) error, func(), error) {
		pool, err := pgxpool.New(context.Background(), at)
		if err != nil {
			return nil, nil, err
		}
		_, err = pool.Exec(context.Background(), "CREATE TABLE IF NOT EXISTS lease (job text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)")
		return func(ctx context.Context, i, n int) error {
			job, owner := fmt.Sprint("job", i), cronce.NewRunID()
			tag, err := pool.Exec(ctx, `INSERT INTO lease VALUES ($1, $2, clock_timestamp() + interval '15 s')
				ON CONFLICT (job) DO UPDATE SET owner = excluded.owner, expires = excluded.expires WHERE lease.expires < clock_timestamp()`, job, owner)
			if err == nil && tag.RowsAffected() != 1 {
				err = errHeld
			}
			if err != nil {
				return err
			}
			_, err = pool.Exec(ctx, "UPDATE lease SET expires = '-infinity' WHERE job = $1 AND owner = $2", job, owner)
			return err
		}, pool.Close, err
	}},
	// Nothing of this is on disk, and it ends with the connection.
	{"advisory lock", func(at string) (func(context.Context, int, int) error, func(), error) {
		pool, err := pgxpool.New(context.Background(), at)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, i, _ int) error {
			return pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
				var got bool
				if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(i)).Scan(&got); err != nil || !got {
					return errors.Join(err, errHeld)
				}
				_, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(i))
				return err
			})
		}, pool.Close, nil
	}},
}

// measurePgPairs has so many goroutines take and give back, each its own.
func measurePgPairs(at string, way pgWay, clients int) (pgPairs, error) {
	pair, shut, err := way.open(at)
	if err != nil {
		return pgPairs{}, err
	}
	defer shut()
	ctx := context.Background()
	var (
		mu     sync.Mutex
		took   []time.Duration
		failed error
		wg     sync.WaitGroup
	)
	// Before it begins, connections are there and have planned what they do (a
	// server plans a statement anew the first five times).
	for i := range clients {
		wg.Go(func() {
			for n := range warm {
				if err := pair(ctx, i, n); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = err
					return
				}
			}
		})
	}
	wg.Wait()
	start := time.Now()
	for i := range clients {
		wg.Go(func() {
			var mine []time.Duration
			for n := warm; time.Since(start) < pgPairTime; n++ {
				began := time.Now()
				err := pair(ctx, i, n)
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = err
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	wg.Wait()
	all := time.Since(start)
	if failed != nil || len(took) == 0 {
		return pgPairs{}, fmt.Errorf("%d pairs: %w", len(took), failed)
	}
	slices.Sort(took)
	return pgPairs{float64(len(took)) / all.Seconds(), ms(took[len(took)/2]) * 1000, ms(took[len(took)*99/100]) * 1000}, nil
}
