package rows

import (
	"math/rand/v2"
	"time"
)

// search remembers how to look for rows.
type search struct {
	size  int // of the next claim
	batch int
	last  time.Duration // when the last claim got rows

	// low is where the last claim ended: what is before it is done, and a database that cannot
	// forget old versions yet (somebody reads an old snapshot) would go through all of it. What comes
	// in there later is found by a whole search, about each second; where that takes long, less
	// often, so that it is a twentieth of the time at most.
	low   any
	whole time.Duration // when a whole search is due

	swept time.Duration // when those of dead workers were last looked for

	tries int           // that got nothing although they should have
	said  string        // why, as it was logged
	since time.Duration // the first of them
	wait  time.Duration // before the next
}

func newSearch(d *Drainer) *search {
	return &search{size: min(2*d.options.Workers, d.options.Batch), batch: d.options.Batch}
}

// again reports whether to try once more: not when tries have been in vain for so long.
func (s *search) again(patience time.Duration) bool {
	if s.tries == 0 {
		s.since, s.wait = now(), 10*time.Millisecond
	}
	s.tries++
	s.wait = min(2*s.wait, time.Second)
	s.wait = s.wait/2 + rand.N(s.wait/2)
	return now()-s.since < patience
}

func (s *search) found() { s.tries, s.said = 0, "" }

// claimRows claims rows. Where there are none it looks for those of dead workers, and for what others have locked.
func (w *drain) claimRows() (c catch) {
	s := w.search
	begin := now()
	asked := begin
	defer func() {
		c.took = now() - asked
		if len(c.items) == 0 {
			return
		}
		// Rows that wait here for long are not there for others; claims that are used up at once are too small.
		switch used := begin - s.last; {
		case s.last > 0 && used > 5*time.Second:
			s.size = max(s.size/2, min(w.options.Workers, s.batch))
		case used < time.Second:
			s.size = min(2*s.size, s.batch)
		}
		if most := len(c.items) * maxWeight / max(weight(c.items), 1); s.size > most {
			s.size = max(most, min(w.options.Workers, s.batch))
		}
		s.last, s.low = now(), c.items[len(c.items)-1].order
	}()
	if s.swept == 0 || begin-s.swept > w.options.Lease/2 {
		if c.err = w.sweep(&c); c.err != nil {
			return c
		}
	}
	if s.low != nil && begin < s.whole {
		if c.items, c.err = w.get(s.low); c.err != nil || len(c.items) > 0 {
			return c
		}
		// Is there anything before? Looking is cheaper than claiming nothing.
		if c.waiting, c.err = w.look(); c.err != nil {
			return c
		}
	} else {
		c.waiting = true
	}
	if c.waiting {
		begin = now()
		if c.items, c.err = w.get(nil); c.err != nil || len(c.items) > 0 {
			c.waiting = false
			s.whole = now() + max(time.Second, 20*(now()-begin))
			return c
		}
	}
	before := c.reclaimed.pending
	if c.err = w.sweep(&c); c.err != nil {
		return c
	}
	if c.reclaimed.pending > before {
		c.waiting = false
		c.items, c.err = w.get(nil)
		return c
	}
	if c.waiting {
		c.waiting, c.err = w.look()
	}
	return c
}

// maxWeight is how many bytes of values a claim should have: rows wait in memory.
const maxWeight = 16 << 20

// weight is about how many bytes the values of rows take.
func weight(items []*item) (n int) {
	for _, it := range items {
		for _, v := range it.row.Values {
			switch v := v.(type) {
			case []byte:
				n += len(v)
			case string:
				n += len(v)
			}
		}
	}
	return n
}

// look reports whether rows are due, whoever may have them locked.
func (w *drain) look() (bool, error) {
	ctx, cancel := w.statementTime()
	defer cancel()
	return w.waiting(ctx, w.claims)
}

// sweep takes back the rows of dead workers.
func (w *drain) sweep(c *catch) error {
	ctx, cancel := w.statementTime()
	defer cancel()
	w.search.swept = now()
	found, err := w.reclaim(ctx, w.claims)
	c.reclaimed.pending += found.pending
	c.reclaimed.unknown += found.unknown
	c.reclaimed.dead += found.dead
	return err
}

// get is one claim.
func (w *drain) get(from any) ([]*item, error) {
	ctx, cancel := w.statementTime()
	defer cancel()
	return w.claim(ctx, w.claims, w.search.size, from)
}
