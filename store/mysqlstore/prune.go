package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// Prune forgets runs, job by job, each in a transaction of its own.
func (d *driver) Prune(ctx context.Context, job string, before time.Time) (int, error) {
	jobs := []string{job}
	if job == "" {
		jobs = nil
		err := d.read(ctx, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			jobs = append(jobs, name)
			return err
		}, "SELECT name FROM cronce_jobs ORDER BY name")
		if err != nil {
			return 0, err
		}
	}
	n := 0
	for _, name := range jobs {
		for {
			pruned, err := d.pruneSome(ctx, name, before)
			n += pruned
			if err != nil {
				return n, err
			}
			if pruned < pruneAtOnce {
				break
			}
		}
	}
	return n, nil
}

// pruneAtOnce bounds a transaction: others wait for the job's row meanwhile.
const pruneAtOnce = 1000

// pruneSome forgets the oldest runs of a job.
func (d *driver) pruneSome(ctx context.Context, job string, before time.Time) (n int, err error) {
	err = d.atomic(ctx, func(t *tx) error {
		n = 0
		s, err := t.enter(ctx, job, new(server))
		if err != nil {
			return err
		}
		if s.job == nil {
			return t.commit(ctx)
		}
		var ids []string
		highest := s.job.pruned
		s.add("SELECT "+runColumns+" FROM cronce_runs r WHERE r.job = ? AND r.started < ? AND r.state <> 'running' ORDER BY r.started LIMIT ?", job, before.UTC(), pruneAtOnce)
		err = s.query(ctx, func(rows *sql.Rows) error {
			r, err := scanRun(rows)
			if err != nil {
				return err
			}
			ids = append(ids, r.ID)
			if r.Tick.After(highest) {
				highest = r.Tick
			}
			if r.Outcome == cronce.Succeeded {
				s.success(&r.Run)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n = len(ids); n > 0 {
			if highest.After(s.job.pruned) {
				s.set("pruned_tick", highest)
			}
			if slices.Contains(ids, s.job.holder) {
				s.set("holder_run", nil) // one that is named there and on no record is lost
			}
			marks, args := list(ids)
			s.add("DELETE FROM cronce_runs WHERE id IN ("+marks+")", args...)
		}
		return s.leave(ctx)
	})
	if err != nil {
		n = 0
	}
	return n, err
}
