package mysqlstore

import "github.com/cronce/cronce"

// held says what a live run, or one that waits, makes of the claim.
func (c *claim) held() error {
	p := c.job.waiting
	mine := p != nil && p.Run.ID == c.RunID
	same := p != nil && !mine && !c.Tick.IsZero() && p.Run.Tick.Equal(c.Tick)
	if len(c.live) == 0 {
		switch {
		case p == nil || mine || same:
			return nil
		case c.CatchUp || !p.Granted.After(c.offered):
			return &cronce.HeldError{Holder: p.Run, Offered: c.offered, Expires: p.Expires}
		}
		return c.skip(cronce.SkipOverlap, &p.Run)
	}

	holder := c.live[0]
	alive, reason := false, cronce.SkipOrphans
	for _, r := range c.live {
		alive = alive || r.granted().After(c.offered)
		if !r.orphaned {
			reason = cronce.SkipOverlap
		}
	}
	wait := &cronce.HeldError{Holder: holder.Run, Offered: c.offered, Expires: holder.expires}
	if c.CatchUp {
		return wait
	}
	waits := c.Overlap.Policy == cronce.OverlapWait || c.Overlap.Policy == cronce.OverlapReplace
	if waits && (p == nil || mine) {
		c.setWaiting(&place{
			Run:     cronce.Run{ID: c.RunID, Job: c.Job, Tick: c.Tick, Holder: cut(c.Holder), Start: c.offered},
			Granted: c.now, Expires: c.now.Add(c.TTL),
		})
		mine = true
	}
	switch {
	case !alive, same && waits:
		return wait
	case mine && c.now.Sub(c.offered) < c.Overlap.Wait:
		if c.Overlap.Policy == cronce.OverlapReplace {
			c.replace()
		}
		return wait
	case mine:
		c.setWaiting(nil)
	}
	return c.skip(reason, &holder.Run)
}

// replace asks the runs that live to stop, each once.
func (c *claim) replace() {
	r := cronce.Request{Kind: cronce.Stop, Job: c.Job, By: "run " + c.RunID, At: c.now}
	for _, l := range c.live {
		if l.stop == nil {
			l.stop = &r
			r.Runs = append(r.Runs, l.ID)
		}
	}
	if len(r.Runs) > 0 {
		c.ask("stop", r)
	}
}

// ask puts a request on record and before the runs that it names.
func (s *section) ask(column string, r cronce.Request) {
	marks, args := list(r.Runs)
	s.add("UPDATE cronce_runs SET "+column+" = ? WHERE id IN ("+marks+")", append([]any{asJSON(r)}, args...)...)
	s.record(r)
}
