package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cronce/cronce"
)

// Request records a person's request.
func (d *driver) Request(ctx context.Context, r cronce.Request) error {
	r.By, r.Why, r.Definition = clean(r.By), clean(r.Why), cleanDefinition(r.Definition)
	r.At = time.Time{}
	_, err := d.step(ctx, "request", question{"job": r.Job, "request": r})
	return err
}

// Requests returns what was asked of a job.
func (d *driver) Requests(ctx context.Context, job string, limit int) ([]cronce.Request, error) {
	q := question{"job": job}
	if limit > 0 {
		q["limit"] = limit
	}
	return list[cronce.Request](ctx, d, "list_requests", q)
}

// Jobs returns the state of one job, or of all.
func (d *driver) Jobs(ctx context.Context, job string) ([]cronce.JobState, error) {
	q := question{}
	if job != "" {
		q["job"] = job
	}
	return list[cronce.JobState](ctx, d, "list_jobs", q)
}

// Runs returns the runs that q selects.
func (d *driver) Runs(ctx context.Context, q cronce.RunQuery) ([]cronce.Run, error) {
	if q.ID != "" && !runID.MatchString(q.ID) {
		return nil, nil // nobody's: it was never claimed here
	}
	asked := question{}
	if q.Job != "" {
		asked["job"] = q.Job
	}
	if q.ID != "" {
		asked["id"] = q.ID
	}
	if !q.Since.IsZero() {
		asked["since"] = q.Since.UTC()
	}
	if q.Limit > 0 {
		asked["limit"] = q.Limit
	}
	// cronce.Run leaves the output out of its JSON.
	found, err := list[struct {
		cronce.Run
		Tail []byte `json:"tail"`
	}](ctx, d, "list_runs", asked)
	if err != nil {
		return nil, err
	}
	var runs []cronce.Run
	for _, f := range found {
		f.Run.Output = f.Tail
		runs = append(runs, f.Run)
	}
	return runs, nil
}

// list calls a function that gives many things.
func list[T any](ctx context.Context, d *driver, function string, q question) ([]T, error) {
	rows, err := d.call(ctx, function, q)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, row := range rows {
		var one T
		if err := json.Unmarshal([]byte(row), &one); err != nil {
			return nil, &cronce.UnavailableError{Store: d.place, Err: fmt.Errorf("%s gave what cannot be read: %w", function, err)}
		}
		all = append(all, one)
	}
	return all, nil
}

// Prune forgets runs, in steps: each holds its job's claims up only for a
// moment, and moves the watermark with what it dropped.
func (d *driver) Prune(ctx context.Context, job string, before time.Time) (int, error) {
	jobs := []string{job}
	if job == "" {
		states, err := d.Jobs(ctx, "")
		if err != nil {
			return 0, err
		}
		jobs = nil
		for _, s := range states {
			jobs = append(jobs, s.Job)
		}
	}
	forgotten := 0
	for _, job := range jobs {
		for {
			a, err := d.step(ctx, "prune", question{"job": job, "before": before.UTC(), "limit": d.pruneAtMost})
			if err != nil {
				return forgotten, err
			}
			forgotten += a.Count
			if a.Count < d.pruneAtMost {
				break
			}
		}
	}
	return forgotten, nil
}
