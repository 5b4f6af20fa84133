package cronce

import (
	"context"
	"fmt"
	"time"
)

// afterword puts on record how a run ended that the store knows as lost: its end could not be
// recorded while it had its lease. It is told when the store can be reached again, if this
// program lives to see that. Nothing is decided by it.
func (s *Scheduler) afterword(r Run) {
	if s.link == nil || r.Outcome == "" || r.Outcome == Lost {
		return
	}
	s.runs.Go(func() {
		for s.link.wait(s.ctx, time.Time{}) && !s.told(r) && pause(s.ctx, longestPause) {
		}
	})
}

// told makes one attempt, and reports whether nothing is left to be said.
func (s *Scheduler) told(r Run) bool {
	ctx, cancel := context.WithTimeout(s.ctx, lookPatience)
	defer cancel()
	kept, known, err := s.Store.Run(ctx, r.ID)
	if err == nil && known && (kept.Outcome == "" || kept.Outcome == Lost) {
		why := fmt.Sprintf("%s after %s", r.Outcome, r.End.Sub(r.Start).Round(100*time.Millisecond))
		if r.Message != "" {
			why += ": " + r.Message
		}
		err = s.Store.Request(ctx, Request{Kind: Ended, Job: r.Job, Runs: []string{r.ID}, By: s.holder().String(), Why: why})
	}
	return Answered(err)
}
