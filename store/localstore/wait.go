package localstore

import (
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// waiter is this process's place to wait for a job's end.
type waiter struct {
	fd    int       // of the wait lock
	since time.Time // when the tick was first offered; counts on while the clock is set
	timer *time.Timer
}

// waitRecord is the content of the wait lock's file, for others to know what
// is waited for. It means nothing while the lock is free.
type waitRecord struct {
	Run    string        `json:"run"`
	Tick   time.Time     `json:"tick,omitzero"`
	Since  time.Time     `json:"since"`
	Until  time.Time     `json:"until"`
	Holder cronce.Holder `json:"holder,omitzero"`
}

func (w *waitRecord) same(c cronce.Claim) bool {
	return w != nil && !c.Tick.IsZero() && w.Tick.Equal(c.Tick)
}

// run shows the waiter as the run that it will be.
func (w *waitRecord) run(job string) cronce.Run {
	return cronce.Run{ID: w.Run, Job: job, Tick: w.Tick, Holder: w.Holder, Start: w.Since}
}

// wait takes the job's place to wait, or keeps it. Where another has it, other
// is what that waits for, if it can be read.
func (s *section) wait(d decision) (w *waiter, other *waitRecord, err error) {
	s.d.mu.Lock()
	w = s.d.waits[d.c.RunID]
	if w != nil {
		w.timer.Reset(s.d.waitForgotten)
	}
	s.d.mu.Unlock()
	if w != nil {
		return w, nil, nil
	}
	t, err := s.try(waitLock)
	if err != nil {
		return nil, nil, err
	}
	if t.fd < 0 {
		return nil, s.readWait(), nil
	}
	r := waitRecord{Run: d.c.RunID, Tick: d.c.Tick, Since: d.offered, Until: d.offered.Add(d.c.Overlap.Wait), Holder: cutHolder(d.c.Holder)}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	if err := syscall.Ftruncate(t.fd, 0); err != nil {
		return nil, nil, err
	}
	if err := writeAll(t.fd, append(b, '\n')); err != nil {
		return nil, nil, err
	}
	t.keep = true
	clock := s.d.clock()
	w = &waiter{fd: t.fd, since: clock.Add(-max(0, clock.Sub(d.offered)))}
	id := d.c.RunID
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	// The lock ends with this process. Where the process goes on and merely
	// stops asking, this ends it.
	w.timer = time.AfterFunc(s.d.waitForgotten, func() { s.d.stopWaiting(id) })
	s.d.waits[id] = w
	return w, nil, nil
}

// stopWaiting gives up the place to wait, if this claim has it.
func (d *driver) stopWaiting(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.waits[id]; w != nil {
		w.timer.Stop()
		unlock(w.fd)
		delete(d.waits, id)
	}
}

func (s *section) readWait() *waitRecord {
	b, err := readFile(s.dir + "/" + waitLock)
	var r waitRecord
	if err != nil || json.Unmarshal(b, &r) != nil || !validRunID(r.Run) {
		return nil
	}
	return &r
}

// waiting is who waits for the job, unless it is this claim, or one for the
// same tick, or one whose time has passed.
func (s *section) waiting(c cronce.Claim, now time.Time) (*waitRecord, error) {
	s.d.mu.Lock()
	mine := s.d.waits[c.RunID] != nil
	s.d.mu.Unlock()
	if _, err := stat(s.dir + "/" + waitLock); mine || errors.Is(err, syscall.ENOENT) {
		return nil, nil
	}
	t, err := s.try(waitLock)
	if err != nil || t.fd >= 0 {
		return nil, err
	}
	r := s.readWait()
	if r == nil || r.same(c) || now.After(r.Until.Add(waitMargin)) {
		return nil, nil
	}
	return r, nil
}

// waitMargin is how long after its time a waiter is still waited for: it looks
// again ten times a second.
const waitMargin = 2 * time.Second
