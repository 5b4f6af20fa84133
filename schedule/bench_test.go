package schedule

import (
	"testing"
	"time"
)

var benchmarks = []struct{ name, expr, zone, after string }{
	{"daily", "30 2 * * *", "America/New_York", "2026-07-01T12:34:56Z"},
	{"daily in winter", "30 2 * * *", "America/New_York", "2026-12-01T12:34:56Z"},
	{"daily over a gap", "30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z"},
	{"daily after an overlap", "30 2 * * *", "America/New_York", "2026-11-01T06:30:00Z"},
	{"daily in 2099", "30 2 * * *", "America/New_York", "2099-07-01T12:34:56Z"},
	{"daily UTC", "30 2 * * *", "UTC", "2026-07-01T12:34:56Z"},
	{"every minute", "* * * * *", "America/New_York", "2026-07-01T12:34:56Z"},
	{"every 5 seconds", "*/5 * * * * *", "America/New_York", "2026-07-01T12:34:56Z"},
	{"leap day", "0 0 29 2 *", "America/New_York", "2026-07-01T12:34:56Z"},
	{"leap day in 2099", "0 0 29 2 *", "America/New_York", "2096-07-01T12:34:56Z"},
	{"second Monday", "0 9 * * MON#2", "America/New_York", "2026-07-01T12:34:56Z"},
	{"last weekday", "0 9 LW * *", "America/New_York", "2026-07-01T12:34:56Z"},
	{"@every", "@every 90s", "America/New_York", "2026-07-01T12:34:56Z"},
	{"union", "0 9 * * 1-5 | 0 12 * * 6,7", "America/New_York", "2026-07-01T12:34:56Z"},
}

func BenchmarkNext(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			s, after := benchmark(b, c.expr, c.zone, c.after)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(after)
			}
		})
	}
}

func BenchmarkPrev(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			s, after := benchmark(b, c.expr, c.zone, c.after)
			b.ReportAllocs()
			for b.Loop() {
				s.Prev(after)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("30 2 1,15 * MON-FRI", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoAllocations defends the speed of a scheduler with many jobs: looking
// for a tick makes no garbage.
func TestNoAllocations(t *testing.T) {
	for _, c := range benchmarks {
		s, after := benchmark(t, c.expr, c.zone, c.after)
		if n := testing.AllocsPerRun(10, func() { s.Next(after); s.Prev(after) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func benchmark(t testing.TB, expr, zone, after string) (*Schedule, time.Time) {
	t.Helper()
	u, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	return mustParse(t, expr, Options{Zone: mustZone(t, zone)}), u
}
