package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cronce/cronce"
)

// Renew lets the lease end its TTL from now.
func (d *driver) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	renewed, answer := l, error(nil)
	err := d.atomic(ctx, func(t *tx) error {
		renewed, answer = l, nil
		var r *runRow
		var now time.Time
		t.add("SELECT "+runColumns+" FROM cronce_runs r WHERE r.id = ? FOR UPDATE", l.Run.ID)
		t.add("SELECT " + d.clock)
		err := t.query(ctx, func(rows *sql.Rows) (err error) {
			r, err = scanRun(rows)
			return err
		}, readTime(&now))
		if err != nil {
			return err
		}
		switch {
		case r == nil || r.Job != l.Run.Job || r.state != running || !now.Before(r.expires):
			answer = cronce.ErrLost
		case r.revoked != nil:
			answer = &cronce.RevokedError{Request: *r.revoked}
		default:
			renewed.Granted, renewed.TTL, renewed.Stop = now, r.ttl, r.stop
			t.add("UPDATE cronce_runs SET expires = ?, orphaned = ?, holder = ? WHERE id = ? AND state = 'running'",
				now.Add(r.ttl), r.orphaned || l.Orphaned, asJSON(cut(l.Run.Holder)), r.ID)
		}
		return t.commit(ctx)
	})
	if err != nil {
		return l, err
	}
	return renewed, answer
}

// Finish records the result. It is one statement, which needs no look at the
// job: who claims sees the run ended or not, and locks its row to mark it.
func (d *driver) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	lost := false
	err := d.repeat(ctx, func() error {
		now := d.clock
		if err := d.beforeCommit(func() error { return nil }); err != nil {
			return err
		}
		result, err := d.db.ExecContext(ctx, "UPDATE cronce_runs SET state = ?, ended = "+now+", exit_code = ?, exit_signal = ?, message = ?, output = ?, output_bytes = ?, tries = ?"+
			" WHERE id = ? AND (job = ?) IS TRUE AND state = 'running' AND expires > "+now, // no look at the index of the job's ticks
			string(r.Outcome), r.ExitCode, null(begin(r.Signal, 64)), null(begin(r.Message, maxMessage)), r.Output[max(0, len(r.Output)-maxOutput):], r.OutputBytes, r.Attempts,
			l.Run.ID, l.Run.Job)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err
		}
		// It had ended before, or this is a repetition: the record tells.
		var state string
		err = d.db.QueryRowContext(ctx, "SELECT state FROM cronce_runs WHERE id = ? AND job = ?", l.Run.ID, l.Run.Job).Scan(&state)
		lost = errors.Is(err, sql.ErrNoRows) || err == nil && (state == running || state == string(cronce.Lost))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err == nil && lost {
		return cronce.ErrLost
	}
	return err
}
