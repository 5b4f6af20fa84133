package rows

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// examineRows tells what is there to be claimed, and what is not.
func (d *Drainer) examineRows(ctx context.Context, l *lane, r *Report) error {
	n, err := d.count(ctx, l, false)
	if err != nil {
		return err
	}
	w, err := d.waits(ctx, l)
	if err != nil {
		return err
	}
	r.Rows = w.of(n)
	return l.open(ctx) // which was given back
}

// of says what so many rows wait for, as people want to know it: why is nothing sent?
func (w Waits) of(n Counts) string {
	text := []string{fmt.Sprintf("%d pending, %d of them due", n.Pending+n.Later, n.Pending)}
	stamp := func(t time.Time) string { return t.Truncate(time.Second).Format(time.RFC3339) }
	switch {
	case n.Later == 0:
	case w.Next.IsZero(): // due meanwhile
		text = append(text, fmt.Sprintf("%d to be tried later", n.Later))
	case stamp(w.Next) == stamp(w.Last):
		text = append(text, fmt.Sprintf("%d to be tried at %s", n.Later, stamp(w.Next)))
	default:
		text = append(text, fmt.Sprintf("%d to be tried later, the first at %s, the last at %s", n.Later, stamp(w.Next), stamp(w.Last)))
	}
	if claimed := n.Sending - n.Overdue; claimed > 0 && !w.FreeUntil.IsZero() {
		text = append(text, fmt.Sprintf("%d claimed until %s at most unless their drain renews that", claimed, stamp(w.FreeUntil)))
	} else if claimed > 0 {
		text = append(text, fmt.Sprintf("%d claimed", claimed))
	}
	if n.Overdue > 0 {
		text = append(text, fmt.Sprintf("%d whose claim has ended: the next drain takes them back", n.Overdue))
	}
	return strings.Join(text, "; ")
}
