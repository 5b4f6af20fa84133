package schedule

import "time"

// An expression speaks of wall-clock times, a tick is an instant. The clock of
// a zone is a row of periods with a constant offset from UTC; between two of
// them the wall clock jumps forward (a gap: times that never show) or back (an
// overlap: times that show twice). In this file u is an instant in Unix
// seconds, w a wall-clock time in seconds since 1970-01-01T00:00:00 on that
// wall, and w = u + offset.

const (
	// A forward jump of more than maxGap is a day that never was (Samoa in
	// December 2011 crossed the date line): what was due then is not made up.
	maxGap = 3 * 3600

	// No two offsets that a zone ever had are further apart than spread. The
	// widest in the tz database are -15:56:08 and +15:13:42 (Manila, Metlakatla).
	spread = 36 * 3600
)

// A period is a stretch of time [start, end) during which a zone keeps one
// offset. Neighbours may have the same offset.
type period struct {
	start, end int64
	offset     int64
}

const (
	always = 1 << 60 // the end of a period that has none; -always is the start
	day    = 24 * 3600
)

// periodAt returns the period of the zone that holds the instant u.
func periodAt(u int64, zone *time.Location) period {
	t := time.Unix(u, 0).In(zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	p := period{-always, always, int64(offset)}
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
		if p.end <= u {
			// Beyond the transitions written in the zone's data, package time cuts
			// periods at the year's end, and takes every year for 365 days long: on
			// the last day of a leap year the end that it names is past.
			p.end += day
		}
	}
	return p
}

// highest returns the highest wall-clock time that was passed before the
// period p: the first one that can still be new in p, if p shows it.
func (p period) highest(zone *time.Location) int64 {
	if p.start == -always {
		return -always
	}
	h := int64(-always)
	for q := p; q.start > p.start-spread; {
		end := q.start
		q = periodAt(end-1, zone)
		h = max(h, end+q.offset)
	}
	return h
}

// inGap reports whether a time of an expression that fires once per wall-clock
// time lies in the gap just before p, so that p's first instant is its tick.
// passed is p.highest.
func (p *part) inGap(q period, passed int64, zone *time.Location) bool {
	first := q.start + q.offset
	if q.start == -always || passed >= first {
		return false
	}
	if q.offset-periodAt(q.start-1, zone).offset > maxGap {
		return false
	}
	w := p.fields.next(passed)
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
		q := periodAt(u, zone)
		from := u + q.offset
		if !p.wild && u < q.start+spread {
			passed := q.highest(zone)
			if u == q.start && p.inGap(q, passed, zone) {
				return u
			}
			from = max(from, passed)
		}
		w := p.fields.next(from)
		if w == noTick {
			return noTick
		}
		if w-q.offset < q.end {
			return w - q.offset
		}
		// Not in this period. What matches next is at w, so whole periods before
		// it can be left out; but close to a change the wall clock may have shown
		// times below from once more, so leave out only what is clear of that.
		far := w - q.offset - spread
		if far > q.end && q.end-u >= spread {
			u = far
		} else {
			u = q.end
		}
	}
	return noTick
}

// prevOnClock returns the last tick at or before u, for an expression. See
// nextOnClock.
func (p *part) prevOnClock(u int64, zone *time.Location) int64 {
	for u >= minTick {
		q := periodAt(u, zone)
		first := q.start + q.offset
		w := p.fields.prev(u + q.offset)
		if p.wild {
			if w == noTick {
				return noTick
			}
			if w >= first {
				return w - q.offset
			}
		} else if w >= first+spread {
			return w - q.offset
		} else {
			passed := q.highest(zone)
			if w != noTick && w >= max(first, passed) {
				return w - q.offset
			}
			if p.inGap(q, passed, zone) {
				return q.start
			}
			if w == noTick {
				return noTick
			}
		}
		far := w - q.offset + spread
		if far < q.start && u-q.start >= spread {
			u = far
		} else {
			u = q.start - 1
		}
	}
	return noTick
}
