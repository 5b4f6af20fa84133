package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDays has the days on which expressions fire in a year (2026 began on a
// Thursday).
func TestDays(t *testing.T) {
	tests := []struct {
		expr string // day-of-month, month, day-of-week
		year int
		want string
	}{
		// Days of the month.
		{"L * *", 2026, "01-31 02-28 03-31 04-30 05-31 06-30 07-31 08-31 09-30 10-31 11-30 12-31"},
		{"L 2 *", 2028, "02-29"},
		{"L-3 1-4 *", 2026, "01-28 02-25 03-28 04-27"},
		{"L-30 * *", 2026, "01-01 03-01 05-01 07-01 08-01 10-01 12-01"},
		{"1,L 1,2 *", 2026, "01-01 01-31 02-01 02-28"},
		{"LW 1-6 *", 2026, "01-30 02-27 03-31 04-30 05-29 06-30"},
		{"L-1W 1-3 *", 2026, "01-30 02-27 03-30"},
		{"15W 1-8 *", 2026, "01-15 02-16 03-16 04-15 05-15 06-15 07-15 08-14"},
		{"1W 1,2,8 *", 2026, "01-01 02-02 08-03"}, // not out of the month
		{"31W 1-6 *", 2026, "01-30 03-31 05-29"},  // months with 31 days only
		{"1W,15W,LW 8 *", 2026, "08-03 08-14 08-31"},
		// Days of the week.
		{"* 1-5 FRIL", 2026, "01-30 02-27 03-27 04-24 05-29"},
		{"* 1-3 7L", 2026, "01-25 02-22 03-29"},
		{"* 2 MONL", 2027, "02-22"}, // a February of four weeks
		{"* 1-3 MON#2", 2026, "01-12 02-09 03-09"},
		{"* * FRI#5", 2026, "01-30 05-29 07-31 10-30"},
		{"* 1 THU#1,WED#1", 2026, "01-01 01-07"},
		{"* 1 MON#1,FRIL,SUN", 2026, "01-04 01-05 01-11 01-18 01-25 01-30"},
		// Either field, or both where one starts with a star.
		{"13 1,2 FRI#2", 2026, "01-09 01-13 02-13"},
		{"1,15 1 1", 2026, "01-01 01-05 01-12 01-15 01-19 01-26"},
		{"L 1,2 SUN#1", 2026, "01-04 01-31 02-01 02-28"},
		{"*/2 1 SAT", 2026, "01-03 01-17 01-31"},
		{"1-7 1-3 */7", 2026, "01-04 02-01 03-01"}, // the first Sunday, an old trick
		{"* 1 */3", 2026, "01-03 01-04 01-07 01-10 01-11 01-14 01-17 01-18 01-21 01-24 01-25 01-28 01-31"},
		{"31,* 1 MON,*", 2026, everyDay("01", 31)}, // no star in front
	}
	for _, c := range tests {
		s := mustParse(t, "0 0 "+c.expr, Options{})
		from := time.Date(c.year, 1, 1, 0, 0, 0, 0, time.UTC)
		var got []string
		for _, u := range forwards(s, from.Add(-1), from.AddDate(1, 0, 0).Add(-1)) {
			got = append(got, u.Format("01-02"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in %d:\ngot  %s\nwant %s", c.expr, c.year, strings.Join(got, " "), c.want)
		}
	}
}

// everyDay lists the days of a month.
func everyDay(month string, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%02d", month, i+1)
	}
	return strings.Join(out, " ")
}

// TestCalendar compares our calendar with that of package time, day by day.
func TestCalendar(t *testing.T) {
	u := time.Date(minYear, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := u.Unix() / day; ; n++ {
		year, month, d := civil(n)
		if year > maxYear {
			break
		}
		if year != u.Year() || month != int(u.Month()) || d != u.Day() || weekday(n) != int(u.Weekday()) {
			t.Fatalf("day %d is %d-%d-%d, weekday %d; want %s", n, year, month, d, weekday(n), u.Format("2006-1-2 Mon"))
		}
		if got := dayNumber(year, month) + int64(d-1); got != n {
			t.Fatalf("%d-%d-%d is day %d, want %d", year, month, d, got, n)
		}
		next := u.AddDate(0, 0, 1)
		if last := next.Day() == 1; last != (d == daysIn(year, month)) {
			t.Fatalf("%d-%d has %d days", year, month, daysIn(year, month))
		}
		u = next
	}
}
