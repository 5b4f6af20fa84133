package rows

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// waits are rows that are still to be worked off, and until when what is not due waits.
type waits struct {
	Counts
	first, last time.Time // when the first and the last of Later is due, by the database's clock
	claimed     time.Time // when the last claim ends that has not ended
}

// examineRows tells what is there to be claimed, and what is not.
func (d *Drainer) examineRows(ctx context.Context, l *lane, r *Report) error {
	w, err := d.waits(ctx, l)
	if err != nil {
		return err
	}
	r.Rows = w.String()
	return l.open(ctx) // which was given back
}

// waits counts, without a lock.
func (d *Drainer) waits(ctx context.Context, l *lane) (w waits, err error) {
	if w.Counts, err = d.count(ctx, l, false); err != nil {
		return w, err
	}
	t := d.table
	for _, span := range []struct {
		n           int64
		of          state
		column      string
		first, last *time.Time
	}{{w.Later, pending, t.Columns.NextAttemptAt, &w.first, &w.last}, {w.Sending, sending, t.Columns.LeaseUntil, new(time.Time), &w.claimed}} {
		if span.n == 0 {
			continue
		}
		c := d.fact(span.column)
		name := d.engine.quote(c.name)
		s := d.statement().add("SELECT ", d.engine.unix(c, "MIN("+name+")"), ", ", d.engine.unix(c, "MAX("+name+")"), " FROM ").name(d.facts())
		s.add(" WHERE ").is(d.stateColumn(), d.kept(span.of)).add(" AND ").name(c.name).add(" > ", d.engine.now(c))
		var first, last sql.NullFloat64
		err = l.single(ctx, func() error {
			return l.query(ctx, s, func(scan func(...any) error) error { return scan(&first, &last) })
		})
		if err != nil {
			return w, err
		}
		if first.Valid {
			*span.first, *span.last = unixSeconds(first.Float64), unixSeconds(last.Float64)
		}
	}
	return w, nil
}

// String is as people want to know it: why is nothing sent?
func (w waits) String() string {
	text := []string{fmt.Sprintf("%d pending, %d of them due", w.Pending+w.Later, w.Pending)}
	stamp := func(t time.Time) string { return t.Truncate(time.Second).Format(time.RFC3339) }
	switch {
	case w.Later == 0:
	case w.first.IsZero(): // due meanwhile
		text = append(text, fmt.Sprintf("%d to be tried later", w.Later))
	case stamp(w.first) == stamp(w.last):
		text = append(text, fmt.Sprintf("%d to be tried at %s", w.Later, stamp(w.first)))
	default:
		text = append(text, fmt.Sprintf("%d to be tried later, the first at %s, the last at %s", w.Later, stamp(w.first), stamp(w.last)))
	}
	if n := w.Sending - w.Overdue; n > 0 && !w.claimed.IsZero() {
		text = append(text, fmt.Sprintf("%d claimed until %s at most unless their drain renews that", n, stamp(w.claimed)))
	} else if n > 0 {
		text = append(text, fmt.Sprintf("%d claimed", n))
	}
	if w.Overdue > 0 {
		text = append(text, fmt.Sprintf("%d whose claim has ended: the next drain takes them back", w.Overdue))
	}
	return strings.Join(text, "; ")
}
