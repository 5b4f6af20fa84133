package cronce

import "time"

// A tick whose run was lost is run once more, where its job says on-lost=rerun: as
// attempt 2 of the tick, while no later tick is due. That this happens at most once
// among all programs, and only when the first run is lost, is for the store to say: a
// claim of attempt 2 is held while the first run may live. So whoever saw that a tick
// was taken by another makes that claim, and again when the lease is to have ended.

// rerunLook is how often a run is looked at whose lease does not expire.
const rerunLook = time.Second

// watchNewest watches over the tick that was due last when the store was told of the
// job: whoever ran it may be dead by now.
func (s *Scheduler) watchNewest(p *planned) {
	if p.schedule != nil && p.Job.OnLost == OnLostRerun {
		s.watchOver(p.Job.Name, p.schedule.Prev(s.now().Add(time.Nanosecond)))
	}
}

// watchOver sees to it that a tick which is another's, or whose end could not be
// recorded, is run again if its run is lost and the job says so.
func (s *Scheduler) watchOver(job string, tick time.Time) {
	p := s.plan(job)
	if p == nil || p.schedule == nil || p.Job.OnLost != OnLostRerun || tick.IsZero() {
		return
	}
	next := p.schedule.Next(tick)
	if !p.schedule.Prev(tick.Add(time.Nanosecond)).Equal(tick) || !tick.After(s.NotBefore) {
		return // it is none of the schedule's, or one that is not to be made up for
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := watched{job, tick.Unix()}
	if s.watched[key] {
		return
	}
	if s.watched == nil {
		s.watched = map[watched]bool{}
	}
	s.watched[key] = true
	for range max(1, p.Slots(tick)) {
		c := p.claim(tick, s.holder())
		c.Attempt, c.CatchUp = 2, true
		// Not beside a later tick, also where that has not been decided yet.
		c.StartDeadline = next.Sub(tick)
		s.runs.Go(func() {
			s.watch(c, next)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.watched, key)
		})
	}
}

// watched names a tick that is watched over.
type watched struct {
	job  string
	tick int64
}

// watch makes the claim of a re-run until that is decided or the next tick is due.
func (s *Scheduler) watch(c Claim, next time.Time) {
	for {
		if s.link != nil && !s.link.wait(s.ctx, next) {
			return
		}
		p := s.plan(c.Job)
		if p == nil || p.definition != c.Definition || s.conflicting(p) || !next.After(s.now()) {
			return
		}
		held := s.offer(c, p.Work)
		if held == nil {
			return
		}
		wait := rerunLook
		if !held.Expires.IsZero() {
			wait = max(wait, held.Expires.Sub(s.now())) + s.stagger(c.Job, next)
		}
		if !pause(s.ctx, min(wait, next.Sub(s.now()))) {
			return
		}
	}
}
