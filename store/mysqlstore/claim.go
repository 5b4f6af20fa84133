package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// Claim decides a tick. Its answers come in the order of [cronce.Driver].
func (d *driver) Claim(ctx context.Context, c cronce.Claim) (lease cronce.Lease, err error) {
	if len(c.RunID) != idLength {
		return lease, fmt.Errorf("job %q: run id %q is not a UUID", c.Job, c.RunID)
	}
	for locked, looked := false, false; ; {
		var answer error
		next := done
		var srv server
		err := d.repeat(ctx, func() error {
			if locked {
				return d.once(ctx, func(t *tx) (err error) {
					lease, answer, next, err = t.claim(ctx, c, &srv, looked)
					return err
				})
			}
			return d.on(ctx, func(t *tx) (err error) {
				lease, answer, next, err = t.glance(ctx, c, &srv)
				return err
			})
		})
		switch {
		case err != nil:
			return cronce.Lease{}, err
		case next == done:
			return lease, answer
		case next == look:
			if err := d.look(ctx, srv); err != nil {
				return cronce.Lease{}, err
			}
			looked = true
		}
		locked = true
	}
}

// idLength is the length of a run's id.
const idLength = 36

// step is what comes after a transaction.
type step int

const (
	done  step = iota
	lock       // the same with the job's row locked
	retry      // the job's row is there now
	look       // whose decisions these are is to be put on record first
)

// claim makes a claim's transaction. answer is the contract's error. looked says
// that what may be lost is on record by now.
func (t *tx) claim(ctx context.Context, c cronce.Claim, srv *server, looked bool) (lease cronce.Lease, answer error, next step, err error) {
	s, err := t.enter(ctx, c.Job, srv)
	if err != nil {
		return lease, nil, done, err
	}
	if s.job == nil {
		next = retry
		lost, err := t.create(ctx, c.Job)
		if lost && !looked {
			next = look
		}
		return lease, nil, next, err
	}
	if !looked {
		missed, err := s.misses(ctx, srv)
		if err != nil {
			return lease, nil, done, err
		}
		if missed {
			return lease, nil, look, t.end(ctx)
		}
	}
	if looked || s.lower(srv) {
		if err := s.adopt(ctx, srv); err != nil {
			return lease, nil, done, err
		}
	}
	taken, firsts, byID, err := s.read(ctx, c)
	switch {
	case err != nil:
		return lease, nil, done, err
	case byID != nil && byID.Job != c.Job:
		return lease, fmt.Errorf("job %q: run id %s is one of job %q", c.Job, c.RunID, byID.Job), done, t.commit(ctx)
	}
	s.survey()
	cl := &claim{section: s, Claim: c, taken: taken, firsts: firsts, known: srv.known, seen: srv.seen, offered: c.Offered}
	if cl.offered.IsZero() {
		cl.offered = s.now
	}
	if byID != nil {
		lease, answer, err = cl.again(ctx, byID)
		if err != nil {
			return lease, nil, done, err
		}
	} else {
		lease, answer = cl.decide()
	}
	if err := s.leave(ctx); err != nil {
		return cronce.Lease{}, nil, done, err
	}
	t.d.memory.keep(s.job)
	return lease, answer, done, nil
}

// read reads what can matter beside the job: nothing for a tick higher than any
// that was decided, where no run lives.
func (s *section) read(ctx context.Context, c cronce.Claim) (taken, firsts []*runRow, byID *runRow, err error) {
	ticks := c.Tick.IsZero() || !c.Tick.After(s.job.highest)
	if !ticks && len(s.mayLive) == 0 {
		return nil, nil, nil, nil
	}
	var readers []func(*sql.Rows) error
	if s.addLive() {
		readers = append(readers, s.keep)
	}
	if ticks {
		s.add("SELECT "+runColumns+" FROM cronce_runs r WHERE r.id = ?", c.RunID)
		readers = append(readers, s.keep)
	}
	of := func(runs *[]*runRow, attempt int) {
		s.addTick(c, attempt)
		readers = append(readers, func(rows *sql.Rows) error {
			r, err := scanRun(rows)
			if err != nil {
				return err
			}
			if have := s.runs[r.ID]; have != nil {
				r = have
			}
			s.runs[r.ID] = r
			*runs = append(*runs, r)
			return nil
		})
	}
	if ticks && !c.Tick.IsZero() {
		of(&taken, c.Attempt)
		if c.Attempt > 1 {
			of(&firsts, 1)
		}
	}
	s.add("SELECT " + s.d.clock)
	if err := s.query(ctx, append(readers, readTime(&s.now))...); err != nil {
		return nil, nil, nil, err
	}
	return taken, firsts, s.runs[c.RunID], nil
}

