package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// Request records what a person asks.
func (d *driver) Request(ctx context.Context, r cronce.Request) error {
	r.By, r.Why = begin(r.By, maxText), begin(r.Why, maxText)
	for again, lost := true, false; again; {
		var srv server
		err := d.atomic(ctx, func(t *tx) error {
			again, lost = false, false
			s, err := t.enter(ctx, r.Job, &srv)
			if err != nil {
				return err
			}
			if s.job == nil {
				if r.Kind != cronce.Define && r.Kind != cronce.Pause {
					return t.commit(ctx) // there is nothing to be asked
				}
				again = true
				lost, err = t.create(ctx, r.Job)
				return err
			}
			if s.addLive() {
				s.add("SELECT " + d.clock)
				if err := s.query(ctx, s.keep, readTime(&s.now)); err != nil {
					return err
				}
			}
			s.request(r)
			return s.leave(ctx)
		})
		if err == nil && lost {
			err = d.look(ctx, srv)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// request carries out a request, and records it if it changes anything.
func (s *section) request(r cronce.Request) {
	r.At = s.now
	switch r.Kind {
	case cronce.Define:
		if s.job.Definition == r.Definition && !s.job.Since.IsZero() {
			return
		}
		s.define(r.Definition)
	case cronce.Pause:
		if s.job.Paused != nil {
			return
		}
		s.set("paused", asJSON(r))
	case cronce.Resume:
		if s.job.Paused == nil {
			return
		}
		s.set("paused", nil)
		s.set("resumed", s.now)
	case cronce.ResetWatermark:
		if !s.job.pruned.After(s.now) {
			return
		}
		s.set("pruned_tick", s.now.Truncate(time.Second))
	case cronce.Stop, cronce.Revoke:
		for _, id := range s.mayLive {
			if l := s.runs[id]; l != nil && l.state == running && s.now.Before(l.expires) {
				r.Runs = append(r.Runs, id)
			}
		}
		if len(r.Runs) == 0 {
			return
		}
		column := "stop"
		if r.Kind == cronce.Revoke {
			column = "revoked"
		}
		s.ask(column, r)
		return
	}
	s.record(r)
}

// Requests returns what was asked of a job, oldest first.
func (d *driver) Requests(ctx context.Context, job string, limit int) ([]cronce.Request, error) {
	query, args := "SELECT request FROM cronce_requests WHERE job = ? ORDER BY at DESC, id DESC", []any{job}
	if limit > 0 {
		query, args = query+" LIMIT ?", append(args, limit)
	}
	var all []cronce.Request
	err := d.read(ctx, func(rows *sql.Rows) error {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			return err
		}
		r, err := readJSON[cronce.Request](text)
		if err == nil {
			all = append(all, *r)
		}
		return err
	}, query, args...)
	slices.Reverse(all)
	return all, err
}
