package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestClockChanges has a change of every kind, with the ticks worked out by
// hand from the rules.
func TestClockChanges(t *testing.T) {
	tests := []struct {
		why, zone, expr string
		after, until    string // UTC; after is exclusive, until is not
		want            []string
	}{
		{
			"a gap of two hours is made up for", "Antarctica/Troll", "30 1 * * *",
			"2026-03-28T00:00", "2026-03-30T12:00",
			[]string{"2026-03-28T01:30", "2026-03-29T01:00", "2026-03-29T23:30"},
		},
		{
			"several times in the gap fire once", "Antarctica/Troll", "10,20 1,2 * * *",
			"2026-03-28T12:00", "2026-03-29T22:00",
			[]string{"2026-03-29T01:00"},
		},
		{
			"a time at the gap's end is one with those in it", "Antarctica/Troll", "0 1-4 * * *",
			"2026-03-28T12:00", "2026-03-29T22:00",
			[]string{"2026-03-29T01:00", "2026-03-29T02:00"},
		},
		{
			"six fields: seconds in the gap fire once", "America/New_York", "*/20 30 2 * * *",
			"2026-03-08T00:00", "2026-03-08T23:00",
			[]string{"2026-03-08T07:00"},
		},
		{
			"six fields: a star for seconds does not make it wild", "America/New_York", "* 30 1 * * *",
			"2026-11-01T05:30:57", "2026-11-01T07:00",
			[]string{"2026-11-01T05:30:58", "2026-11-01T05:30:59"},
		},
		{
			"midnight is in the gap", "America/Sao_Paulo", "0 0 * * *",
			"2018-11-03T00:00", "2018-11-05T12:00",
			[]string{"2018-11-03T03:00", "2018-11-04T03:00", "2018-11-05T02:00"},
		},
		{
			"the gap is on another day than its end", "America/Sao_Paulo", "59 23 * * *",
			"2018-11-03T00:00", "2018-11-05T12:00",
			[]string{"2018-11-03T02:59", "2018-11-04T02:59", "2018-11-05T01:59"},
		},
		{
			"a day begins in its gap", "Africa/Cairo", "30 0 * * FRI",
			"2026-04-20T00:00", "2026-04-26T00:00",
			[]string{"2026-04-23T22:00"},
		},
		{
			"a wild expression skips the gap", "Asia/Beirut", "*/30 * * * *",
			"2026-03-28T21:00", "2026-03-28T22:40",
			[]string{"2026-03-28T21:30", "2026-03-28T22:00", "2026-03-28T22:30"},
		},
		{
			"midnight comes twice", "America/Havana", "0 0 * * *",
			"2026-10-31T12:00", "2026-11-02T12:00",
			[]string{"2026-11-01T04:00", "2026-11-02T05:00"},
		},
		{
			"a wild minute comes twice", "America/Havana", "*/30 0 * * *",
			"2026-11-01T00:00", "2026-11-02T00:00",
			[]string{"2026-11-01T04:00", "2026-11-01T04:30", "2026-11-01T05:00", "2026-11-01T05:30"},
		},
		{
			"a day that never was is skipped", "Pacific/Apia", "0 9 * * *",
			"2011-12-28T20:00", "2012-01-01T00:00",
			[]string{"2011-12-29T19:00", "2011-12-30T19:00", "2011-12-31T19:00"},
		},
		{
			"the first instant after it is its own", "Pacific/Apia", "0 0 * * *",
			"2011-12-29T12:00", "2012-01-01T00:00",
			[]string{"2011-12-30T10:00", "2011-12-31T10:00"},
		},
		{
			"the month's last weekday never was", "Pacific/Apia", "0 9 LW 12 *",
			"2010-12-31T22:00", "2013-01-01T00:00",
			[]string{"2012-12-30T19:00"},
		},
		{
			"a day that never was is skipped, on the other side", "Pacific/Kwajalein", "0 9 * * *",
			"1993-08-20T00:00", "1993-08-23T00:00",
			[]string{"1993-08-20T21:00", "1993-08-21T21:00", "1993-08-22T21:00"},
		},
		{
			"seven hours that never were", "Antarctica/Vostok", "0 3 * * *",
			"1994-10-30T04:00", "1994-11-02T00:00",
			[]string{"1994-10-31T03:00", "1994-11-01T20:00"},
		},
		{
			"seven hours once more", "Antarctica/Vostok", "0 20 * * *",
			"1994-01-30T20:00", "1994-02-02T00:00",
			[]string{"1994-01-31T13:00", "1994-02-01T20:00"},
		},
		{
			"seven hours once more, wild", "Antarctica/Vostok", "0 */20 * * *",
			"1994-01-31T00:00", "1994-02-01T00:00",
			[]string{"1994-01-31T13:00", "1994-01-31T20:00", "1994-02-01T00:00"},
		},
		{
			"an offset with seconds", "Africa/Monrovia", "0 12 * * *",
			"1972-01-05T00:00", "1972-01-08T00:00",
			[]string{"1972-01-05T12:44:30", "1972-01-06T12:44:30", "1972-01-07T12:00"},
		},
		{
			"a gap with seconds", "Africa/Monrovia", "30 0 * * *",
			"1972-01-06T00:00", "1972-01-09T00:00",
			[]string{"1972-01-06T01:14:30", "1972-01-07T00:44:30", "1972-01-08T00:30"},
		},
		{
			"the change is not at a rule's time", "America/Ciudad_Juarez", "30 23 * * *",
			"2022-11-29T00:00", "2022-12-01T12:00",
			[]string{"2022-11-29T05:30", "2022-11-30T05:30", "2022-12-01T06:30"},
		},
		{
			"the change is not at a rule's time", "America/Metlakatla", "30 1 * * *",
			"2019-01-19T00:00", "2019-01-21T12:00",
			[]string{"2019-01-19T09:30", "2019-01-20T09:30", "2019-01-21T10:30"},
		},
		{
			"a change by the rule for the years to come", "America/New_York", "30 2 * * *",
			"2099-03-07T12:00", "2099-03-09T12:00",
			[]string{"2099-03-08T07:00", "2099-03-09T06:30"},
		},
		{
			"the last day of a leap year", "America/New_York", "0 0 * * *",
			"2096-12-30T12:00", "2097-01-01T12:00",
			[]string{"2096-12-31T05:00", "2097-01-01T05:00"},
		},
		{
			"winter time that is the lower one", "Europe/Dublin", "30 1 * * *",
			"2026-03-28T12:00", "2026-03-30T12:00",
			[]string{"2026-03-29T01:00", "2026-03-30T00:30"},
		},
		{
			"a union is due when any part is, by its own rule", "Europe/London", "30 1 * * * | */30 * * * *",
			"2026-03-29T00:00", "2026-03-29T01:30",
			[]string{"2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"},
		},
		{
			"@every knows no clock", "Europe/London", "@every 20m",
			"2026-03-29T00:30", "2026-03-29T01:30",
			[]string{"2026-03-29T00:40", "2026-03-29T01:00", "2026-03-29T01:20"},
		},
	}
	for _, c := range tests {
		t.Run(c.zone+" "+c.why, func(t *testing.T) {
			s := mustParse(t, c.expr, Options{Zone: mustZone(t, c.zone)})
			after, until := instant(t, c.after), instant(t, c.until)
			if got := written(forwards(s, after, until)); !slices.Equal(got, c.want) {
				t.Errorf("%s forwards:\ngot  %v\nwant %v", c.expr, got, c.want)
			}
			if got := written(backwards(s, after, until)); !slices.Equal(got, c.want) {
				t.Errorf("%s backwards:\ngot  %v\nwant %v", c.expr, got, c.want)
			}
		})
	}
}

