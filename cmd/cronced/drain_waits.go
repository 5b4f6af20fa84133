package main

import (
	"context"
	"fmt"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// waitLines say what the rows that are left wait for, a line for each reason.
func waitLines(c rows.Counts, w rows.Waits) (lines []string) {
	add := func(n int64, format string, a ...any) {
		if n > 0 {
			lines = append(lines, counted(n, "row")+" "+fmt.Sprintf(format, a...))
		}
	}
	add(c.Pending, "due")
	switch {
	case w.Next.IsZero():
		add(c.Later, "to be tried again later")
	default:
		until, why := cronce.Stamp(w.Next), ""
		if !w.Last.Equal(w.Next) {
			until = "between " + until + " and " + cronce.Stamp(w.Last)
		} else {
			until = "at " + until
		}
		if w.NextError != "" {
			why = "; the first because of: " + string(cli.Readable([]byte(w.NextError)))
		}
		add(c.Later, "to be tried again %s%s", until, why)
	}
	if held := c.Sending - c.Overdue; w.FreeUntil.IsZero() {
		add(held, "claimed by others")
	} else {
		add(held, "claimed by others until %s, unless these live and renew it", cronce.Stamp(w.FreeUntil))
	}
	add(c.Overdue-w.Unfinished, "claimed by workers that died: the next drain does them")
	add(w.Unfinished, "in doubt: started by workers that died, unknown (with --idempotent: pending) from the next drain on")
	return lines
}

// waits is what rows wait for; what cannot be found out is left out.
func waits(ctx context.Context, d *rows.Drainer, c rows.Counts) rows.Waits {
	if c.Later+c.Sending == 0 {
		return rows.Waits{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
	defer cancel()
	w, err := d.Waits(ctx)
	if err != nil {
		return rows.Waits{}
	}
	w.Unfinished = min(w.Unfinished, c.Overdue)
	return w
}
