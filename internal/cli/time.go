package cli

import (
	"fmt"
	"time"
)

// ParseSince reads a time, how long ago it was, a day, or a time of day: the last such one. Days and times
// of day are those of now's zone.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if t, err := ParseTime(text); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime, "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	switch text {
	case "today":
		return clock(now, 0, time.Time{}), nil
	case "yesterday":
		return clock(now, -1, time.Time{}), nil
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		of, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if t := clock(now, 0, of); !t.After(now) {
			return t, nil
		}
		return clock(now, -1, of), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time, as 2026-03-08T07:00:00Z, 2026-03-08 or 02:00, and no duration, as 36h", text)
}

// clock is the time of day of of, that many days after now's.
func clock(now time.Time, days int, of time.Time) time.Time {
	return time.Date(now.Year(), now.Month(), now.Day()+days, of.Hour(), of.Minute(), of.Second(), 0, now.Location())
}

// ParseTime reads an instant as people type it.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is not a time as 2026-03-08T07:00:00Z or 2026-03-08T02:00:00-05:00", text)
	}
	return t, nil
}
