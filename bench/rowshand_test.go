package bench

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/cronce/cronce"
)

// A handClaim is what one claim by hand got.
type handClaim struct {
	token string
	ids   []int64
	err   error
}

// rowsByHand is the SQL that a person would write for the same promise, and no more: one connection
// claims ahead, another one records, in one transaction for as many rows as there are workers, what was done and what begins.
func rowsByHand(db *sql.DB, engine string, workers int) error {
	ctx := context.Background()
	h := hand{engine: engine}
	claims, err := h.connect(ctx, db)
	if err != nil {
		return err
	}
	defer claims.conn.Close()
	turns, err := h.connect(ctx, db)
	if err != nil {
		return err
	}
	defer turns.conn.Close()
	ahead := make(chan handClaim, 1)
	go func() {
		defer close(ahead)
		for {
			c := h.claim(ctx, claims)
			if c.err == nil && len(c.ids) == 0 {
				return
			}
			ahead <- c
			if c.err != nil {
				return
			}
		}
	}()
	var done handClaim
	for c := range ahead {
		if c.err != nil {
			return c.err
		}
		for len(c.ids) > 0 {
			n := min(workers, len(c.ids))
			next := handClaim{token: c.token, ids: c.ids[:n]}
			c.ids = c.ids[n:]
			if err := h.turn(ctx, turns, done, next); err != nil {
				return err
			}
			work := make(chan struct{}, n)
			for range n { // what the handlers are
				go func() { work <- struct{}{} }()
			}
			for range n {
				<-work
			}
			done = next
		}
	}
	return h.turn(ctx, turns, done, handClaim{})
}

// hand is the SQL of an engine.
type hand struct{ engine string }

// handConn is a connection with its prepared statements.
type handConn struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

func (h hand) connect(ctx context.Context, db *sql.DB) (*handConn, error) {
	conn, err := db.Conn(ctx)
	if err == nil && h.engine == "mariadb" {
		_, err = conn.ExecContext(ctx, "SET SESSION tx_isolation = 'READ-COMMITTED'")
	}
	return &handConn{conn, map[string]*sql.Stmt{}}, err
}

func (c *handConn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := c.prepared[query]; s != nil {
		return s, nil
	}
	s, err := c.conn.PrepareContext(ctx, query)
	c.prepared[query] = s
	return s, err
}

// exec runs an UPDATE that must change n rows.
func (c *handConn) exec(ctx context.Context, n int, query string, args ...any) error {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return err
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); err != nil || changed != int64(n) {
		return fmt.Errorf("%w: %d of %d (%v)", errNotOurs, changed, n, err)
	}
	return nil
}

// query reads ids.
func (c *handConn) query(ctx context.Context, query string, args ...any) (ids []int64, err error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	found, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		if err := found.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, found.Err()
}

// places is so many placeholders, from the nth on.
func (h hand) places(from, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = h.place(from + i)
	}
	return strings.Join(all, ",")
}

func (h hand) place(n int) string {
	if h.engine == "postgres" {
		return fmt.Sprint("$", n)
	}
	return "?"
}

func (h hand) now() string {
	return map[string]string{"mariadb": "NOW(6)", "postgres": "now()", "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')"}[h.engine]
}

func (h hand) later() string {
	return map[string]string{"mariadb": "NOW(6) + INTERVAL 130 SECOND", "postgres": "now() + interval '130 s'", "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '130 seconds')"}[h.engine]
}

func (h hand) begin() string {
	return map[string]string{"mariadb": "START TRANSACTION", "postgres": "BEGIN", "sqlite": "BEGIN IMMEDIATE"}[h.engine]
}

