package storetest

import (
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// claim answers in the order that cronce.Driver gives.
func (s *server) claim(c cronce.Claim) (cronce.Lease, error) {
	var none cronce.Lease
	if !s.known && (s.seen.IsZero() || s.flaw == "each sight is the first") {
		s.seen = s.now()
	}
	j := s.job(c.Job, true)
	s.markLost(j)
	if r := j.run(c.RunID); r != nil && s.flaw != "a claim again is another claim" {
		return s.again(j, r)
	}
	if c.Definition != (cronce.Definition{}) && c.Definition != j.Definition {
		if !j.Since.IsZero() && s.flaw != "another definition is adopted" {
			return none, &cronce.ConflictError{Job: j.Job, Kept: j.Definition, Have: c.Definition, Since: j.Since}
		}
		j.Definition, j.Since = c.Definition, s.now()
	}
	offered := c.Offered
	if offered.IsZero() {
		offered = s.now()
	}
	if s.flaw != "a claim of two steps" {
		if err := s.decided(j, c); err != nil {
			return none, err
		}
	}
	if !c.Tick.IsZero() {
		late := offered.Sub(c.Tick)
		if s.flaw == "late is counted after the wait" {
			late = s.now().Sub(c.Tick)
		}
		switch {
		case c.Tick.After(s.now()) && s.flaw != "ticks ahead are run":
			return none, &cronce.SkewError{Job: j.Job, Tick: c.Tick, Now: s.now()}
		case c.Attempt > 1:
			if err := s.rerun(j, c, offered); err != nil {
				return none, err
			}
		}
		switch {
		case !s.known && !c.Tick.After(s.seen):
			return none, s.skip(j, c, cronce.SkipStoreRestarted, nil)
		case j.Paused != nil && s.flaw != "a pause is not looked at":
			return none, s.skip(j, c, cronce.SkipPaused, nil)
		case c.StartDeadline > 0 && late > c.StartDeadline:
			return none, s.skip(j, c, cronce.SkipLate, nil)
		}
	}
	if c.Overlap.Policy == cronce.OverlapAllow {
		return s.lease(j, c), nil
	}
	if end := s.seen.Add(s.quarantine); !s.known && !s.expired(end) && s.flaw != "no quarantine" {
		return none, &cronce.HeldError{Holder: cronce.Run{Job: j.Job}, Offered: offered, Expires: end}
	}
	if err := s.held(j, c, offered); err != nil && s.flaw != "an overlap is allowed" {
		return none, err
	}
	j.place = nil
	return s.lease(j, c), nil
}

// markLost marks the runs whose lease has ended.
func (s *server) markLost(j *job) {
	for _, r := range j.runs {
		if r.Live() && s.expired(r.expires()) || r.Outcome == cronce.Lost && s.flaw == "lost runs are marked again" {
			r.Outcome, r.End = cronce.Lost, s.now()
		}
	}
	if j.place != nil && s.expired(j.place.expires) && s.flaw != "a dead waiter keeps its place" {
		j.place = nil
	}
}

// again answers a claim whose run is on record.
func (s *server) again(j *job, r *run) (cronce.Lease, error) {
	switch {
	case r.Skip != "":
		e := &cronce.SkippedError{Run: r.Run, Paused: j.Paused}
		if held := j.run(r.Held); held != nil {
			e.Holder = &held.Run
		}
		return cronce.Lease{}, e
	case !r.Live():
		return cronce.Lease{}, &cronce.TakenError{Job: j.Job, Tick: r.Tick, Run: r.Run}
	case r.revoked != nil && s.flaw != "a revoked lease is claimed again":
		return cronce.Lease{}, &cronce.RevokedError{Request: *r.revoked}
	}
	if s.flaw != "a claim again does not renew" {
		r.granted = s.now()
	}
	return cronce.Lease{Run: r.Run, Granted: s.now(), TTL: r.ttl, PreviousSuccess: j.success}, nil
}

// decided says whether the tick was decided before.
func (s *server) decided(j *job, c cronce.Claim) error {
	if j == nil || c.Tick.IsZero() {
		return nil
	}
	var taken []*run
	for _, r := range j.runs {
		switch {
		case !r.Tick.Equal(c.Tick) || r.ID == c.RunID:
		case r.Attempt != c.Attempt && s.flaw != "attempts are one decision":
		case s.flaw == "a claim without the tick" && !r.Live():
		default:
			taken = append(taken, r)
		}
	}
	switch {
	case len(taken) >= c.Slots, len(taken) > 0 && s.flaw == "slots are one decision":
		return &cronce.TakenError{Job: j.Job, Tick: c.Tick, Run: taken[len(taken)-1].Run}
	case j.pruned.After(s.now()) && s.flaw != "a watermark ahead blocks in silence":
		return &cronce.ConfigError{Store: "memory", What: "job " + j.Job + " has a pruning watermark ahead of the clock", Cure: "reset it"}
	case !c.Tick.After(j.pruned):
		return &cronce.TakenError{Job: j.Job, Tick: c.Tick, Run: cronce.Run{Job: j.Job, Tick: c.Tick}}
	}
	return nil
}

// rerun says why a tick is not to be run again.
func (s *server) rerun(j *job, c cronce.Claim, offered time.Time) error {
	var first, alive *run
	lost, again, later := 0, 0, false
	for _, r := range j.runs {
		later = later || r.Tick.After(c.Tick)
		switch {
		case !r.Tick.Equal(c.Tick):
		case r.Attempt > 1:
			again++
		default:
			first = r
			if r.Live() {
				alive = r
			}
			if r.Outcome == cronce.Lost || s.flaw == "what failed is run again" && r.Outcome != "" {
				lost++
			}
		}
	}
	switch {
	case first == nil:
		return &cronce.TakenError{Job: j.Job, Tick: c.Tick, Run: cronce.Run{Job: j.Job, Tick: c.Tick}}
	case again >= lost && alive != nil && s.flaw == "a tick is run again beside its first run":
		return nil
	case again >= lost && alive != nil:
		return &cronce.HeldError{Holder: alive.Run, Offered: offered, Expires: alive.expires()}
	case again >= lost && s.flaw != "each slot is run again", later && s.flaw != "a later tick does not matter":
		return &cronce.TakenError{Job: j.Job, Tick: c.Tick, Run: first.Run}
	}
	return nil
}

// held says what a live run, or one that waits, makes of the claim.
func (s *server) held(j *job, c cronce.Claim, offered time.Time) error {
	var holder *run
	live, reason := false, cronce.SkipOrphans
	for _, r := range j.runs {
		if !r.Live() {
			continue
		}
		if holder == nil {
			holder = r
		}
		live = live || r.granted.After(offered) || s.flaw == "whoever has a lease lives"
		if !r.orphaned || s.flaw == "orphans are runs" {
			reason = cronce.SkipOverlap
		}
	}
	waits := c.Overlap.Policy == cronce.OverlapWait || c.Overlap.Policy == cronce.OverlapReplace
	p := j.place
	mine := p != nil && p.run.ID == c.RunID
	same := p != nil && !mine && !c.Tick.IsZero() && p.run.Tick.Equal(c.Tick)
	if holder == nil {
		switch {
		case p == nil || mine || same || s.flaw == "whoever comes first overtakes the waiter":
			return nil
		case c.CatchUp || !p.granted.After(offered) && s.flaw != "whoever waits lives":
			return &cronce.HeldError{Holder: p.run, Offered: offered, Expires: p.expires}
		}
		return s.skip(j, c, cronce.SkipOverlap, &p.run)
	}
	wait := &cronce.HeldError{Holder: holder.Run, Offered: offered, Expires: holder.expires()}
	if c.CatchUp && s.flaw != "a catch-up tick is skipped" {
		return wait
	}
	if waits && (p == nil || mine) {
		j.place = &place{
			run:     cronce.Run{ID: c.RunID, Job: j.Job, Tick: c.Tick, Holder: c.Holder, Start: offered},
			granted: s.now(), expires: s.now().Add(c.TTL),
		}
		mine = true
	}
	switch {
	case !live, same && waits:
		return wait
	case mine && (s.now().Sub(offered) < c.Overlap.Wait || s.flaw == "a wait never runs out"):
		if c.Overlap.Policy == cronce.OverlapReplace {
			s.replace(j, c)
		}
		return wait
	case mine:
		j.place = nil
	}
	return s.skip(j, c, reason, &holder.Run)
}

// replace asks the runs that live to stop, each once.
func (s *server) replace(j *job, c cronce.Claim) {
	r := &cronce.Request{Kind: cronce.Stop, Job: j.Job, By: "run " + c.RunID, At: s.now()}
	for _, l := range j.runs {
		if l.Live() && (l.stop == nil || s.flaw == "a replacement asks each time") {
			l.stop = r
			r.Runs = append(r.Runs, l.ID)
		}
	}
	if len(r.Runs) > 0 {
		j.requests = append(j.requests, *r)
	}
}

// record decides the tick.
func (s *server) record(j *job, c cronce.Claim) *run {
	r := &run{Run: cronce.Run{ID: c.RunID, Job: j.Job, Tick: c.Tick, Attempt: c.Attempt, Holder: c.Holder, Start: s.now()}}
	if !c.Tick.IsZero() {
		r.Slot = 1
		for slices.ContainsFunc(j.runs, func(o *run) bool {
			return o.Tick.Equal(r.Tick) && o.Attempt == r.Attempt && o.Slot == r.Slot
		}) {
			r.Slot++
		}
	}
	j.runs = append(j.runs, r)
	return r
}

func (s *server) skip(j *job, c cronce.Claim, reason cronce.SkipReason, holder *cronce.Run) error {
	r := s.record(j, c)
	r.Skip = reason
	e := &cronce.SkippedError{Holder: holder}
	if holder != nil {
		r.Held = holder.ID
	}
	if reason == cronce.SkipPaused {
		e.Paused = j.Paused
	}
	e.Run = r.Run
	return e
}

func (s *server) lease(j *job, c cronce.Claim) cronce.Lease {
	r := s.record(j, c)
	r.granted, r.ttl = s.now(), c.TTL
	if c.Overlap.Policy != cronce.OverlapAllow || s.flaw == "runs side by side have fences" {
		switch s.flaw {
		case "fences are counted":
			j.Fence++
		case "fences restart":
			j.Fence = int64(len(j.runs))
		default:
			j.Fence = max(j.Fence+1, s.now().UnixMicro())
		}
		r.Fence = j.Fence
	}
	return cronce.Lease{Run: r.Run, Granted: r.granted, TTL: r.ttl, PreviousSuccess: j.success}
}
