package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// Request is one script.
func (d *driver) Request(ctx context.Context, r cronce.Request) error {
	r.At = time.Time{}
	head, err := json.Marshal(r)
	if err != nil {
		return err
	}
	definition, err := json.Marshal(r.Definition)
	if err != nil {
		return err
	}
	_, err = d.run(ctx, requestScript, d.keys(r.Job, jobKeys),
		string(r.Kind), r.Job, strings.TrimSuffix(string(head), "}"), string(definition), strconv.Itoa(keepRequests))
	return err
}

// Requests keeps the newest 1,000 of a job.
func (d *driver) Requests(ctx context.Context, job string, limit int) ([]cronce.Request, error) {
	if limit <= 0 {
		limit = keepRequests
	}
	texts, err := d.run(ctx, readScript, d.keys(job, jobKeys), "requests", strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	requests := make([]cronce.Request, len(texts))
	for i, text := range texts {
		if requests[i], err = decodeRequest(text); err != nil {
			return nil, d.damaged(job, err)
		}
	}
	return requests, nil
}

// Jobs reads each job in a step of its own.
func (d *driver) Jobs(ctx context.Context, job string) ([]cronce.JobState, error) {
	names, keys, err := d.jobs(ctx, job)
	if err != nil {
		return nil, err
	}
	var states []cronce.JobState
	err = d.each(ctx, readScript, keys, []string{"job"}, func(i int, a []string) error {
		state, known, err := d.state(names[i], a)
		if known {
			states = append(states, state)
		}
		return err
	})
	return states, err
}

// jobs is the names, sorted, and the keys of the job, or of all.
func (d *driver) jobs(ctx context.Context, job string) (names []string, keys [][]string, err error) {
	if job != "" {
		return []string{job}, [][]string{d.keys(job, jobKeys)}, nil
	}
	if names, err = d.names(ctx); err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		keys = append(keys, d.keys(name, jobKeys))
	}
	return names, keys, nil
}

// state is a job as read: definition, since, pause, resumed, fence, its last
// decision, and the runs that have not ended. It is not known where all of it is empty.
func (d *driver) state(name string, a []string) (s cronce.JobState, known bool, err error) {
	s = cronce.JobState{Job: name, Since: d.time(a[1]), Resumed: d.time(a[3])}
	s.Fence, _ = strconv.ParseInt(a[4], 10, 64)
	if a[0] != "" {
		if err := json.Unmarshal([]byte(a[0]), &s.Definition); err != nil {
			return s, true, d.damaged(name, err)
		}
	}
	if a[2] != "" {
		p, err := decodeRequest(a[2])
		if err != nil {
			return s, true, d.damaged(name, err)
		}
		s.Paused = &p
	}
	for i, text := range a[5:] {
		if text == "" {
			continue
		}
		r, err := decode(text)
		if err != nil {
			return s, true, d.damaged(name, err)
		}
		if i == 0 {
			s.Last = &r
		} else {
			s.Live = append(s.Live, r)
		}
	}
	return s, strings.Join(a, "") != "", nil
}

// Runs reads each job in a step of its own.
func (d *driver) Runs(ctx context.Context, q cronce.RunQuery) ([]cronce.Run, error) {
	names, keys, err := d.jobs(ctx, q.Job)
	if err != nil {
		return nil, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 1 << 30
	}
	args := []string{"runs", strconv.Itoa(limit)}
	if q.ID != "" {
		args = []string{"run", q.ID}
	}
	var runs []cronce.Run
	err = d.each(ctx, readScript, keys, args, func(i int, texts []string) error {
		var output string
		if q.ID != "" && len(texts) == 2 {
			texts, output = texts[:1], texts[1]
		}
		for _, text := range texts {
			r, err := decode(text)
			if err != nil {
				return d.damaged(names[i], err)
			}
			if output != "" {
				r.Output = []byte(output)
			}
			if !r.Start.Before(q.Since) {
				runs = append(runs, r)
			}
		}
		return nil
	})
	slices.SortStableFunc(runs, func(a, b cronce.Run) int { return a.Start.Compare(b.Start) })
	if q.Limit > 0 {
		runs = runs[max(0, len(runs)-q.Limit):]
	}
	return runs, err
}

// Prune is a step of its own for each job.
func (d *driver) Prune(ctx context.Context, job string, before time.Time) (int, error) {
	_, keys, err := d.jobs(ctx, job)
	if err != nil {
		return 0, err
	}
	all := 0
	err = d.each(ctx, pruneScript, keys, []string{strconv.FormatInt(before.UnixMicro(), 10)}, func(_ int, a []string) error {
		n, err := strconv.Atoi(a[0])
		all += n
		return err
	})
	return all, err
}

func (d *driver) damaged(job string, err error) error {
	return fmt.Errorf("store %s: job %q has a record that cannot be read: %w", d.place, job, err)
}
