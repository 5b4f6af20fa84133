package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/cli"
)

// What is typed in a hurry is understood, in the zone of whoever types it.
func TestParseSince(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 25, 3, 30, 0, 0, zone) // the clocks have just gone back
	for text, want := range map[string]string{
		"90m":                  "2026-10-25T01:00:00Z",
		"2026-10-25T01:10:00Z": "2026-10-25T01:10:00Z",
		"03:30":                "2026-10-25T02:30:00Z",
		"3:05":                 "2026-10-25T02:05:00Z",
		"03:30:01":             "2026-10-24T01:30:01Z",
		"22:00":                "2026-10-24T20:00:00Z",
		"2026-10-24":           "2026-10-23T22:00:00Z",
		"2026-10-24 02:00":     "2026-10-24T00:00:00Z",
		"2026-10-24T02:00:05":  "2026-10-24T00:00:05Z",
		"today":                "2026-10-24T22:00:00Z",
		"yesterday":            "2026-10-23T22:00:00Z",
	} {
		got, err := cli.ParseSince(text, now)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v, want %s", text, got.UTC(), err, want)
		}
	}
	for _, text := range []string{"", "-5m", "0s", "25:00", "monday", "2026-13-01", "2"} {
		if got, err := cli.ParseSince(text, now); err == nil || !strings.Contains(err.Error(), "02:00") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
