package schedule

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The oracle finds ticks the slow way: it looks at each minute (or second) of
// a stretch of time, reads the zone's clock, and asks of each field, as text,
// whether it matches. It shares no code with the package, and follows the
// rules as docs/schedules.md words them. It takes only what Parse accepts.
type oracle struct {
	parts []*oraclePart
	zone  *time.Location
}

type oraclePart struct {
	every      int64
	fields     [6]string // second to day of the week
	seconds    bool      // the expression has seconds
	wild, both bool
	name       string
	clock      [3][60]bool
	days       map[time.Time]bool
}

func newOracle(expr string, o Options) *oracle {
	out := &oracle{zone: o.Zone}
	for text := range strings.SplitSeq(expr, "|") {
		text = strings.Join(strings.Fields(text), " ")
		p := &oraclePart{name: o.Name, days: make(map[time.Time]bool)}
		out.parts = append(out.parts, p)
		if duration, ok := strings.CutPrefix(text, "@every "); ok {
			d, err := time.ParseDuration(duration)
			if err != nil {
				panic(err)
			}
			p.every = int64(d / time.Second)
			continue
		}
		if long, ok := map[string]string{
			"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
			"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
		}[text]; ok {
			text = long
		}
		fields := strings.Fields(strings.ToUpper(text))
		if p.seconds = len(fields) == 6; !p.seconds {
			fields = append([]string{"0"}, fields...)
		}
		p.fields = [6]string(fields)
		star := func(i int) bool { return strings.HasPrefix(fields[i], "*") }
		p.wild = star(1) || star(2)
		p.both = star(3) || star(5)
		for i := range p.clock {
			for v := range []int{60, 60, 24}[i] {
				p.clock[i][v] = p.matches(i, v, time.Time{})
			}
		}
	}
	return out
}

// matches reports whether a field matches a value on a date.
func (p *oraclePart) matches(field, v int, date time.Time) bool {
	for item := range strings.SplitSeq(p.fields[field], ",") {
		if p.itemMatches(field, item, v, date) || field == 5 && v == 0 && p.itemMatches(field, item, 7, date) {
			return true
		}
	}
	return false
}

func (p *oraclePart) itemMatches(field int, item string, v int, date time.Time) bool {
	number := func(s string) int {
		if i := slices.Index(strings.Fields("SUN MON TUE WED THU FRI SAT"), s); i >= 0 {
			return i
		}
		if i := slices.Index(strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"), s); i >= 0 {
			return i + 1
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			panic(fmt.Sprintf("oracle: %q in %q", s, item))
		}
		return n
	}
	low := []int{0, 0, 0, 1, 1, 0}[field]
	high := []int{59, 59, 23, 31, 12, 7}[field]

	if field == 3 {
		last := date.AddDate(0, 1, -date.Day()).Day() // of the month
		day, w := strings.CutSuffix(item, "W")
		want := 0
		if rest, ok := strings.CutPrefix(day, "L"); ok {
			want = last
			if rest != "" {
				want -= number(rest[1:])
			}
		} else if w {
			want = number(day)
		}
		switch {
		case want < 0 || want > last:
			return false
		case w && want > 0:
			return v == closestWorkday(date, want, last)
		case want > 0:
			return v == want
		case strings.HasPrefix(item, "L"):
			return false
		}
	}
	if field == 5 {
		if day, ok := strings.CutSuffix(item, "L"); ok {
			return v == number(day) && date.AddDate(0, 0, 7).Month() != date.Month()
		}
		if day, nth, ok := strings.Cut(item, "#"); ok {
			return v == number(day) && (date.Day()+6)/7 == number(nth)
		}
	}
	span, step, stepped := strings.Cut(item, "/")
	every := 1
	if stepped {
		every = number(step)
	}
	if rest, ok := strings.CutPrefix(span, "H"); ok {
		high = []int{59, 59, 23, 28, 12, 6}[field]
		if rest != "" {
			from, to, _ := strings.Cut(strings.Trim(rest, "()"), "-")
			low, high = number(from), number(to)
		}
		n := uint64(high - low + 1)
		hash := oracleHash(p.name, field)
		if !stepped {
			return v == low+int(hash%n)
		}
		low += int(hash % min(n, uint64(every)))
	} else if from, to, ok := strings.Cut(span, "-"); ok {
		low, high = number(from), number(to)
	} else if span != "*" {
		return v == number(span)
	}
	return low <= v && v <= high && (v-low)%every == 0
}

