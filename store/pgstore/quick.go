package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
)

// What most claims and ends meet is decided by one statement each, which a
// connection that nobody shares keeps prepared: the functions of the schema take
// the server longer, see decision 105. Whatever else there is they leave alone, for the
// functions to decide. They hold for the migration that this program knows; after a
// later one all is left to its functions, so that a fleet goes by one set of rules.

// claimStatement gives the lease where nothing is in its way, or the run that has the tick.
// It is as the statement in the function claim, where it is explained.
const claimStatement = `
WITH here AS (
	SELECT FROM {schema}.store WHERE known AND checked = {schema}.instance(tableoid) AND migration = $11::integer
		AND current_setting('transaction_isolation') = 'read committed'
), had AS (
	SELECT r FROM {schema}.runs r JOIN {schema}.jobs j USING (job)
	WHERE j.job = $1::text AND r.tick = $3::timestamptz AND r.attempt = $4::integer AND r.id <> $2::uuid AND $10::integer = 1
		AND ($5::jsonb = j.definition) IS NOT FALSE AND j.fence >= $12::bigint AND EXISTS (SELECT FROM here)
		AND NOT EXISTS (SELECT FROM {schema}.runs l WHERE l.id = ANY (j.live) AND l.expires <= {schema}.store_time())
		AND NOT EXISTS (SELECT FROM {schema}.runs m WHERE m.id = $2::uuid)
), free AS (
	UPDATE {schema}.jobs SET fence = greatest(fence + 1, {schema}.micros({schema}.store_time())), given = {schema}.store_time(), live = ARRAY[$2::uuid]
	WHERE job = $1::text AND live = '{}' AND wait_run IS NULL AND paused IS NULL AND ($5::jsonb = definition) IS NOT FALSE AND fence >= $12::bigint
		AND $3::timestamptz > coalesce(pruned, '-infinity') AND {schema}.store_time() >= coalesce(pruned, '-infinity')
		AND $3::timestamptz <= {schema}.store_time()
		AND (coalesce($6::timestamptz, {schema}.store_time()) - $3::timestamptz > $7::bigint * interval '1 microsecond') IS NOT TRUE
		AND EXISTS (SELECT FROM here)
		AND NOT EXISTS (SELECT FROM {schema}.runs WHERE job = $1::text AND tick = $3::timestamptz AND attempt = $4::integer)
		AND {schema}.durable() IS NOT NULL
	RETURNING fence, given, success
), run AS (
	INSERT INTO {schema}.runs (id, job, tick, attempt, slot, fence, holder, started, granted, expires)
	SELECT $2::uuid, $1::text, $3::timestamptz, $4::integer, 1, fence, $9::jsonb, given, given, given + $8::bigint * interval '1 microsecond' FROM free
)
SELECT fence, given, success, NULL AS had FROM free UNION ALL SELECT NULL, NULL, NULL, {schema}.run_json(r)::text FROM had`

// finishStatement ends a run that lives; as the statement in the function finish.
const finishStatement = `
WITH mine AS MATERIALIZED (
	SELECT id, coalesce(tick, started) AS success FROM {schema}.runs
	WHERE id = $2::uuid AND outcome IS NULL AND expires > {schema}.store_time() AND {schema}.durable() IS NOT NULL
		AND current_setting('transaction_isolation') = 'read committed' AND EXISTS (SELECT FROM {schema}.store WHERE migration = $9::integer)
), job AS (
	UPDATE {schema}.jobs SET live = array_remove(live, mine.id), success = CASE $3::text WHEN 'succeeded' THEN mine.success ELSE jobs.success END
	FROM mine WHERE job = $1::text AND mine.id = ANY (live)
	RETURNING {schema}.store_time() AS t
)
UPDATE {schema}.runs SET ended = t, outcome = $3::text, exit_code = $4::integer, signal = $5::text, message = $6::text,
	output_bytes = $7::bigint, tries = $8::integer
FROM job WHERE id = $2::uuid`

// errNotAtOnce says that the functions are to decide.
var errNotAtOnce = errors.New("not at once")

// direct says of a connection that the server's session is its own.
const direct = "cronce direct"

