package schedule

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestSame has expressions that differ and mean the same: this is the grammar,
// as Debian's cron reads it.
func TestSame(t *testing.T) {
	tests := []struct{ a, b string }{
		// Names, in any case, and in lists and ranges and before steps.
		{"0 0 * jan,MAR,Dec mon", "0 0 * 1,3,12 1"},
		{"0 0 * feb-apr mon-fri", "0 0 * 2-4 1-5"},
		{"0 0 * * MON-FRI/2", "0 0 * * 1,3,5"},
		{"0 0 * * MON-5", "0 0 * * 1-FRI"},
		// Sunday is 0 and 7, and 7 is at the end of a range too.
		{"0 0 * * 7", "0 0 * * 0"},
		{"0 0 * * SUN", "0 0 * * 0"},
		{"0 0 * * 5-7", "0 0 * * 0,5,6"},
		{"0 0 * * FRI-7", "0 0 * * 0,5,6"},
		{"0 0 * * SUN-TUE", "0 0 * * 0-2"},
		{"0 0 * * 1-7/2", "0 0 * * 0,1,3,5"},
		{"0 0 * * 0-7", "0 0 * * 0-6"},
		// Steps count from the start of the range, and may be larger than it.
		{"*/15 0 * * *", "*/15,*/30 0 * * *"},
		{"3-59/15 0 * * *", "3,18,33,48 0 * * *"},
		{"5-10/100 0 * * *", "5 0 * * *"},
		{"0-59/60 0 * * *", "0 0 * * *"},
		{"0-0 0 * * *", "0 0 * * *"},
		{"0 0 1-31/10 1 *", "0 0 1,11,21,31 1 *"},
		// Lists add up.
		{"1,1,2-4,3 0 * * *", "1-4 0 * * *"},
		{"5,*/30 0 * * *", "0,5,30 0 * * *"},
		{"007 00 01 * *", "7 0 1 * *"},
		// Seconds are in front.
		{"0 30 2 * * *", "30 2 * * *"},
		// Macros.
		{"@yearly", "0 0 1 1 *"},
		{"@annually", "0 0 1 1 *"},
		{"@monthly", "0 0 1 * *"},
		{"@weekly", "0 0 * * 0"},
		{"@daily", "0 0 * * *"},
		{"@midnight", "0 0 * * *"},
		{"@hourly", "0 * * * *"},
		{"@every 1h30m", "@every 90m"},
		{"@every 1.5m", "@every 90s"},
		// Letters of ours in any case.
		{"0 0 l,lw,15w,l-3,L-3w * *", "0 0 L,LW,15W,L-3,L-3W * *"},
		{"0 0 * * friL,5l", "0 0 * * FRIL"},
		{"0 0 * * 7L,7#2", "0 0 * * 0L,SUN#2"},
		{"h h(0-5) * * *", "H H(0-5) * * *"},
		{"0 0 * * H(MON-FRI)", "0 0 * * H(1-5)"},
		// White space.
		{" \t30  2\t* * * \r\n", "30 2 * * *"},
		{"@daily|@hourly", "@daily  |  @hourly"},
	}
	for _, c := range tests {
		a, b := mustParse(t, c.a, Options{Name: "job"}), mustParse(t, c.b, Options{Name: "job"})
		if !reflect.DeepEqual(a.parts, b.parts) {
			t.Errorf("%q and %q differ:\n%+v\n%+v", c.a, c.b, a.parts, b.parts)
		}
	}
}

// TestStar: a field's first character decides. A star there makes the days
// agree, and the times follow the real hours.
func TestStar(t *testing.T) {
	tests := []struct {
		expr       string
		wild, both bool
	}{
		{"0 0 1 * 1", false, false},
		{"* 0 1 * 1", true, false},
		{"*/5 0 1 * 1", true, false},
		{"0 * 1 * 1", true, false},
		{"0 0,*/6 1 * 1", false, false},
		{"0 */6,1 1 * 1", true, false},
		{"0-59 0-23 1-31 * 0-7", false, false},
		{"0 0 * * 1", false, true},
		{"0 0 */2 * 1", false, true},
		{"0 0 1 * */2", false, true},
		{"0 0 1,* * 1,*", false, false},
		{"0 0 1 */2 1", false, false},
		{"* 0 0 1 * 1", false, false},
		{"H H H * H", false, false},
		{"@hourly", true, true},
		{"@daily", false, true},
	}
	for _, c := range tests {
		p := mustParse(t, c.expr, Options{Name: "job"}).parts[0]
		if p.wild != c.wild || p.both != c.both {
			t.Errorf("%q: wild %v, both %v; want %v, %v", c.expr, p.wild, p.both, c.wild, c.both)
		}
	}
}

