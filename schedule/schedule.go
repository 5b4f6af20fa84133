// Package schedule turns a cron expression and a time zone into ticks: the
// instants a job is due.
//
// It is pure: it reads no clock, no file and no environment, so that a
// schedule has the same ticks on every host and in every program. The rules,
// and where they differ from other crons, are in docs/schedules.md.
//
// A tick is a whole second from 1970 through 2199 (UTC). Outside of those
// years a schedule has no ticks.
package schedule

import (
	"time"
)

// Ticks lie in [minTick, maxTick), in Unix seconds.
const (
	minTick = 0
	maxTick = 7258118400 // 2200-01-01T00:00:00Z
	maxYear = 2200       // on the wall clock, which may be ahead of UTC
	minYear = 1969       // or behind it
)

// noTick is what the searches return when there is nothing to find.
const noTick = -1 << 62

// A Schedule is a set of ticks, in a time zone. It is made by [Parse], never
// changes, and may be used by any number of goroutines.
type Schedule struct {
	parts []part
	zone  *time.Location
	text  string
}

// A part is one of the alternatives that " | " joins: an expression, or a
// period.
type part struct {
	every int64 // period in seconds, anchored at the Unix epoch; 0 for an expression
	wild  bool  // minute or hour starts with "*": every matching real instant counts
	fields
}

// Next returns the first tick strictly after t, in the schedule's zone, or the
// zero Time if there is none through 2199.
func (s *Schedule) Next(t time.Time) time.Time {
	from := min(t.Unix(), maxTick) + 1 // the first whole second after t
	best := int64(noTick)
	for i := range s.parts {
		if u := s.parts[i].next(from, s.zone); u != noTick && (best == noTick || u < best) {
			best = u
		}
	}
	return s.at(best)
}

// Prev returns the last tick strictly before t, in the schedule's zone, or the
// zero Time if there is none since 1970.
func (s *Schedule) Prev(t time.Time) time.Time {
	from := max(t.Unix(), minTick-1) // the last whole second before t
	if t.Nanosecond() == 0 {
		from--
	}
	best := int64(noTick)
	for i := range s.parts {
		if u := s.parts[i].prev(from, s.zone); u > best {
			best = u
		}
	}
	return s.at(best)
}

// Interval returns Next(t) - Prev(t): the time between the two ticks around t.
// If t is itself a tick, that spans the intervals on both of its sides. It is
// zero when there is no tick on either side.
func (s *Schedule) Interval(t time.Time) time.Duration {
	next, prev := s.Next(t), s.Prev(t)
	if next.IsZero() || prev.IsZero() {
		return 0
	}
	return next.Sub(prev)
}

// String returns the schedule's text with its white space made even: one space
// between fields, and " | " between alternatives. Nothing else is rewritten,
// and it parses (with the same Options) to the same schedule, so it can stand
// for a job's definition.
func (s *Schedule) String() string { return s.text }

// Zone returns the time zone in which the expression is read; never nil.
func (s *Schedule) Zone() *time.Location { return s.zone }

func (s *Schedule) at(u int64) time.Time {
	if u == noTick {
		return time.Time{}
	}
	return time.Unix(u, 0).In(s.zone)
}

// next returns the part's first tick at or after the Unix second from.
func (p *part) next(from int64, zone *time.Location) int64 {
	from = max(from, minTick)
	u := int64(noTick)
	switch {
	case from >= maxTick:
	case p.every > 0:
		u = (from + p.every - 1) / p.every * p.every
	default:
		u = p.nextOnClock(from, zone)
	}
	if u >= maxTick {
		return noTick
	}
	return u
}

// prev returns the part's last tick at or before the Unix second from.
func (p *part) prev(from int64, zone *time.Location) int64 {
	from = min(from, maxTick-1)
	switch {
	case from < minTick:
		return noTick
	case p.every > 0:
		return from / p.every * p.every
	}
	if u := p.prevOnClock(from, zone); u >= minTick {
		return u
	}
	return noTick
}
