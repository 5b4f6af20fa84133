package crontab_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce/crontab"
)

func parse(t *testing.T, text string, o crontab.Options) *crontab.File {
	t.Helper()
	f, err := crontab.Parse(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Two identical lines are two runs of their tick; a line that only meets them
// there is not a third.
func TestJob_Slots(t *testing.T) {
	f := parse(t, "CRON_TZ=UTC\n0 * * * * X\n0 * * * *  X\n30 * * * * X\n*/15 * * * * X\n", crontab.Options{})
	if len(f.Errors) > 0 || len(f.Jobs) != 1 {
		t.Fatalf("errors %v, %d jobs", f.Errors, len(f.Jobs))
	}
	j := f.Jobs[0]
	if want := "0 * * * * | 30 * * * * | */15 * * * *"; j.Schedule != want {
		t.Errorf("schedule %q, want %q", j.Schedule, want)
	}
	hour := time.Date(2030, 1, 1, 5, 0, 0, 0, time.UTC)
	for minute, want := range map[int]int{0: 2, 15: 1, 30: 1, 31: 0, 60: 2} {
		if got := j.Slots(hour.Add(time.Duration(minute) * time.Minute)); got != want {
			t.Errorf("minute %d: %d slots, want %d", minute, got, want)
		}
	}
	if got := j.Slots(hour.Add(time.Second)); got != 0 {
		t.Errorf("a second after the tick: %d slots, want 0", got)
	}
}
