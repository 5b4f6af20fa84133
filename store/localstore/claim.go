package localstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// Claim decides a tick. Its one atomic step is the section: decide lock, read
// the journal, try the locks, append, fsync.
func (d *driver) Claim(ctx context.Context, c cronce.Claim) (cronce.Lease, error) {
	if err := d.writable(); err != nil {
		return cronce.Lease{}, err
	}
	if !validRunID(c.RunID) {
		return cronce.Lease{}, fmt.Errorf("job %q: run id %q is not a UUID in lower case", c.Job, c.RunID)
	}
	s, err := d.enter(ctx, c.Job, true, d.patience)
	if err != nil {
		return cronce.Lease{}, diskError(d.dir, notStarted, err)
	}
	defer s.leave()
	l, err := s.claim(c)
	if err != nil {
		var held *cronce.HeldError
		if !errors.As(err, &held) {
			d.stopWaiting(c.RunID)
		}
		return cronce.Lease{}, diskError(d.dir, notStarted, err)
	}
	d.stopWaiting(c.RunID)
	return l, nil
}

func (s *section) claim(c cronce.Claim) (cronce.Lease, error) {
	var none cronce.Lease
	alone := c.Overlap.Policy != cronce.OverlapAllow
	lives, err := s.survey(c.RunID, alone)
	if err != nil {
		return none, err
	}
	now := s.d.now()

	if run, ok, err := s.find(c.RunID); err != nil {
		return none, err
	} else if ok {
		return s.again(c, run, now)
	}

	offered := c.Offered
	if offered.IsZero() {
		offered = now
	}
	slot := 1
	if !c.Tick.IsZero() {
		taken, err := s.decisions(c.Tick, c.Attempt)
		if err != nil {
			return none, err
		}
		if len(taken) >= c.Slots {
			return none, &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: taken[len(taken)-1]}
		}
		for slices.ContainsFunc(taken, func(r cronce.Run) bool { return r.Slot == slot }) {
			slot++
		}
		if covers(s.st.Forgotten, c.Tick) {
			return none, &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: cronce.Run{Job: c.Job, Tick: c.Tick}}
		}
		if c.Tick.After(now) {
			return none, &cronce.SkewError{Job: c.Job, Tick: c.Tick, Now: now}
		}
		if c.Attempt > 1 {
			if err := s.rerun(c, len(taken), lives, offered); err != nil {
				return none, err
			}
		}
	}

	d := decision{s: s, c: c, slot: slot, now: now, offered: offered}
	if !c.Tick.IsZero() {
		// A run by hand is what a person wants now, whatever was said of ticks.
		if p := s.st.Paused; p != nil {
			return none, d.skip(cronce.SkipPaused, nil)
		}
		if c.StartDeadline > 0 && d.offered.Sub(c.Tick) > c.StartDeadline {
			return none, d.skip(cronce.SkipLate, nil)
		}
	}
	if !alone {
		t, err := s.freeNumbered()
		if err != nil {
			return none, err
		}
		return d.run(t)
	}
	if len(lives) > 0 {
		return none, d.overlap(lives)
	}
	if w, err := s.waiting(c, now); err != nil {
		return none, err
	} else if w != nil {
		// The run before has ended and the one that waits for it has not come
		// yet: it goes first.
		holder := w.run(s.job)
		if c.CatchUp {
			return none, &cronce.HeldError{Holder: holder, Offered: d.offered}
		}
		return none, d.skip(cronce.SkipOverlap, &holder)
	}
	t, err := s.try(jobLock)
	if err != nil {
		return none, err
	}
	return d.run(t)
}

// decision is a tick about to be decided.
type decision struct {
	s            *section
	c            cronce.Claim
	slot         int
	now, offered time.Time
}

