package cronce

import (
	"slices"
	"time"
)

// catchUp offers the ticks before those of the timetable, as the job's policy
// says. What was decided meanwhile is taken, and nothing happens.
func (s *Scheduler) catchUp(p *planned, state JobState) {
	if p.schedule == nil || p.Job.Catchup == CatchupSkip {
		return
	}
	to := s.timetable.since(p.entry)
	from := to.Add(-p.Job.window(p.schedule, to))
	for _, t := range []time.Time{state.Since, state.Resumed} {
		if t.After(from) {
			from = t
		}
	}
	s.backlog(p, from, to)
}

// backlog offers the ticks after from and up to to, in order, one after the
// other has ended; of CatchupLast only the last.
func (s *Scheduler) backlog(p *planned, from, to time.Time) {
	most := MaxCatchup
	if p.Job.Catchup == CatchupLast {
		most = 1
	}
	var ticks []time.Time
	for tick := p.schedule.Prev(to.Add(time.Nanosecond)); tick.After(from) && len(ticks) < most; tick = p.schedule.Prev(tick) {
		ticks = append(ticks, tick)
	}
	slices.Reverse(ticks)
	if len(ticks) == 0 {
		return
	}
	s.runs.Go(func() {
		for _, tick := range ticks {
			for range p.Slots(tick) {
				c := p.claim(tick, s.holder())
				c.StartDeadline = 0 // the window is the bound
				if !tick.After(s.NotBefore) {
					c.StartDeadline = 1 // passed
				}
				c.CatchUp = p.Job.Catchup == CatchupAll && !p.schedule.Next(tick).After(s.now())
				for s.offer(c, p.Work) != nil {
					if !pause(s.ctx, lookAgain) {
						s.left(c.Job, tick)
						break
					}
				}
			}
		}
	})
}

// lookAgain is how often a job that is held is offered a tick of its backlog:
// more often than any job is due, or it might always be found at work.
const lookAgain = 300 * time.Millisecond

// missed deals with ticks that passed while this process could not look at the
// clock. The newest is offered by the timetable.
func (s *Scheduler) missed(e *Entry, first, last time.Time) {
	p := s.plan(e.Job)
	if p != nil && s.link != nil && s.park(p, first) {
		return // the store is away, or its clock was set and is not to be trusted
	}
	if p != nil && p.Job.Catchup == CatchupAll {
		s.backlog(p, first.Add(-time.Nanosecond), last)
		return
	}
	s.report(Event{Kind: EventMissed, Job: e.Job, Tick: first, Until: last})
}
