package localstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
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
	if err := checkJobs(d.dir); err != nil {
		return nil, err
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
// where the folder is none of a job. *cronce.ConfigError: nothing in it can be
// read, and claims are refused.
func (d *driver) read(j *journal) (st *state, err error) {
	st, err = j.load(nil)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil, nil
	case errors.Is(err, syscall.ENOTDIR):
		info, err := os.Lstat(j.dir)
		if j.job == "" && (err != nil || info.Mode()&os.ModeSymlink == 0) {
			return nil, nil // somebody's file
		}
		return nil, notFolder(d.dir, j.dir)
	case err != nil:
		return nil, diskError(d.dir, "", err)
	case st.seq == 0, j.dir != d.folder(st.job):
		return nil, nil
	}
	j.job = st.job
	return st, nil
}

// jobOf is the job that a folder is for, where its journal cannot be read: by
// the folder's name, or by what the beginning of a journal says. Empty: it may
// be somebody's own folder.
func (d *driver) jobOf(j journal) string {
	name := j.dir[len(parent(j.dir))+1:]
	if j.job != "" || folderName(name) == name {
		return cmp.Or(j.job, name)
	}
	for _, file := range list(j.dir) {
		if _, ok := segmentNumber(file); !ok {
			continue
		}
		b, err := readFile(j.dir + "/" + file)
		var head struct {
			Job string `json:"job"`
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		if err == nil && json.Unmarshal(line, &head) == nil && head.Job != "" && d.folder(head.Job) == j.dir {
			return head.Job
		}
	}
	return ""
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
		var refused *cronce.ConfigError
		if errors.As(err, &refused) {
			if name := d.jobOf(j); name != "" {
				jobs = append(jobs, cronce.JobState{Job: name, Problem: refused.What})
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if st == nil {
			continue
		}
		var problem string
		if errors.As(st.damage, &refused) {
			problem = refused.What
		}
		var open []cronce.Run
		for _, o := range st.Open {
			open = append(open, o.run(st.job, nil))
		}
		now, err := j.changes()
		if changed := err != nil || now != st.Seen; (len(open) > 0 || changed) && !d.readOnly {
			// Somebody who is just deciding has done the same.
			s, err := d.enter(ctx, st.job, false, 0)
			if err == nil {
				var lives []live
				if lives, err = s.survey("", changed); err == nil {
					open = nil
					for _, l := range lives {
						if !l.leftover {
							open = append(open, l.run)
						}
					}
					st.snapshot = s.st.snapshot
					st.Last = clone(st.Last) // the original goes on changing
				}
				s.leave()
			}
			if errors.As(diskError(d.dir, "", err), &refused) {
				problem = refused.What
			}
		}
		jobs = append(jobs, cronce.JobState{
			Job: st.job, Definition: st.Definition, Since: st.Since, Paused: st.Paused, Resumed: st.Resumed,
			Live: open, Last: st.Last, Fence: st.Fence, Problem: problem,
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
	var refused *cronce.ConfigError
	if errors.As(err, &refused) && q.Job == "" {
		return nil, nil // Jobs says so
	}
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
		recs, _, _ := j.parse(j.path(n), b, true)
		if len(recs) == 0 {
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