// closestWorkday looks for the day from Monday to Friday that is closest to a
// day of date's month, which has last days.
func closestWorkday(date time.Time, day, last int) int {
	best := 0
	for d := 1; d <= last; d++ {
		switch date.AddDate(0, 0, d-date.Day()).Weekday() {
		case time.Saturday, time.Sunday:
			continue
		}
		if best == 0 || max(d-day, day-d) < max(best-day, day-best) {
			best = d
		}
	}
	return best
}

func oracleHash(name string, field int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name + "\x00" + []string{"second", "minute", "hour", "day-of-month", "month", "day-of-week"}[field]))
	k := h.Sum64()
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// due reports whether a wall-clock time, written as a time in UTC, matches.
func (p *oraclePart) due(wall time.Time) bool {
	return p.clock[0][wall.Second()] && p.clock[1][wall.Minute()] && p.clock[2][wall.Hour()] && p.dueOn(wall)
}

func (p *oraclePart) dueOn(wall time.Time) bool {
	date := wall.Truncate(24 * time.Hour)
	due, known := p.days[date]
	if !known {
		dom := p.matches(3, date.Day(), date)
		dow := p.matches(5, int(date.Weekday()), date)
		due = p.matches(4, int(date.Month()), date) && (dom && dow || !p.both && (dom || dow))
		p.days[date] = due
	}
	return due
}

