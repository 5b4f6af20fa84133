package cronce

import (
	"os"
	"testing"
	_ "time/tzdata"
)

// A TZ that cannot be followed is refused, and never taken for UTC.
func TestLoadZone_TZ(t *testing.T) {
	system := systemZone()
	for _, c := range []struct{ tz, want string }{
		{"", "UTC"},
		{"UTC", "UTC"},
		{"Europe/Paris", "Europe/Paris"},
		{":Europe/Paris", "Europe/Paris"},
		{"/usr/share/zoneinfo/Europe/Paris", "Europe/Paris"},
		{":/etc/localtime", system},
		{"Europe/Pariss", ""},
		{"EST5EDT,M3.2.0,M11.1.0", ""},
		{"<+03>-3", ""},
		{"../etc/passwd", ""},
	} {
		t.Setenv("TZ", c.tz)
		zone, err := LoadZone("")
		switch {
		case c.want == "" && err == nil:
			t.Errorf("TZ=%q is taken for %s", c.tz, zone)
		case c.want != "" && (err != nil || zone.String() != c.want || LocalZone() != c.want):
			t.Errorf("TZ=%q: %v, %v, LocalZone %s, want %s", c.tz, zone, err, LocalZone(), c.want)
		}
	}
	os.Unsetenv("TZ")
	if zone, err := LoadZone(""); err != nil || zone.String() != system {
		t.Errorf("without TZ: %v, %v, want %s", zone, err, system)
	}
	if _, err := LoadZone("Mars/Olympus"); err == nil {
		t.Error("Mars/Olympus was loaded")
	}
}