// records is the start or skip record, after the change of the definition if
// the claim brings another one.
func (d decision) records(r record) []record {
	r.At, r.ID, r.Tick, r.Holder = d.now, d.c.RunID, d.c.Tick, cutHolder(d.c.Holder)
	if !d.c.Tick.IsZero() {
		r.Tick, r.Slot = d.c.Tick.UTC(), d.slot
	}
	r.Attempt = d.c.Attempt
	if r.Holder.Host == "" {
		r.Holder.Host = hostname()
	}
	if r.Holder.PID == 0 {
		r.Holder.PID = os.Getpid()
	}
	if def := d.c.Definition; def != (cronce.Definition{}) && def != d.s.st.Definition {
		return []record{{Event: evDefine, At: d.now, Definition: &def}, r}
	}
	return []record{r}
}

// run decides the tick as run, under that lock.
func (d decision) run(t *tried) (cronce.Lease, error) {
	s := d.s
	r := record{Event: evStart, Lock: t.id, Proc: self()}
	if d.c.Overlap.Policy != cronce.OverlapAllow {
		// By the clock, so that it also grows over the loss of the journal.
		r.Fence = max(s.st.Fence+1, d.now.UnixMicro())
	}
	recs := d.records(r)
	success := s.st.Success
	if err := s.write(recs...); err != nil {
		return cronce.Lease{}, err
	}
	return s.lease(recs[len(recs)-1], t, success, d.now)
}

// lease hands out the lock.
func (s *section) lease(r record, t *tried, success, now time.Time) (cronce.Lease, error) {
	// Were the folder deleted in this very moment, the next claim would find
	// neither the record nor the lock.
	mine, err := fstat(s.fd)
	if err != nil {
		return cronce.Lease{}, err
	}
	if is, err := stat(s.dir); err != nil || is.Dev != mine.Dev || is.Ino != mine.Ino {
		return cronce.Lease{}, fmt.Errorf("%s was deleted meanwhile: %w", s.dir, syscall.ESTALE)
	}
	t.keep = true
	f := os.NewFile(uintptr(t.fd), s.dir+"/"+t.id.File)
	s.d.mu.Lock()
	s.d.leases[r.ID] = &leased{file: f, holder: r.Holder}
	s.d.mu.Unlock()
	return cronce.Lease{Run: r.run(s.job, nil), Granted: now, PreviousSuccess: success, Lock: f}, nil
}

// skip decides the tick as a skip.
func (d decision) skip(reason cronce.SkipReason, holder *cronce.Run) error {
	r := record{Event: evSkip, Skip: reason}
	if holder != nil {
		r.Held = holder.ID
	}
	recs := d.records(r)
	paused := d.s.st.Paused
	if err := d.s.write(recs...); err != nil {
		return err
	}
	e := &cronce.SkippedError{Run: recs[len(recs)-1].run(d.s.job, nil), Holder: holder}
	if reason == cronce.SkipPaused {
		e.Paused = paused
	}
	return e
}

// overlap says what becomes of the tick while others hold the lock.
func (d decision) overlap(lives []live) error {
	holder, reason := lives[0].run, cronce.SkipOverlap
	if !slices.ContainsFunc(lives, func(l live) bool { return !l.orphans }) {
		reason = cronce.SkipOrphans
	}
	held := &cronce.HeldError{Holder: holder, Offered: d.offered}
	if d.c.CatchUp {
		return held
	}
	if reason == cronce.SkipOrphans && d.now.Sub(d.offered) < d.s.d.settle {
		return held
	}
	if d.c.Overlap.Policy == cronce.OverlapSkip {
		return d.skip(reason, &holder)
	}
	w, other, err := d.s.wait(d)
	switch {
	case err != nil:
		return err
	case w == nil && other.same(d.c):
		return held // another process waits for this very tick
	case w == nil:
		return d.skip(reason, &holder)
	case d.s.d.clock().Sub(w.since) >= d.c.Overlap.Wait:
		return d.skip(reason, &holder)
	}
	if d.c.Overlap.Policy == cronce.OverlapReplace {
		if err := d.s.askToStop(d.c, lives, d.now); err != nil {
			return err
		}
	}
	return held
}

