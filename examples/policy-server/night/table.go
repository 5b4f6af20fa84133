package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const head = "  tick      sent by  updates that each receiver got\n"

// row shows what each receiver got of a tick, one digit for each.
func (r *receivers) row(tick int64) string {
	t := r.of(tick)
	var digits strings.Builder
	for _, n := range t.updates {
		if n > 9 {
			digits.WriteByte('+')
		} else {
			fmt.Fprint(&digits, n)
		}
	}
	return fmt.Sprintf("  %s  %-7s  %s\n", clock(tick), strings.Join(t.from, " "), &digits)
}

// clock is the time of day of a tick.
func clock(tick int64) string { return time.Unix(tick, 0).UTC().Format(time.TimeOnly) }

// count sums up ticks.
type count struct {
	ticks, updates int
	most           int // updates of a tick that a receiver got
}

func (c *count) add(t *tally) {
	c.ticks++
	c.updates += t.sum()
	c.most = max(c.most, slices.Max(t.updates))
}

func (c count) String() string { return fmt.Sprintf("%6d  %7d  %d", c.ticks, c.updates, c.most) }
