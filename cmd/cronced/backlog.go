package main

import (
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

const (
	behindAfter = time.Second      // how long a tick waits for its turn before that is said
	behindAgain = 10 * time.Second // how often it is said again while it lasts
)

// backlog says when more is due than can be started.
type backlog struct {
	said time.Time // when last, zero while nothing waits for long
}

// look is called about once a second.
func (b *backlog) look(scheduler *cronce.Scheduler, out *lines) {
	ticks, waited := scheduler.Behind()
	switch {
	case waited >= behindAfter && time.Since(b.said) >= behindAgain:
		b.said = time.Now()
		out.say("serve", "behind     %s due and waiting for their turn, the first for %s", count(ticks, "tick"), cli.Brief(waited))
	case waited < behindAfter && !b.said.IsZero():
		b.said = time.Time{}
		out.say("serve", "caught up  no tick has been waiting for %s", cli.Brief(behindAfter))
	}
}