// addTick asks for the runs of the claim's tick, oldest first.
func (s *section) addTick(c cronce.Claim, attempt int) {
	s.add("SELECT "+runColumns+" FROM cronce_runs r WHERE r.job = ? AND r.tick = ? AND r.attempt = ? ORDER BY r.started, r.id", c.Job, c.Tick.UTC(), attempt)
}

// claim is a claim that is decided now.
type claim struct {
	*section
	cronce.Claim
	taken   []*runRow // who has its tick and attempt
	firsts  []*runRow // for a re-run: who has its tick
	known   bool      // the store
	seen    time.Time
	offered time.Time
}

// again answers a claim whose run is on record.
func (c *claim) again(ctx context.Context, r *runRow) (cronce.Lease, error, error) {
	var none cronce.Lease
	switch {
	case r.state == skipped:
		e := &cronce.SkippedError{Run: r.Run, Paused: c.job.Paused}
		if r.Held != "" && c.runs[r.Held] == nil {
			c.add("SELECT "+runColumns+" FROM cronce_runs r WHERE r.id = ?", r.Held)
			if err := c.query(ctx, c.keep); err != nil {
				return none, nil, err
			}
		}
		if held := c.runs[r.Held]; held != nil {
			e.Holder = &held.Run
		}
		return none, e, nil
	case r.state != running:
		return none, &cronce.TakenError{Job: r.Job, Tick: r.Tick, Run: r.Run}, nil
	case r.revoked != nil:
		return none, &cronce.RevokedError{Request: *r.revoked}, nil
	}
	c.add("UPDATE cronce_runs SET expires = ? WHERE id = ? AND state = 'running'", c.now.Add(r.ttl), r.ID)
	return cronce.Lease{Run: r.Run, Granted: c.now, TTL: r.ttl, PreviousSuccess: c.job.succeeded}, nil, nil
}

// decide answers a claim that is new.
func (c *claim) decide() (cronce.Lease, error) {
	var none cronce.Lease
	if c.Definition != (cronce.Definition{}) && c.Definition != c.job.Definition {
		if !c.job.Since.IsZero() {
			return none, &cronce.ConflictError{Job: c.Job, Kept: c.job.Definition, Have: c.Definition, Since: c.job.Since}
		}
		c.define(c.Definition)
	}
	if !c.Tick.IsZero() {
		if err := c.due(); err != nil {
			return none, err
		}
	}
	if c.Overlap.Policy == cronce.OverlapAllow {
		return c.run(), nil
	}
	if end := c.seen.Add(c.d.quarantine); !c.known && c.now.Before(end) {
		return none, &cronce.HeldError{Holder: cronce.Run{Job: c.Job}, Offered: c.offered, Expires: end}
	}
	if err := c.held(); err != nil {
		return none, err
	}
	if c.job.waiting != nil {
		c.setWaiting(nil)
	}
	return c.run(), nil
}

// due looks at the tick itself.
func (c *claim) due() error {
	switch {
	case len(c.taken) >= c.Slots:
		return &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: c.taken[len(c.taken)-1].Run}
	case c.job.pruned.After(c.now):
		return c.d.config(fmt.Sprintf("set the clock right, or: cronce store reset-watermark %s", c.Job),
			"job %q: forgotten ticks reach to %s, ahead of the server's clock, and every tick until then would pass for decided", c.Job, cronce.Stamp(c.job.pruned))
	case !c.Tick.After(c.job.pruned):
		return &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: cronce.Run{Job: c.Job, Tick: c.Tick}}
	case c.Tick.After(c.now):
		return &cronce.SkewError{Job: c.Job, Tick: c.Tick, Now: c.now}
	}
	if c.Attempt > 1 {
		if err := c.rerun(); err != nil {
			return err
		}
	}
	switch {
	case !c.known && !c.Tick.After(c.seen):
		return c.skip(cronce.SkipStoreRestarted, nil)
	case c.job.Paused != nil:
		return c.skip(cronce.SkipPaused, nil)
	case c.StartDeadline > 0 && c.offered.Sub(c.Tick) > c.StartDeadline:
		return c.skip(cronce.SkipLate, nil)
	}
	return nil
}

