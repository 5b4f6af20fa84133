package schedule

import "time"

// An expression speaks of wall-clock times, a tick is an instant. The clock of
// a zone is a row of periods with a constant offset from UTC; between two of
// them the wall clock jumps forward (a gap: times that never show) or back (an
// overlap: times that show twice). In this file u and v are instants in Unix
// seconds, w is a wall-clock time in seconds since 1970-01-01T00:00:00 on that
// wall, and w = u + offset.

const (
	day = 24 * 3600

	// A forward jump of more than maxGap is a day that never was (Samoa in
	// December 2011 crossed the date line): what was due then is not made up.
	maxGap = 3 * 3600

	// No two offsets that a zone ever had are further apart than spread. The
	// widest in the tz database are -15:56:08 (Manila) and +15:13:42
	// (Metlakatla). So what the wall clock shows at u, it has not shown before
	// u-spread, and will not show after u+spread.
	spread = 36 * 3600

	// The end of a period that has none, and what the wall clock has passed
	// where nothing near has changed.
	always = 1 << 60
)

// A period is a stretch of time, until end, during which a zone keeps one
// offset. The next one may have the same.
type period struct {
	end    int64
	offset int64
}

// periodAt returns the period of the zone that holds the instant u.
//
// It has no start: the one that package time would give can be too early. Just
// after the last change that is written in a zone's data (there are such
// periods in Ciudad Juárez in 2022 and in Metlakatla in 2019), it is computed
// from the rule for the years to come, which was not in force before. The end
// is right, so those who need to know where a period starts come from before.
func periodAt(u int64, zone *time.Location) period {
	t := time.Unix(u, 0).In(zone)
	_, end := t.ZoneBounds()
	_, offset := t.Zone()
	p := period{always, int64(offset)}
	if !end.IsZero() {
		p.end = end.Unix()
		if p.end <= u {
			// By the rule for the years to come, package time cuts periods at the
			// year's end too, and takes every year for 365 days long: on the last
			// day of a leap year the end that it gives is past.
			p.end += day
		}
	}
	return p
}

// gap reports whether a matching time lies in the gap between the periods a
// and b, so that the start of b is a tick. The wall clock has passed all times
// before passed.
func (f *fields) gap(a, b period, passed int64) bool {
	first := a.end + b.offset
	if passed >= first || b.offset-a.offset > maxGap {
		return false
	}
	w := f.next(passed)
	return w != noTick && w < first
}

// nextOnClock returns the first tick at or after u, for an expression.
//
// A wild expression has a tick at each instant whose wall-clock time matches.
// Any other has one at the first instant at which the wall clock has reached a
// matching time: that is the time itself on its first pass, or the end of the
// gap that swallowed it.
func (p *part) nextOnClock(u int64, zone *time.Location) int64 {
	for u < maxTick {
		// Find the period at u and, where it matters, what was before it.
		from := u
		if !p.wild {
			from -= spread
		}
		passed := int64(-always)
		q := periodAt(from, zone)
		for q.end <= u {
			passed = max(passed, q.end+q.offset)
			r := periodAt(q.end, zone)
			if q.end == u && !p.wild && p.gap(q, r, passed) {
				return u
			}
			q = r
		}

		// Go on from there.
		for {
			w := u + q.offset
			if !p.wild {
				w = max(w, passed)
			}
			w = p.fields.next(w)
			if w == noTick {
				return noTick
			}
			v := w - q.offset
			if v < q.end {
				return v
			}
			// Not in this period. No time before w matches, so the periods before w
			// can be left out; but just after a change the wall clock may show times
			// from before u once more, so leave out only what is clear of that.
			if v-spread > q.end && q.end-u >= spread {
				u = v - spread
				break
			}
			passed = max(passed, q.end+q.offset)
			r := periodAt(q.end, zone)
			if !p.wild && p.gap(q, r, passed) {
				return q.end
			}
			u, q = q.end, r
		}
	}
	return noTick
}

// prevOnClock returns the last tick at or before u, for an expression. See
// nextOnClock.
func (p *part) prevOnClock(u int64, zone *time.Location) int64 {
	for u >= minTick {
		// Where would it be, if the clock never changed?
		_, offset := time.Unix(u, 0).In(zone).Zone()
		w := p.fields.prev(u + int64(offset))
		if w == noTick {
			return noTick
		}
		v := w - int64(offset)

		// Look from there to u; or, if that is long, in the time before u in which
		// the wall clock may have shown times after u's.
		low := v
		if u-v > 10*day {
			low = u - spread
		}
		if found := p.lastBetween(low, u, zone); found != noTick {
			return found
		}
		if low == v {
			u = v - 1
		} else {
			u = v + spread
		}
	}
	return noTick
}

// lastBetween returns the last tick from low to high, both included.
func (p *part) lastBetween(low, high int64, zone *time.Location) int64 {
	found := int64(noTick)
	passed := int64(-always)
	start := low // of the part of the period q that is looked at
	if !p.wild {
		start -= spread
	}
	for q := periodAt(start, zone); ; {
		w := p.fields.prev(min(high, q.end-1) + q.offset)
		if w >= start+q.offset && (p.wild || w >= passed) {
			found = w - q.offset
		}
		if q.end > high {
			break
		}
		passed = max(passed, q.end+q.offset)
		r := periodAt(q.end, zone)
		if !p.wild && p.gap(q, r, passed) {
			found = q.end
		}
		start, q = q.end, r
	}
	if found < low {
		return noTick
	}
	return found
}
