package rows

import "time"

// Rate is how many rows a Drain starts in a time at most; the zero value is no limit. They
// are started evenly, not all at its beginning.
type Rate struct {
	Rows int
	Per  time.Duration
}

// burst is how much may be made up for where a turn takes longer than the rate's pause between two rows.
const burst = 50 * time.Millisecond

// pacer keeps to a rate.
type pacer struct {
	every time.Duration // between two starts; 0: no limit
	next  time.Duration // when the next one is due, on the clock of leases
	clock func() time.Duration
}

func newPacer(r Rate) *pacer {
	if r.Rows <= 0 || r.Per <= 0 {
		return &pacer{}
	}
	return &pacer{every: max(r.Per/time.Duration(r.Rows), 1), clock: now}
}

// wait is how long it is until a row may be started.
func (p *pacer) wait() time.Duration {
	if p.every == 0 {
		return 0
	}
	return max(p.next-p.clock(), 0)
}

// take returns how many of so many rows may be started now, and counts them as started.
func (p *pacer) take(want int) int {
	if p.every == 0 {
		return want
	}
	now := p.clock()
	p.next = max(p.next, now-burst/p.every*p.every)
	if now < p.next {
		return 0
	}
	n := min(want, int((now-p.next)/p.every)+1)
	p.next += time.Duration(n) * p.every
	return n
}