// meet looks whether a pooler stands between: the key that a new connection is given
// to cancel what it does has the session's process in it, but a pooler gives its own.
// With a pooler nothing may be kept in the session.
func (t target) meet(ctx context.Context, c *pgx.Conn) error {
	var pid uint32
	if err := c.QueryRow(ctx, "select pg_catalog.pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != c.PgConn().PID() {
		return nil
	}
	// As the functions have it.
	if _, err := c.Exec(ctx, "set search_path = pg_catalog, "+t.schema+", pg_temp"); err != nil {
		return err
	}
	c.PgConn().CustomData()[direct] = true
	return nil
}

// atOnce has a statement carried out on a connection that keeps it prepared.
func (d *driver) atOnce(ctx context.Context, statement string, args []any, take func(pgx.Rows) error) error {
	if !d.prepares || d.begins.Load() {
		return errNotAtOnce
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var said error
	err := d.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		if c.Conn().PgConn().CustomData()[direct] == nil {
			said = errNotAtOnce
			return nil
		}
		rows, err := c.Query(ctx, strings.ReplaceAll(statement, "{schema}", d.schema), append([]any{pgx.QueryExecModeCacheStatement}, args...)...)
		if err != nil {
			return err
		}
		said = take(rows)
		rows.Close()
		return rows.Err()
	})
	switch {
	case err == nil:
		return said
	case asPgError(err) != nil:
		// Nothing was done; the functions say better what is wrong, if it still is.
		return errNotAtOnce
	}
	return d.explain(err)
}

// claimAtOnce claims a tick, or leaves it to the functions.
func (d *driver) claimAtOnce(ctx context.Context, c cronce.Claim) (cronce.Lease, error) {
	var none cronce.Lease
	if c.Tick.IsZero() || c.Attempt > 1 || c.Overlap.Policy == cronce.OverlapAllow {
		return none, errNotAtOnce
	}
	holder := cleanHolder(c.Holder)
	who, err := json.Marshal(holder)
	if err != nil {
		return none, err
	}
	var definition, offered, deadline any
	if def := cleanDefinition(c.Definition); def != (cronce.Definition{}) {
		text, err := json.Marshal(def)
		if err != nil {
			return none, err
		}
		definition = string(text)
	}
	if !c.Offered.IsZero() {
		offered = c.Offered
	}
	if c.StartDeadline > 0 {
		deadline = c.StartDeadline.Microseconds()
	}
	lease := cronce.Lease{TTL: c.TTL, Run: cronce.Run{
		ID: c.RunID, Job: c.Job, Tick: c.Tick.UTC(), Attempt: c.Attempt, Slot: 1, Holder: holder,
	}}
	err = d.atOnce(ctx, claimStatement, []any{
		c.Job, c.RunID, c.Tick, c.Attempt, definition, offered, deadline, c.TTL.Microseconds(), string(who), c.Slots, lastMigration, d.memory.of(c.Job),
	}, func(rows pgx.Rows) error {
		if !rows.Next() {
			return errNotAtOnce
		}
		var fence *int64
		var given, success *time.Time
		var had *string
		if err := rows.Scan(&fence, &given, &success, &had); err != nil {
			return err
		}
		if had != nil {
			taken := &cronce.TakenError{Job: c.Job, Tick: c.Tick}
			if err := json.Unmarshal([]byte(*had), &taken.Run); err != nil {
				return err
			}
			return taken
		}
		lease.Run.Fence, lease.Run.Start, lease.Granted = *fence, given.UTC(), given.UTC()
		if success != nil {
			lease.PreviousSuccess = success.UTC()
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	return lease, nil
}

// finishAtOnce ends a run, or leaves it to the functions.
func (d *driver) finishAtOnce(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	if len(r.Output) > 0 {
		return errNotAtOnce
	}
	return d.atOnce(ctx, finishStatement, []any{
		l.Run.Job, l.Run.ID, string(r.Outcome), orNull(r.ExitCode), orNull(clean(r.Signal)), orNull(messageOf(r)),
		orNull(r.OutputBytes), orNull(r.Attempts), lastMigration,
	}, func(rows pgx.Rows) error {
		rows.Close()
		if rows.Err() == nil && rows.CommandTag().RowsAffected() != 1 {
			return errNotAtOnce
		}
		return nil
	})
}

func orNull[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}
