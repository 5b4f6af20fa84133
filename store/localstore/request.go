package localstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// control is the content of control.json: what the runs of a job are asked to
// do. It is a file of its own, so that a run can look at it often and cheaply.
type control struct {
	Stop   *order `json:"stop,omitempty"`
	Revoke *order `json:"revoke,omitempty"`
}

// order is a request to some runs. It names them, as no clock can tell which
// runs were there when it was made.
type order struct {
	By   string    `json:"by,omitempty"`
	Why  string    `json:"why,omitempty"`
	At   time.Time `json:"at"`
	Runs []string  `json:"runs"`
}

func (o *order) is(run string) bool { return o != nil && slices.Contains(o.Runs, run) }

// revoked is a *cronce.RevokedError if the run's lease was taken away.
func (c control) revoked(run cronce.Run) error {
	if !c.Revoke.is(run.ID) {
		return nil
	}
	return &cronce.RevokedError{Request: cronce.Request{Kind: cronce.Revoke, Job: run.Job, By: c.Revoke.By, Why: c.Revoke.Why, At: c.Revoke.At}}
}

// with is the order r for those runs, and for the runs of an earlier one that
// still live.
func (o *order) with(r record, open []record) *order {
	n := &order{By: r.By, Why: r.Why, At: r.At, Runs: slices.Clone(r.Runs)}
	if o != nil {
		for _, id := range o.Runs {
			if !slices.Contains(n.Runs, id) && slices.ContainsFunc(open, func(o record) bool { return o.ID == id }) {
				n.Runs = append(n.Runs, id)
			}
		}
	}
	return n
}

func (j journal) readControl() (c control, err error) {
	b, err := readFile(j.dir + "/control.json")
	if errors.Is(err, syscall.ENOENT) {
		return c, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, &c); err != nil {
			err = &cronce.ConfigError{Store: j.store, What: j.dir + "/control.json: " + err.Error(), Cure: "remove that file, then ask again"}
		}
	}
	return c, err
}

// order puts a stop or revoke into the control file.
func (s *section) order(r record) error {
	c, err := s.readControl()
	if err != nil {
		c = control{} // what is asked for now matters more
	}
	if r.Event == evRevoke {
		c.Revoke = c.Revoke.with(r, s.st.Open)
	} else {
		c.Stop = c.Stop.with(r, s.st.Open)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return replaceFile(s.dir+"/control.json", append(b, '\n'))
}

// askToStop asks the holders to make way for a claim, once.
func (s *section) askToStop(c cronce.Claim, lives []live, now time.Time) error {
	r := record{Event: evStop, At: now, By: "run " + c.RunID, Why: "it replaces this run"}
	done, err := s.readControl()
	for _, l := range lives {
		if l.run.ID != "" && !(err == nil && done.Stop.is(l.run.ID)) {
			r.Runs = append(r.Runs, l.run.ID)
		}
	}
	if len(r.Runs) == 0 {
		return nil
	}
	if err := s.write(r); err != nil {
		return err
	}
	return s.order(r)
}

// Request records a request, and carries out a revocation.
func (d *driver) Request(ctx context.Context, r cronce.Request) error {
	if err := d.writable(); err != nil {
		return err
	}
	creates := r.Kind == cronce.Define || r.Kind == cronce.Pause
	s, err := d.enter(ctx, r.Job, creates, d.patience)
	if errors.Is(err, errNoJob) {
		return nil // nothing to resume, stop or revoke
	}
	if err != nil {
		return diskError(d.dir, "", err)
	}
	locks, err := s.request(r)
	s.leave()
	if err != nil || r.Kind != cronce.Revoke {
		return diskError(d.dir, "", err)
	}
	return d.endHolders(ctx, r.Job, locks)
}

// request writes the request into the journal. For a revocation it returns the
// locks that are to be freed.
func (s *section) request(r cronce.Request) ([]lockID, error) {
	rec := record{At: s.d.now(), By: cut(r.By, maxText), Why: cut(r.Why, maxText)}
	switch r.Kind {
	case cronce.Define:
		if r.Definition == s.st.Definition && !s.st.Since.IsZero() {
			return nil, nil
		}
		rec.Event, rec.Definition = evDefine, &r.Definition
		return nil, s.write(rec)
	case cronce.Pause:
		if s.st.Paused != nil {
			return nil, nil
		}
		rec.Event = evPause
		return nil, s.write(rec)
	case cronce.Resume:
		if s.st.Paused == nil {
			return nil, nil
		}
		rec.Event = evResume
		return nil, s.write(rec)
	case cronce.ResetWatermark:
		return nil, nil // ticks ahead of the clock are never forgotten here
	case cronce.Prune:
		rec.Event = evPrune
		return nil, s.write(rec)
	case cronce.Ended:
		rec.Event, rec.Runs = evEnded, r.Runs
		return nil, s.write(rec)
	case cronce.Stop:
		rec.Event = evStop
	case cronce.Revoke:
		rec.Event = evRevoke
	default:
		return nil, fmt.Errorf("job %q: no such request: %q", r.Job, r.Kind)
	}
	lives, err := s.survey("", true)
	if err != nil || len(lives) == 0 {
		return nil, err
	}
	var locks []lockID
	for _, l := range lives {
		locks = append(locks, l.lock)
		if l.run.ID != "" {
			rec.Runs = append(rec.Runs, l.run.ID)
		}
	}
	if err := s.write(rec); err != nil {
		return nil, err
	}
	return locks, s.order(rec)
}

// Requests reads what was asked of a job, without a lock.
func (d *driver) Requests(ctx context.Context, job string, limit int) ([]cronce.Request, error) {
	folders, err := d.folders(job)
	if err != nil || job == "" {
		return nil, err
	}
	j := folders[0]
	st, err := d.read(&j)
	if err != nil || st == nil {
		return nil, err
	}
	var newest []cronce.Request
	for _, n := range slices.Backward(st.all) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		recs, err := j.records(n)
		if err != nil {
			continue // forgotten meanwhile, or nothing in it can be read
		}
		for _, r := range slices.Backward(recs) {
			if q, ok := r.request(job); ok {
				newest = append(newest, q)
			}
			if limit > 0 && len(newest) == limit {
				slices.Reverse(newest)
				return newest, nil
			}
		}
	}
	slices.Reverse(newest)
	return newest, nil
}