// ticks returns the ticks from one Unix second to another, both included.
func (o *oracle) ticks(from, to int64) []int64 {
	var all []int64
	for _, p := range o.parts {
		if p.every > 0 {
			for u := from; u <= to; u++ {
				if u%p.every == 0 {
					all = append(all, u)
				}
			}
			continue
		}
		all = append(all, p.ticks(from, to, o.zone)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (p *oraclePart) ticks(from, to int64, zone *time.Location) []int64 {
	// Start early enough to have seen the first pass: since 1970 no clock went
	// back further than Vostok's, by 7 hours.
	start := from - 8*3600
	step := int64(60)
	if p.seconds {
		step = 1
	}
	for u := start; u <= to; u += 3600 {
		if offsetAt(u, zone)%60 != 0 {
			step = 1 // so that minutes do not begin with a Unix minute
		}
	}
	start -= start % step

	var ticks []int64
	seen := make(map[time.Time]bool)
	last := wallAt(start-step, zone)
	date, quiet := -1, false // no day near that day of the month is due
	for u := start; u <= to; u += step {
		wall := wallAt(u, zone)
		if wall.Day() != date {
			date = wall.Day()
			quiet = !p.dueOn(wall.AddDate(0, 0, -1)) && !p.dueOn(wall) && !p.dueOn(wall.AddDate(0, 0, 1)) && !p.dueOn(wall.AddDate(0, 0, 2))
		}
		if quiet {
			u += 20*3600 - step // nothing can come in the next hours
			last = wallAt(u, zone)
			continue
		}
		due := false
		switch {
		case p.wild:
			// It fires at every matching real instant.
			due = p.due(wall)
		case p.due(wall) && !seen[wall]:
			// Any other fires once per wall-clock time: at its first pass.
			due = true
			seen[wall] = true
		default:
			// A time in the gap fires at the first instant after it, but a jump of
			// more than three hours is a day that never was.
			expected := last.Add(time.Duration(step) * time.Second)
			if jump := wall.Sub(expected); jump <= 3*time.Hour {
				for w := expected; w.Before(wall); w = w.Add(time.Duration(step) * time.Second) {
					due = due || p.due(w)
				}
			}
		}
		if due && u >= from {
			ticks = append(ticks, u)
		}
		last = wall
	}
	return ticks
}

func offsetAt(u int64, zone *time.Location) int {
	_, offset := time.Unix(u, 0).In(zone).Zone()
	return offset
}

// wallAt returns what the zone's clock shows, written as a time in UTC.
func wallAt(u int64, zone *time.Location) time.Time {
	return time.Unix(u+int64(offsetAt(u, zone)), 0).UTC()
}

// checkAround holds Next and Prev at one instant against the oracle and
// against each other.
func checkAround(t *testing.T, s *Schedule, o *oracle, at time.Time) {
	t.Helper()
	// How far the oracle looks; a tick further away is looked at from close by.
	reach := int64(3 * 24 * 3600)
	for _, p := range s.parts {
		if p.every == 0 && p.second != 1 {
			reach = 2 * 3600
		}
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%q in %s at %s: %s", s, s.Zone(), at.UTC().Format(time.RFC3339Nano), fmt.Sprintf(format, args...))
	}

	from := at.Unix() + 1
	next := s.Next(at)
	switch {
	case next.IsZero():
		if got := o.ticks(from, from+reach); len(got) > 0 && got[0] < maxTick {
			fail("Next found none, the oracle %s", utc(got))
		}
	case !next.After(at):
		fail("Next is %s", next.UTC())
	case next.Unix() <= from+reach:
		if got := o.ticks(from, next.Unix()); len(got) != 1 || got[0] != next.Unix() {
			fail("Next is %s, the oracle has %s", next.UTC(), utc(got))
		}
	default:
		if got := o.ticks(from, from+reach); len(got) > 0 {
			fail("Next is %s, the oracle has %s", next.UTC(), utc(got))
		}
		if got := o.ticks(next.Unix()-reach, next.Unix()); len(got) != 1 || got[0] != next.Unix() {
			if len(got) == 0 || got[len(got)-1] != next.Unix() || got[0] >= from && len(got) > 1 {
				fail("Next is %s, the oracle has %s", next.UTC(), utc(got))
			}
		}
	}

	from = at.Unix()
	if at.Nanosecond() == 0 {
		from--
	}
	prev := s.Prev(at)
	switch {
	case prev.IsZero():
		if got := o.ticks(max(from-reach, 0), from); len(got) > 0 {
			fail("Prev found none, the oracle %s", utc(got))
		}
	case !prev.Before(at):
		fail("Prev is %s", prev.UTC())
	case prev.Unix() >= from-reach:
		if got := o.ticks(prev.Unix(), from); len(got) != 1 || got[0] != prev.Unix() {
			fail("Prev is %s, the oracle has %s", prev.UTC(), utc(got))
		}
	default:
		if got := o.ticks(from-reach, from); len(got) > 0 {
			fail("Prev is %s, the oracle has %s", prev.UTC(), utc(got))
		}
		if got := o.ticks(prev.Unix(), min(prev.Unix()+reach, from)); len(got) != 1 || got[0] != prev.Unix() {
			fail("Prev is %s, the oracle has %s", prev.UTC(), utc(got))
		}
	}

	if !next.IsZero() {
		if p := s.Prev(next); p.After(at) {
			fail("Prev(Next) is %s", p.UTC())
		}
		if p := s.Prev(next.Add(1)); !p.Equal(next) {
			fail("Next is %s, but the last tick up to then is %s", next.UTC(), p.UTC())
		}
	}
	if !prev.IsZero() {
		if n := s.Next(prev); n.Before(at) {
			fail("Next(Prev) is %s", n.UTC())
		}
		if n := s.Next(prev.Add(-1)); !n.Equal(prev) {
			fail("Prev is %s, but the first tick from then on is %s", prev.UTC(), n.UTC())
		}
	}
}

func utc(ticks []int64) []string {
	var out []string
	for _, u := range ticks[:min(len(ticks), 5)] {
		out = append(out, time.Unix(u, 0).UTC().Format(time.RFC3339))
	}
	return out
}