// again answers a claim that has been decided before.
func (s *section) again(c cronce.Claim, run cronce.Run, now time.Time) (cronce.Lease, error) {
	var none cronce.Lease
	switch {
	case run.Skip != "":
		e := &cronce.SkippedError{Run: run}
		if run.Held != "" {
			if holder, ok, err := s.find(run.Held); err == nil && ok {
				e.Holder = &holder
			}
		}
		return none, e
	case !run.Live():
		return none, &cronce.TakenError{Job: run.Job, Tick: run.Tick, Run: run}
	}
	if asked, err := s.readControl(); err != nil {
		return none, err
	} else if err := asked.revoked(run); err != nil {
		return none, err
	}
	s.d.mu.Lock()
	have := s.d.leases[run.ID]
	s.d.mu.Unlock()
	if have != nil {
		return cronce.Lease{Run: run, Granted: now, PreviousSuccess: s.st.Success, Lock: have.file}, nil
	}
	i := slices.IndexFunc(s.st.Open, func(o record) bool { return o.ID == run.ID })
	if i < 0 {
		return none, &cronce.HeldError{Holder: run, Offered: now}
	}
	o := s.st.Open[i]
	t := s.held[o.Lock.File]
	if t == nil || t.fd < 0 || t.id != o.Lock {
		return none, &cronce.HeldError{Holder: run, Offered: now}
	}
	// Its record was written, but never known to be durable.
	if err := s.sync(); err != nil {
		return none, err
	}
	return s.lease(o, t, s.st.Success, now)
}

// sync makes what the newest segment has durable.
func (s *section) sync() error {
	fd, err := open(s.path(s.st.seq), syscall.O_WRONLY)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := s.d.fsync(fd); err != nil {
		return err
	}
	return s.d.fsync(s.fd)
}

// find returns a run by its id.
func (s *section) find(id string) (cronce.Run, bool, error) {
	if run := s.st.decision(id); run != nil {
		return *run, true, nil
	}
	for _, o := range s.st.Open {
		if o.ID == id {
			return o.run(s.job, nil), true, nil
		}
	}
	// An id made after all that is in earlier segments cannot be there.
	if !validRunID(id) || !s.st.begun || idTime(id) > s.st.head.Until.UnixMilli() {
		return cronce.Run{}, false, nil
	}
	h := history{job: s.job}
	for _, n := range slices.Backward(s.st.all) {
		b, err := readFile(s.path(n))
		if errors.Is(err, syscall.ENOENT) {
			continue
		}
		if err != nil {
			return cronce.Run{}, false, err
		}
		if !bytes.Contains(b, []byte(id)) {
			continue
		}
		recs, err := s.records(n)
		if err != nil {
			return cronce.Run{}, false, err
		}
		h.add(recs, func(r record) bool { return r.ID == id })
		if len(h.runs) > 0 {
			return h.runs[0], true, nil
		}
	}
	return cronce.Run{}, false, nil
}

// decisions are the runs and skips of a tick.
func (s *section) decisions(tick time.Time, attempt int) ([]cronce.Run, error) {
	mine := func(r record) bool { return r.Tick.Equal(tick) && r.Attempt == attempt }
	if !covers(s.st.head.Decided, tick) {
		var runs []cronce.Run
		for _, r := range s.st.decided {
			if r.Tick.Equal(tick) && r.Attempt == attempt {
				runs = append(runs, *r)
			}
		}
		return runs, nil
	}
	h := history{job: s.job}
	for _, n := range slices.Backward(s.st.all) {
		recs, err := s.records(n)
		if errors.Is(err, syscall.ENOENT) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return nil, err
		}
		h.add(recs, mine)
		if len(recs) > 0 && !covers(recs[0].Snapshot.Decided, tick) {
			break
		}
	}
	slices.Reverse(h.runs)
	return h.runs, nil
}