func TestString(t *testing.T) {
	for expr, want := range map[string]string{
		"30 2 * * *":                    "30 2 * * *",
		"  30\t2  *  * Mon \n":          "30 2 * * Mon",
		"@daily":                        "@daily",
		" @every   5m ":                 "@every 5m",
		"@every 300s":                   "@every 300s",
		"0 9 * * 1-5|@every 1h|@weekly": "0 9 * * 1-5 | @every 1h | @weekly",
		"*/5 * * * * *":                 "*/5 * * * * *",
		"H H(0-7) * * *":                "H H(0-7) * * *",
		"007 0 * * 7":                   "007 0 * * 7", // nothing but blanks is rewritten
	} {
		if got := mustParse(t, expr, Options{Name: "job"}).String(); got != want {
			t.Errorf("%q: %q, want %q", expr, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	five, six := "* * * * *", "* * * * * *"
	for _, c := range []struct {
		expr    string
		seconds Seconds
		ok      bool
	}{
		{five, ByCount, true}, {six, ByCount, true},
		{five, Never, true}, {six, Never, false},
		{five, Always, false}, {six, Always, true},
		{"@daily", Always, true}, {"@every 5s", Never, true},
		{five + " | " + six, ByCount, true},
	} {
		if _, err := Parse(c.expr, Options{Seconds: c.seconds}); (err == nil) != c.ok {
			t.Errorf("%q with seconds %d: %v", c.expr, c.seconds, err)
		}
	}
}

// TestErrors: an error says which field, where, what and how to mend it.
func TestErrors(t *testing.T) {
	tests := []struct {
		expr   string
		field  string
		offset int
		got    string
		says   string // the end of the message
	}{
		{"61 * * * *", "minute", 0, "61", `schedule "61 * * * *": minute field, character 1: 61 is not in 0-59`},
		{"* 24 * * *", "hour", 2, "24", "24 is not in 0-23"},
		{"* * 0 * *", "day-of-month", 4, "0", "0 is not in 1-31"},
		{"* * * 13 *", "month", 6, "13", "13 is not in 1-12"},
		{"* * * * 8", "day-of-week", 8, "8", "8 is not in 0-7"},
		{"60 * * * * *", "second", 0, "60", "60 is not in 0-59"},
		{"* * 99999999999999999999 * *", "day-of-month", 4, "99999999999999999999", "is not in 1-31"},
		{"5-64 * * * *", "minute", 2, "64", "64 is not in 0-59"},
		{"1,2,77 * * * *", "minute", 4, "77", "77 is not in 0-59"},
		{"  61 * * * *", "minute", 2, "61", "character 3: 61 is not in 0-59"},

		{"* * * *", "", 7, "", "five fields expected, got four; they are minute hour day-of-month month day-of-week"},
		{"30", "", 2, "", "five fields expected, got one; they are minute hour day-of-month month day-of-week"},
		{"* * * * * * *", "", 10, "*", "got seven; Quartz's seventh field, the year, is not supported"},
		{"* * * * * * * * * * *", "", 10, "*", "five fields expected, got 11; they are minute hour day-of-month month day-of-week"},
		{"", "", 0, "", `schedule "": character 1: there is no schedule`},
		{" \t", "", 2, "", "there is no schedule"},
		{"* * * * * |", "", 11, "", "there is no schedule on one side of |"},
		{"@daily || @hourly", "", 8, "", "there is no schedule on one side of |"},
		{"@daily | 61 * * * *", "minute", 9, "61", "character 10: 61 is not in 0-59"},
		{"CRON_TZ=UTC 0 0 * * *", "", 0, "CRON_TZ=UTC", "CRON_TZ= cannot stand here; the time zone is set beside the schedule, not in it"},

		{"@reboot", "", 0, "@reboot", "@reboot has no ticks; it is a start of the machine, not a time"},
		{"@Daily", "", 0, "@Daily", "@Daily is not known; write @daily"},
		{"@fortnightly", "", 0, "@fortnightly", "@midnight, @hourly or @every DURATION"},
		{"@daily 5", "", 7, "5", "@daily stands alone, but 5 follows"},
		{"@every", "", 6, "", "@every needs a duration; write a whole number of seconds, such as 90s, 5m or 1h30m"},
		{"@every 5", "", 7, "5", "5 has no unit; write 5s for seconds or 5m for minutes"},
		{"@every 1d", "", 7, "1d", "the units are h, m and s: a day is 24h, counted from the epoch, whatever the zone's clock does"},
		{"@every five", "", 7, "five", "five is not a duration; write a whole number of seconds, such as 90s, 5m or 1h30m"},
		{"@every 500ms", "", 7, "500ms", "500ms is less than a second"},
		{"@every 0s", "", 7, "0s", "0s is less than a second"},
		{"@every -5m", "", 7, "-5m", "-5m is less than a second"},
		{"@every 1.5s", "", 7, "1.5s", "1.5s is not a whole number of seconds"},
		{"@every 1h 30m", "", 10, "30m", "@every takes one duration, but 30m follows; write it without blanks, such as 1h30m"},

		{"*/0 * * * *", "minute", 2, "0", "a step is a number from 1, not 0"},
		{"*/x * * * *", "minute", 2, "x", "a step is a number from 1, not x"},
		{"* * * * */TUE", "day-of-week", 10, "TUE", "a step is a number from 1, not TUE"},
		{"*/ * * * *", "minute", 2, "", "*/ ends too soon"},
		{"5/15 * * * *", "minute", 1, "/", "a step needs a range or * before it, not 5 alone; write 5-59/15"},
		{"10-5 * * * *", "minute", 0, "10-5", "10-5 runs backwards; write 10-59,0-5"},
		{"* 22-2/2 * * *", "hour", 2, "22-2", "22-2 runs backwards; write 22-23,0-2"},
		{"0 0 * * FRI-SUN", "day-of-week", 8, "FRI-SUN", "FRI-SUN runs backwards; Sunday is 7 at the end of a range: write FRI-7"},
		{"0 0 * * sat-mon", "day-of-week", 8, "sat-mon", "sat-mon runs backwards; write sat-7,1-mon"},
		{"5- * * * *", "minute", 2, "", "5- ends too soon"},
		{"5, * * * *", "minute", 2, "", "5, ends too soon"},
		{",5 * * * *", "minute", 0, ",", ", cannot stand here"},
		{"5;6 * * * *", "minute", 1, ";", "; cannot stand here"},
		{"*5 * * * *", "minute", 1, "5", "5 cannot stand here"}, // cron drops what follows in silence
		{"1-5-7 * * * *", "minute", 3, "-", "- cannot stand here"},
		{"-5 * * * *", "minute", 0, "-", "- cannot stand here"},
		{"0~30 * * * *", "minute", 1, "~", "~ cannot stand here; for a value chosen by the job's name write H or H(0-29)"},
		{"0 0 ? * MON", "day-of-month", 4, "?", "? cannot stand here; write * where Quartz has ?, and mind that Quartz counts days of the week from SUN=1"},
		{"é * * * *", "minute", 0, "é", "é cannot stand here"},
		{"* é * * *", "hour", 2, "é", "character 3: é cannot stand here"},
		{"\xff * * * *", "minute", 0, "\xff", `"\xff" cannot stand here`},

		{"MON * * * *", "minute", 0, "MON", "MON is not 0-59; MON belongs in the day-of-week field"},
		{"0 0 * MON *", "month", 6, "MON", "MON is not 1-12 or JAN-DEC; MON belongs in the day-of-week field"},
		{"0 0 * * JAN", "day-of-week", 8, "JAN", "JAN is not 0-7 or SUN-SAT; JAN belongs in the month field"},
		{"0 0 * * Monday", "day-of-week", 8, "Monday", "Monday is not 0-7 or SUN-SAT; names have three letters: MON"},
		{"0 0 x * *", "day-of-month", 4, "x", "x is not 1-31"},

		{"0 0 * * L", "day-of-week", 8, "L", "L is not 0-7 or SUN-SAT; L here needs a day before it, such as FRIL for the last Friday"},
		{"L 0 * * *", "minute", 0, "L", "L and W belong in the day-of-month field"},
		{"0 0 * * 15W", "day-of-week", 8, "15W", "L and W belong in the day-of-month field"},
		{"0 0 5L * *", "day-of-month", 4, "5L", "5L is not 1-31; a day with L belongs in the day-of-week field"},
		{"0 0 32W * *", "day-of-month", 4, "32", "32 is not in 1-31"},
		{"0 0 1-15W * *", "day-of-month", 6, "15W", "15W is not 1-31; W stands after one day, not after a range"},
		{"0 0 L-31 * *", "day-of-month", 6, "31", "31 is not in 1-30; L-3 is the third day before the month's last"},
		{"0 0 L-0 * *", "day-of-month", 6, "0", "0 is not in 1-30; L-3 is the third day before the month's last"},
		{"0 0 L- * *", "day-of-month", 6, "", "L- ends too soon"},
		{"0 0 L/2 * *", "day-of-month", 5, "/", "/ cannot stand here"},
		{"0 0 * * 8L", "day-of-week", 8, "8", "8 is not in 0-7"},
		{"0 0 * * MON#6", "day-of-week", 12, "6", "6 is not in 1-5; MON#2 is the month's second Monday, MONL the last"},
		{"0 0 * * MON#", "day-of-week", 12, "", "MON# ends too soon"},
		{"0 0 * * MON-FRI#2", "day-of-week", 15, "#", "# belongs in the day-of-week field, after one day: MON#2"},
		{"0 0 1#2 * *", "day-of-month", 5, "#", "# belongs in the day-of-week field, after one day: MON#2"},

		{"H * * * *", "minute", 0, "H", "a job's name is needed for H; give the job a name, or write the value"},
		{"H(5) * * * *", "minute", 3, ")", ") cannot stand here"},
		{"H(5-70) * * * *", "minute", 4, "70", "70 is not in 0-59"},
		{"H(30-5) * * * *", "minute", 0, "H(30-5)", "H(30-5) runs backwards"},
		{"H(5-10 * * * *", "minute", 6, "", "H(5-10 ends too soon"},
		{"H-5 * * * *", "minute", 0, "H", "a job's name is needed for H; give the job a name, or write the value"},

		{"30 2 31 2 *", "", 5, "31 2 *", "31 2 * can never fire; the calendar has no such day"},
		{"0 0 30,31 2 *", "", 4, "30,31 2 *", "can never fire; the calendar has no such day"},
		{"0 0 31 4,6,9,11 *", "", 4, "31 4,6,9,11 *", "can never fire; the calendar has no such day"},
		{"0 0 L-29,L-30 2 *", "", 4, "L-29,L-30 2 *", "can never fire; the calendar has no such day"},
		{"0 0 31W 4,6 *", "", 4, "31W 4,6 *", "can never fire; the calendar has no such day"},
		{"0 0 */100 2 MON#5", "", 4, "*/100 2 MON#5", "can never fire; the calendar has no such day"},
		{"@daily | 0 0 31 2 *", "", 13, "31 2 *", "character 14: 31 2 * can never fire; the calendar has no such day"},
	}
	for _, c := range tests {
		s, err := Parse(c.expr, Options{})
		var e *ParseError
		if s != nil || !errors.As(err, &e) {
			t.Errorf("%q: %v, %v", c.expr, s, err)
			continue
		}
		if e.Expr != c.expr || e.Field != c.field || e.Offset != c.offset || e.Got != c.got {
			t.Errorf("%q: field %q, offset %d, got %q; want %q, %d, %q", c.expr, e.Field, e.Offset, e.Got, c.field, c.offset, c.got)
		}
		if !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%q: %s\nwant at its end %q", c.expr, err, c.says)
		}
	}

	for expr, want := range map[string]string{
		"* * * * * *": "five fields expected, got six; seconds are not switched on here",
	} {
		if _, err := Parse(expr, Options{Seconds: Never}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

func TestErrorReasons(t *testing.T) {
	for expr, want := range map[string]error{
		"@reboot":              ErrReboot,
		"@daily | @reboot":     ErrReboot,
		"30 2 31 2 *":          ErrNever,
		"H * * * *":            ErrNoName,
		"0 0 * * H(MON-FRI)/2": ErrNoName,
	} {
		_, err := Parse(expr, Options{})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v is not %q", expr, err, want)
		}
	}
	if _, err := Parse("61 * * * *", Options{}); errors.Is(err, ErrNever) || errors.Is(err, ErrReboot) || errors.Is(err, ErrNoName) {
		t.Errorf("a plain error has a reason: %v", err)
	}
}

// TestRareDays: what comes seldom is not taken for never.
func TestRareDays(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 29 2 *":        "2104-02-29T00:00", // 2100 is no leap year
		"0 0 * 2 THU#5":     "2120-02-29T00:00",
		"0 0 29 2 */7":      "2128-02-29T00:00", // and Sunday
		"59 59 23 L-28 2 *": "2104-02-01T23:59:59",
	} {
		s := mustParse(t, expr, Options{})
		if got := written([]time.Time{s.Next(instant(t, "2097-01-01"))})[0]; got != want {
			t.Errorf("%q: %s, want %s", expr, got, want)
		}
	}
}