// rerun says why a tick is not to be run again.
func (c *claim) rerun() error {
	taken := &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: cronce.Run{Job: c.Job, Tick: c.Tick}}
	var alive *runRow
	lost := 0
	for _, r := range c.firsts {
		taken.Run = r.Run
		switch r.state {
		case running:
			alive = r
		case string(cronce.Lost):
			lost++
		}
	}
	switch {
	case len(c.taken) >= lost && alive != nil:
		return &cronce.HeldError{Holder: alive.Run, Offered: c.offered, Expires: alive.expires}
	case len(c.taken) >= lost, c.job.highest.After(c.Tick):
		return taken
	}
	return nil
}

// run decides that it runs.
func (c *claim) run() cronce.Lease {
	r := c.decided()
	if c.Overlap.Policy == cronce.OverlapAllow {
		c.setBeside(append(slices.Clone(c.job.beside), r.ID))
	} else {
		c.job.Fence = max(c.job.Fence+1, c.now.UnixMicro())
		r.Fence = c.job.Fence
		c.set("fence", c.job.Fence)
		// A run side by side is in the list, so that none is forgotten here.
		c.set("holder_run", r.ID)
	}
	c.make("(id, job, tick, attempt, slot, fence, state, holder, started, expires, ttl) VALUES ("+ifChanged+", ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?)",
		r.ID, r.Job, nullTime(r.Tick), r.Attempt, c.slot(), r.Fence, asJSON(r.Holder), r.Start, c.now.Add(c.TTL), c.TTL.Microseconds())
	return cronce.Lease{Run: r, Granted: c.now, TTL: c.TTL, PreviousSuccess: c.job.succeeded}
}

// skip decides that it does not run.
func (c *claim) skip(reason cronce.SkipReason, holder *cronce.Run) error {
	r := c.decided()
	r.Skip = reason
	e := &cronce.SkippedError{Holder: holder}
	if holder != nil {
		r.Held = holder.ID
	}
	if reason == cronce.SkipPaused {
		e.Paused = c.job.Paused
	}
	e.Run = r
	c.make("(id, job, tick, attempt, slot, fence, state, skip, held_by, holder, started, ttl) VALUES ("+ifChanged+", ?, ?, ?, ?, 0, 'skipped', ?, ?, ?, ?, 0)",
		r.ID, r.Job, nullTime(r.Tick), r.Attempt, c.slot(), string(reason), null(r.Held), asJSON(r.Holder), r.Start)
	return e
}

// decided is the record of the decision. The job's row is changed with each
// one: on Galera that is what two nodes cannot both do.
func (c *claim) decided() cronce.Run {
	r := cronce.Run{ID: c.RunID, Job: c.Job, Tick: c.Tick, Attempt: c.Attempt, Holder: cut(c.Holder), Start: c.now}
	if !c.Tick.IsZero() {
		r.Slot = c.slot()
		if c.Tick.After(c.job.highest) {
			c.job.highest = c.Tick
			c.set("highest_tick", c.Tick.UTC())
		}
	}
	c.set("last_run", r.ID)
	return r
}

// slot is the first that nobody has; 1 for a run by hand.
func (c *claim) slot() int {
	for slot := 1; ; slot++ {
		if !slices.ContainsFunc(c.taken, func(r *runRow) bool { return r.Slot == slot }) {
			return slot
		}
	}
}

// cut keeps what is said of a holder short.
func cut(h cronce.Holder) cronce.Holder {
	h.Host, h.User, h.Via = begin(h.Host, maxText), begin(h.User, maxText), begin(h.Via, maxText)
	return h
}
