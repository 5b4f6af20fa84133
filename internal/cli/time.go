package cli

import (
	"fmt"
	"time"
)

// ParseSince reads a time, or how long ago it was.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if t, err := ParseTime(text); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time as 2026-03-08T07:00:00Z nor a duration as 36h", text)
}

// ParseTime reads an instant as people type it.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is not a time as 2026-03-08T07:00:00Z or 2026-03-08T02:00:00-05:00", text)
	}
	return t, nil
}
