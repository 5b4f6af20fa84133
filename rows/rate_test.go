package rows

import (
	"testing"
	"time"
)

// However a drain's turns come, no more rows are started than the rate allows, and no fewer where there are enough turns.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		turn time.Duration
		want int // in ten seconds
	}{
		{Rate{50, time.Second}, time.Millisecond, 500},
		{Rate{50, time.Second}, 30 * time.Millisecond, 500},
		{Rate{1000, time.Second}, 7 * time.Millisecond, 10000},
		{Rate{30, time.Minute}, 10 * time.Millisecond, 5},
		{Rate{1, time.Hour}, time.Second, 1},
	} {
		p := newPacer(c.rate)
		started := 0
		for now := time.Hour; now < time.Hour+10*time.Second; now += c.turn {
			if wait := p.wait(now); wait > 0 && p.take(now, 8) > 0 {
				t.Fatalf("%v: a row is started before its time", c.rate)
			}
			started += p.take(now, 8)
		}
		most := c.want + int(burst*time.Duration(c.rate.Rows)/c.rate.Per) + 1
		if started > most || started < c.want*95/100 {
			t.Errorf("%v with a turn each %s: %d rows in ten seconds, want %d to %d", c.rate, c.turn, started, c.want*95/100, most)
		}
	}
	if p := newPacer(Rate{}); p.take(0, 8) != 8 || p.wait(0) != 0 {
		t.Error("there is a limit without a rate")
	}
}
