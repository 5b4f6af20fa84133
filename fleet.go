package cronce

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"
)

// What a Scheduler does only with a store that hosts share.

// now is the store's time, as far as it is known.
func (s *Scheduler) now() time.Time {
	if s.link == nil {
		return time.Now()
	}
	return s.link.now()
}

// storeTime is the store's time at a time of this host's clock.
func (s *Scheduler) storeTime(t time.Time) time.Time {
	if s.link == nil {
		return t
	}
	return s.link.now().Add(-time.Since(t))
}

// meet waits for the store, to go by its clock from then on: what is due is due since
// then. It reports whether ctx goes on.
func (s *Scheduler) meet(ctx context.Context) bool {
	if !s.link.wait(ctx, time.Time{}) {
		return false
	}
	s.timetable.follow(s.link.now)
	return true
}

// staggerOver is the time over which the hosts of a fleet offer a tick.
const staggerOver = 200 * time.Millisecond

// stagger is how long this program waits before it offers a tick: a hash that differs
// by program, job and tick, so that each takes its part of them.
func (s *Scheduler) stagger(job string, tick time.Time) time.Duration {
	if s.link == nil {
		return 0
	}
	me := s.holder()
	h := fnv.New64a()
	fmt.Fprintf(h, "%s|%d|%s|%d", me.Host, me.PID, job, tick.Unix())
	return time.Duration(h.Sum64() % uint64(staggerOver)).Truncate(time.Millisecond)
}

// park keeps a tick for later, or drops it, where it cannot be offered now.
func (s *Scheduler) park(p *planned, tick time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.conflicts {
		return true
	}
	if s.link.isOpen() {
		return false
	}
	if s.passed == nil {
		s.passed = map[string]time.Time{}
	}
	if first, ok := s.passed[p.Job.Name]; !ok || tick.Before(first) {
		s.passed[p.Job.Name] = tick
	}
	return true
}

// repeatUntil is until when a claim that got no answer is made again, by the store's clock;
// zero is without end. Past its start deadline nothing is started. Once a later tick is due,
// one that is to be caught up in any case belongs to the backlog, which is worked off in
// order: of many that are claimed at once when the store is back, others would be skipped.
func (s *Scheduler) repeatUntil(c Claim) (until time.Time) {
	if c.StartDeadline == 0 || c.Tick.IsZero() {
		return until
	}
	until = c.Tick.Add(c.StartDeadline)
	if p := s.plan(c.Job); p != nil && p.schedule != nil && p.Job.Catchup == CatchupAll {
		if next := p.schedule.Next(c.Tick); next.Before(until) {
			until = next
		}
	}
	return until
}

// parkAgain keeps a tick of the schedule for later whose claim got no answer in time. If
// it was decided all the same, that stands.
func (s *Scheduler) parkAgain(c Claim) bool {
	p := s.plan(c.Job)
	if p == nil || p.schedule == nil || c.StartDeadline == 0 || c.Tick.IsZero() {
		return false
	}
	if s.park(p, c.Tick) {
		return true
	}
	// The store came back in this moment.
	if p.Job.Catchup == CatchupAll {
		s.backlog(p, c.Tick.Add(-time.Nanosecond), c.Tick)
		return true
	}
	return false
}

// skewed deals with a tick that lies far ahead of the store's clock, whose time has come by
// what this program knew of that: it is kept until the clocks have been compared.
func (s *Scheduler) skewed(c Claim, err *SkewError) bool {
	s.link.heard(err.Now)
	return s.parkAgain(c)
}

// catchUpAfterwards offers what came due while nothing could be started: the newest
// tick as long as it is not late, earlier ones as the job's catch-up says.
func (s *Scheduler) catchUpAfterwards() {
	s.mu.Lock()
	passed := s.passed
	s.passed = nil
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		s.makeUp(name, passed[name])
	}
}

// makeUpOne is catchUpAfterwards for one job alone, and reports false where there is none.
func (s *Scheduler) makeUpOne() bool {
	s.mu.Lock()
	for name, first := range s.passed {
		delete(s.passed, name)
		s.mu.Unlock()
		s.makeUp(name, first)
		return true
	}
	s.mu.Unlock()
	return false
}

// makeUp offers a job's ticks since the first that could not be offered.
func (s *Scheduler) makeUp(name string, first time.Time) {
	p := s.plan(name)
	if p == nil || p.schedule == nil {
		return
	}
	now := s.now()
	if first.After(now) {
		return // by a clock that was ahead: its time comes again
	}
	newest := newest(p.schedule, first, now)
	if newest.After(first) && p.Job.Catchup != CatchupAll {
		s.report(Event{Kind: EventMissed, Job: name, Tick: first, Until: p.schedule.Prev(newest)})
	}
	switch window := p.Job.window(p.schedule, now); {
	case p.Job.Catchup == CatchupAll:
		from := first
		if limit := now.Add(-window); p.Job.CatchupWindow > 0 && limit.After(from) {
			from = limit
		}
		s.backlog(p, from.Add(-time.Nanosecond), newest)
	case p.Job.Catchup == CatchupLast && newest.After(now.Add(-window)):
		s.backlog(p, newest.Add(-time.Nanosecond), newest)
	default:
		s.due(name, newest)
	}
}

// conflict stops offering a job of which the store keeps another definition.
func (s *Scheduler) conflict(job string, err *ConflictError) {
	s.mu.Lock()
	p := s.planned[job]
	tell := p != nil && p.definition == err.Have && !p.conflicts
	if tell {
		p.conflicts = true
	}
	s.mu.Unlock()
	if tell {
		s.report(Event{Kind: EventConflict, Job: job, Err: err})
	}
}

// conflicting reports whether the store keeps another definition of the job.
func (s *Scheduler) conflicting(p *planned) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.conflicts
}

// lookAtConflicts offers jobs again once the store keeps their definition again.
func (s *Scheduler) lookAtConflicts(ctx context.Context) {
	for pause(ctx, measureEvery) {
		s.mu.Lock()
		var jobs []*planned
		for _, p := range s.planned {
			if p.conflicts {
				jobs = append(jobs, p)
			}
		}
		s.mu.Unlock()
		for _, p := range jobs {
			patient, cancel := context.WithTimeout(ctx, lookPatience)
			state, _, err := s.Store.Job(patient, p.Job.Name)
			cancel()
			if err != nil || state.Definition != p.definition {
				continue
			}
			s.mu.Lock()
			p.conflicts = false
			s.mu.Unlock()
			s.report(Event{Kind: EventAgreed, Job: p.Job.Name})
		}
	}
}
