package localstore

import (
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// rerun says why a tick is not to be run again, of which so many runs were by now.
func (s *section) rerun(c cronce.Claim, again int, lives []live, offered time.Time) error {
	firsts, err := s.decisions(c.Tick, 1)
	if err != nil {
		return err
	}
	taken := &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: cronce.Run{Job: c.Job, Tick: c.Tick}}
	lost := 0
	for _, r := range firsts {
		taken.Run = r
		if r.Outcome == cronce.Lost {
			lost++
		}
	}
	if again >= lost {
		for _, l := range lives {
			if slices.ContainsFunc(firsts, func(r cronce.Run) bool { return r.Live() && r.ID == l.run.ID }) {
				return &cronce.HeldError{Holder: l.run, Offered: offered}
			}
		}
		return taken
	}
	if s.st.decidedAfter(c.Tick) {
		return taken
	}
	return nil
}

// decidedAfter tells whether a later tick was decided.
func (s *state) decidedAfter(tick time.Time) bool {
	if slices.ContainsFunc(s.decided, func(r *cronce.Run) bool { return r.Tick.After(tick) }) {
		return true
	}
	after := func(d span) bool { return d.To.After(tick) }
	return slices.ContainsFunc(s.head.Decided, after) || slices.ContainsFunc(s.Forgotten, after)
}