// request is the request that the record keeps, if it is one.
func (r record) request(job string) (cronce.Request, bool) {
	q := cronce.Request{Job: job, By: r.By, Why: r.Why, At: r.At, Runs: r.Runs}
	switch r.Event {
	case evDefine:
		q.Kind = cronce.Define
		if r.Definition == nil || r.By == "" {
			return q, false // it came with a claim
		}
		q.Definition = *r.Definition
	case evPause:
		q.Kind = cronce.Pause
	case evResume:
		q.Kind = cronce.Resume
	case evStop:
		q.Kind = cronce.Stop
	case evRevoke:
		q.Kind = cronce.Revoke
	case evPrune:
		q.Kind = cronce.Prune
	case evEnded:
		q.Kind = cronce.Ended
	default:
		return q, false
	}
	return q, true
}

// endHolders ends the processes that hold those locks, this one excepted: the
// work first, so that whoever watches over it can still record its end; then,
// if it does not let go, the process that claimed the run. One that is there for
// other jobs too is left: the order in the control file asks it to end the run.
func (d *driver) endHolders(ctx context.Context, job string, locks []lockID) error {
	for _, step := range []struct {
		work, claimer syscall.Signal
		wait          time.Duration
		asked         bool // all have had the time to end by themselves
	}{
		{syscall.SIGTERM, 0, d.grace, false},
		{syscall.SIGKILL, syscall.SIGTERM, d.grace, true},
		{syscall.SIGKILL, syscall.SIGKILL, 2 * time.Second, true},
	} {
		end := time.Now().Add(step.wait)
		for first := true; first || time.Now().Before(end); first = false {
			if !first {
				step.work, step.claimer = 0, 0 // only look again
			}
			left, spared, err := d.signalHolders(ctx, job, locks, step.work, step.claimer)
			if err != nil || len(left) == 0 {
				return err
			}
			if len(left) == len(spared) && step.asked {
				break // nobody is left to be signalled
			}
			// A process that is ending is unseen for a moment before it lets go.
			for again := true; again; again = slices.ContainsFunc(left, openFile.locks) && time.Now().Before(end) {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(10 * time.Millisecond): // a lock's end is no event to wait for
				}
			}
		}
	}
	left, spared, err := d.signalHolders(ctx, job, locks, 0, 0)
	if err != nil || len(left) == 0 {
		return err
	}
	names := make([]string, len(left))
	for i, o := range left {
		switch {
		case o == unseen:
			names[i] = "pid unknown (of another user or container), which cannot be ended"
		case slices.Contains(spared, o):
			names[i] = fmt.Sprintf("pid %d, which is there for other jobs too and is not ended for one: it was asked to end the run, and else ends with 'kill %[1]d'", o.pid)
		default:
			names[i] = fmt.Sprintf("pid %d, which cannot be ended", o.pid)
		}
	}
	return &cronce.UnavailableError{Store: d.dir, Err: fmt.Errorf("the lock of job %q is still held by %s", job, strings.Join(names, "; by "))}
}

// unseen stands for a holder that cannot be found in /proc.
var unseen openFile

// signalHolders sends the signals to whoever holds the locks and returns them,
// and which of them are spared as they claimed the run and are there for other
// jobs too.
// It does so in a section: no run that begins meanwhile can be hit. Nor is a
// process that hands its runs over, as serve does: that lets go of its copy of
// the lock by itself, and has other runs.
func (d *driver) signalHolders(ctx context.Context, job string, locks []lockID, work, claimer syscall.Signal) (left, spared []openFile, err error) {
	s, err := d.enter(ctx, job, false, d.patience)
	if err != nil {
		if errors.Is(err, errNoJob) {
			err = nil
		}
		return nil, nil, err
	}
	defer s.leave()
	lives, err := s.survey("", true)
	if err != nil {
		return nil, nil, diskError(d.dir, "", err)
	}
	for _, l := range lives {
		if !slices.Contains(locks, l.lock) {
			continue
		}
		found := d.findHolders(l.lock)
		if len(found) == 0 {
			left = append(left, unseen) // or it ended just now; the next look tells
		}
		for _, o := range found {
			if o.pid == os.Getpid() {
				continue
			}
			left = append(left, o)
			if o.pid == l.claimer && !l.run.Holder.Guard {
				spared = append(spared, o)
				continue
			}
			if s.handsOver(o.pid) {
				continue
			}
			signal := work
			if o.pid == l.claimer {
				signal = claimer
			}
			p, err := os.FindProcess(o.pid) // a pidfd: it is this process or none
			if err == nil && signal != 0 && o.is(l.lock) {
				p.Signal(signal)
			}
		}
	}
	return left, spared, nil
}

// handsOver tells whether that process claims runs of this job and gives them to
// others.
func (s *section) handsOver(pid int) bool {
	return slices.ContainsFunc(s.st.givers, func(p procID) bool { return p.PID == pid && !p.gone() })
}