// forwards returns the ticks after one instant and up to another, by Next.
func forwards(s *Schedule, after, until time.Time) []time.Time {
	var ticks []time.Time
	for u := s.Next(after); !u.IsZero() && !u.After(until); u = s.Next(u) {
		ticks = append(ticks, u)
	}
	return ticks
}

// backwards returns the same ticks, by Prev.
func backwards(s *Schedule, after, until time.Time) []time.Time {
	var ticks []time.Time
	for u := s.Prev(until.Add(1)); u.After(after); u = s.Prev(u) {
		ticks = append(ticks, u)
	}
	slices.Reverse(ticks)
	return ticks
}

// written writes ticks in UTC, and leaves out seconds of zero.
func written(ticks []time.Time) []string {
	out := []string{}
	for _, u := range ticks {
		layout := "2006-01-02T15:04"
		if u = u.UTC(); u.Second() != 0 {
			layout += ":05"
		}
		out = append(out, u.Format(layout))
	}
	return out
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"} {
		if u, err := time.Parse(layout, s); err == nil {
			return u
		}
	}
	t.Fatalf("%q is no instant", s)
	return time.Time{}
}

// TestPeriods holds what the search takes for granted about zones: that each
// period keeps its offset until its end, and that no two offsets are further
// apart than spread.
func TestPeriods(t *testing.T) {
	for _, name := range zones() {
		zone := mustZone(t, name)
		p := periodAt(minTick, zone)
		low, high := p.offset, p.offset
		for u := int64(minTick); u < maxTick; u += 6 * 3600 {
			for u >= p.end {
				end := p.end
				if p = periodAt(end, zone); p.end <= end {
					t.Fatalf("%s: the period at %d ends at %d", name, end, p.end)
				}
			}
			if offset := int64(offsetAt(u, zone)); offset != p.offset {
				t.Fatalf("%s: offset %d at %d, but %d until %d", name, offset, u, p.offset, p.end)
			}
			low, high = min(low, p.offset), max(high, p.offset)
		}
		if high-low > spread {
			t.Errorf("%s: offsets from %d to %d", name, low, high)
		}
	}
}

