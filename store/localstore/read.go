package localstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/cronce/cronce"
)

// folders are the jobs' folders, of one job or of all.
func (d *driver) folders(job string) ([]journal, error) {
	if job != "" {
		return []journal{{store: d.dir, job: job, dir: d.folder(job), lenient: true}}, nil
	}
	names, err := readDir(d.dir + "/jobs")
	if errors.Is(err, syscall.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, diskError(d.dir, "", err)
	}
	js := make([]journal, len(names))
	for i, name := range names {
		js[i] = journal{store: d.dir, dir: d.dir + "/jobs/" + name, lenient: true}
	}
	return js, nil
}

// read reads the newest segment of a job, without its decide lock. st is nil
// where the folder is none of a job.
func (d *driver) read(j *journal) (st *state, err error) {
	st, err = j.load(nil)
	var config *cronce.ConfigError
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return nil, nil
	case errors.As(err, &config) && j.job == "":
		return nil, nil // a foreign folder, or one whose claims say what is wrong
	case err != nil:
		return nil, diskError(d.dir, "", err)
	case st.seq == 0, j.dir != d.folder(st.job):
		return nil, nil
	}
	j.job = st.job
	return st, nil
}

// Jobs tells what is known of jobs. It reads without a lock, and takes one
// only where a run looks alive, to see whether it is: who sees it first marks
// it as lost.
func (d *driver) Jobs(ctx context.Context, job string) ([]cronce.JobState, error) {
	folders, err := d.folders(job)
	if err != nil {
		return nil, err
	}
	var jobs []cronce.JobState
	for _, j := range folders {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st, err := d.read(&j)
		if err != nil {
			return nil, err
		}
		if st == nil {
			continue
		}
		var open []cronce.Run
		for _, o := range st.Open {
			open = append(open, o.run(st.job, nil))
		}
		if len(open) > 0 && !d.readOnly {
			// Somebody who is just deciding has done the same.
			if s, err := d.enter(ctx, st.job, false, 0); err == nil {
				if lives, err := s.survey("", false); err == nil {
					open = nil
					for _, l := range lives {
						open = append(open, l.run)
					}
					st.snapshot = s.st.snapshot
					st.Last = clone(st.Last) // the original goes on changing
				}
				s.leave()
			}
		}
		jobs = append(jobs, cronce.JobState{
			Job: st.job, Definition: st.Definition, Since: st.Since, Paused: st.Paused,
			Live: open, Last: st.Last, Fence: st.Fence,
		})
	}
	slices.SortFunc(jobs, func(a, b cronce.JobState) int { return strings.Compare(a.Job, b.Job) })
	return jobs, nil
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// Runs reads runs, without a lock.
func (d *driver) Runs(ctx context.Context, q cronce.RunQuery) ([]cronce.Run, error) {
	if q.ID != "" && !validRunID(q.ID) {
		return nil, nil
	}
	folders, err := d.folders(q.Job)
	if err != nil {
		return nil, err
	}
	var runs []cronce.Run
	for _, j := range folders {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		more, err := d.runs(j, q)
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	if len(folders) > 1 {
		slices.SortStableFunc(runs, func(a, b cronce.Run) int { return a.Start.Compare(b.Start) })
	}
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[len(runs)-q.Limit:]
	}
	return runs, nil
}

// runs reads the runs of one job, oldest first.
func (d *driver) runs(j journal, q cronce.RunQuery) ([]cronce.Run, error) {
	st, err := d.read(&j)
	if err != nil || st == nil {
		return nil, err
	}
	h := history{job: st.job}
	for _, n := range slices.Backward(st.all) {
		b, err := readFile(j.path(n))
		if errors.Is(err, syscall.ENOENT) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return nil, diskError(d.dir, "", err)
		}
		if q.ID != "" && !bytes.Contains(b, []byte(q.ID)) {
			continue
		}
		recs, _, err := j.parse(j.path(n), b, true)
		if err != nil {
			continue // nothing in it can be read
		}
		h.add(recs, func(r record) bool {
			return (q.ID == "" || r.ID == q.ID) && !r.At.Before(q.Since)
		})
		if q.Limit > 0 && len(h.runs) >= q.Limit || q.ID != "" && len(h.runs) > 0 {
			break
		}
		if len(recs) > 0 && recs[0].Snapshot.Until.Before(q.Since) {
			break // all that comes before is older
		}
	}
	slices.Reverse(h.runs)
	if q.ID != "" && len(h.runs) == 1 {
		if b, err := readFile(j.outputPath(q.ID)); err == nil {
			h.runs[0].Output = b
		}
	}
	return h.runs, nil
}