func (h hand) claim(ctx context.Context, c *handConn) handClaim {
	got := handClaim{token: cronce.NewRunID()}
	due := fmt.Sprintf("SELECT id FROM notices WHERE status = 'pending' AND (cronce_next_attempt_at IS NULL OR cronce_next_attempt_at <= %s) ORDER BY id LIMIT %d", h.now(), rowsBatch)
	set := fmt.Sprintf("status = 'sending', cronce_token = %s, cronce_lease_until = %s, cronce_started_at = NULL", h.place(1), h.later())
	if h.engine == "postgres" {
		got.ids, got.err = c.query(ctx, "WITH c AS MATERIALIZED ("+due+" FOR NO KEY UPDATE SKIP LOCKED) UPDATE notices u SET "+set+" FROM c WHERE u.id = c.id AND u.status = 'pending' RETURNING u.id", got.token)
		return got
	}
	if _, got.err = c.conn.ExecContext(ctx, h.begin()); got.err != nil {
		return got
	}
	if h.engine == "sqlite" {
		got.ids, got.err = c.query(ctx, "UPDATE notices SET "+set+" WHERE id IN ("+due+") AND status = 'pending' RETURNING id", got.token)
	} else {
		got.ids, got.err = c.query(ctx, due+" FOR UPDATE SKIP LOCKED")
		if n := len(got.ids); n > 0 && got.err == nil {
			got.err = c.exec(ctx, n, "UPDATE notices SET "+set+" WHERE id IN ("+h.places(2, n)+") AND status = 'pending'", append([]any{got.token}, anys(got.ids)...)...)
		}
	}
	if got.err == nil {
		_, got.err = c.conn.ExecContext(ctx, "COMMIT")
	}
	return got
}

func (h hand) turn(ctx context.Context, c *handConn, done, next handClaim) error {
	if _, err := c.conn.ExecContext(ctx, h.begin()); err != nil {
		return err
	}
	for _, t := range []struct {
		handClaim
		set string
	}{
		{done, "status = 'sent', cronce_lease_until = NULL, cronce_last_error = NULL, cronce_next_attempt_at = NULL"},
		{next, "cronce_started_at = " + h.now() + ", cronce_attempts = COALESCE(cronce_attempts, 0) + 1, cronce_lease_until = " + h.later()},
	} {
		n := len(t.ids)
		if n == 0 {
			continue
		}
		query := "UPDATE notices SET " + t.set + " WHERE id IN (" + h.places(1, n) + ") AND cronce_token = " + h.place(n+1) + " AND status = 'sending'"
		if err := c.exec(ctx, n, query, append(anys(t.ids), t.token)...); err != nil {
			return err
		}
	}
	_, err := c.conn.ExecContext(ctx, "COMMIT")
	return err
}

func anys(ids []int64) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

// riverRows is how long River takes for as many jobs that do nothing.
func riverRows(address string, workers int) (s spent, err error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return s, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return s, err
	}
	worker := &riverWorker{all: int64(*rowsCount), done: make(chan struct{})}
	all := river.NewWorkers()
	river.AddWorker(all, worker)
	// It waits 100 ms between fetches unless it is told otherwise: here as little as it may.
	client, err := river.NewClient(driver, &river.Config{Workers: all, FetchCooldown: river.FetchCooldownMin, FetchPollInterval: river.FetchPollIntervalMin,
		Logger: slog.New(slog.DiscardHandler), Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}})
	if err != nil {
		return s, err
	}
	for n := *rowsCount; n > 0; n -= 1000 {
		jobs := make([]river.InsertManyParams, min(n, 1000))
		for i := range jobs {
			jobs[i].Args = riverJob{}
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return s, err
		}
	}
	s, err = spend(func() error {
		if err := client.Start(ctx); err != nil {
			return err
		}
		<-worker.done
		return client.Stop(ctx) // when all are recorded
	})
	if err != nil {
		return s, err
	}
	var n int
	if err := pool.QueryRow(ctx, "SELECT COUNT(*) FROM river_job WHERE state <> 'completed'").Scan(&n); err != nil || n > 0 {
		return s, fmt.Errorf("%d jobs are not completed: %w", n, err)
	}
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	return s, err
}

type riverJob struct{}

func (riverJob) Kind() string { return "nothing" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	n    atomic.Int64
	all  int64
	done chan struct{}
}

func (w *riverWorker) Work(context.Context, *river.Job[riverJob]) error {
	if w.n.Add(1) == w.all {
		close(w.done)
	}
	return nil
}