// TestBounds: ticks end where the years do that have any, and an instant from
// outside does no harm.
func TestBounds(t *testing.T) {
	first := time.Unix(0, 0)
	last := time.Date(2199, 12, 31, 23, 59, 0, 0, time.UTC)
	for _, zone := range []string{"UTC", "America/New_York", "Pacific/Kiritimati"} {
		for _, expr := range []string{"* * * * *", "@every 1m"} {
			s := mustParse(t, expr, Options{Zone: mustZone(t, zone)})
			for _, c := range []struct {
				t          time.Time
				next, prev time.Time
			}{
				{time.Time{}, first, time.Time{}},
				{time.Unix(-1<<40, 0), first, time.Time{}},
				{time.Unix(-1<<63, 0), first, time.Time{}},
				{first, first.Add(time.Minute), time.Time{}},
				{first.Add(-1), first, time.Time{}},
				{first.Add(1), first.Add(time.Minute), first},
				{last, time.Time{}, last.Add(-time.Minute)},
				{last.Add(-1), last, last.Add(-time.Minute)},
				{last.Add(1), time.Time{}, last},
				{time.Unix(1<<40, 0), time.Time{}, last},
				{time.Unix(1<<62, 0), time.Time{}, last},
			} {
				if got := s.Next(c.t); !got.Equal(c.next) {
					t.Errorf("%s in %s: Next(%d) = %s, want %s", expr, zone, c.t.Unix(), got, c.next)
				}
				if got := s.Prev(c.t); !got.Equal(c.prev) {
					t.Errorf("%s in %s: Prev(%d) = %s, want %s", expr, zone, c.t.Unix(), got, c.prev)
				}
			}
		}
	}
	// There are such days, but in this zone the hour was never on their clocks:
	// the search must end.
	s := mustParse(t, "* 2 * 3 SUN#2", Options{Zone: mustZone(t, "America/New_York")})
	if got := s.Next(instant(t, "2026-01-01")); !got.IsZero() {
		t.Errorf("the hour that New York skips: %s", got)
	}
	if got := s.Prev(instant(t, "2026-01-01")).UTC(); got != instant(t, "2006-03-12T07:59") {
		t.Errorf("the hour that New York skips was last seen at %s", got)
	}
}

// TestSubSecond: Next and Prev are strict to the nanosecond.
func TestSubSecond(t *testing.T) {
	s := mustParse(t, "*/15 * * * *", Options{})
	tick := instant(t, "2026-07-01T12:15")
	for _, c := range []struct{ off, next, prev time.Duration }{
		{-1, 0, -15 * time.Minute},
		{0, 15 * time.Minute, -15 * time.Minute},
		{1, 15 * time.Minute, 0},
		{-time.Second / 2, 0, -15 * time.Minute},
		{time.Second / 2, 15 * time.Minute, 0},
	} {
		if got := s.Next(tick.Add(c.off)); !got.Equal(tick.Add(c.next)) {
			t.Errorf("Next(tick%+d) = %s", c.off, got)
		}
		if got := s.Prev(tick.Add(c.off)); !got.Equal(tick.Add(c.prev)) {
			t.Errorf("Prev(tick%+d) = %s", c.off, got)
		}
	}
}

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		expr, at string
		want     time.Duration
	}{
		{"0 * * * *", "2026-07-01T12:30", time.Hour},
		{"0 * * * *", "2026-07-01T12:00", 2 * time.Hour}, // Next - Prev around a tick
		{"0 9,10 * * *", "2026-07-01T08:30", time.Hour},
		{"0 9,10 * * *", "2026-07-01T11:00", 23 * time.Hour},
		{"0 2 * * *", "2026-03-29T00:00", 23 * time.Hour}, // London loses an hour
		{"0 2 * * *", "2026-10-25T00:30", 25 * time.Hour},
		{"@every 90s", "2026-07-01T12:30:01", 90 * time.Second},
		{"0 0 1 1 *", "2199-06-01T00:00", 0}, // none follows
		{"0 0 1 3 *", "1970-01-05T00:00", 0}, // none is before
	} {
		s := mustParse(t, c.expr, Options{Zone: mustZone(t, "Europe/London")})
		if got := s.Interval(instant(t, c.at)); got != c.want {
			t.Errorf("%q at %s: %s, want %s", c.expr, c.at, got, c.want)
		}
	}
}

// TestZoneOfTicks: ticks come in the schedule's own zone, and what zone the
// question was asked in does not matter.
func TestZoneOfTicks(t *testing.T) {
	seoul := mustZone(t, "Asia/Seoul")
	s := mustParse(t, "0 9 * * *", Options{Zone: seoul})
	at := instant(t, "2026-07-01T12:00").In(mustZone(t, "America/New_York"))
	if got := fmt.Sprint(s.Next(at), s.Prev(at)); got != "2026-07-02 09:00:00 +0900 KST 2026-07-01 09:00:00 +0900 KST" {
		t.Error(got)
	}
	if s.Zone() != seoul {
		t.Errorf("Zone is %s", s.Zone())
	}
	if got := mustParse(t, "0 9 * * *", Options{}).Zone(); got != time.UTC {
		t.Errorf("without a zone, Zone is %s", got)
	}
}
