package rows

import (
	"context"
	"time"
)

// Waits say what rows that are not worked on now wait for. Zero: none does.
type Waits struct {
	Next, Last time.Time // when the first, and the last, of those that are to be tried again later is due
	NextError  string    // what went wrong with the first of them
	FreeFrom   time.Time // when the first claim ends that holds now, unless it is renewed
	FreeUntil  time.Time // when the last one does
	Unfinished int64     // claims that are over and not taken back yet, of rows that had been started: they are in doubt
}

// Waits looks at what is left, without a lock. It reads all rows that are to be tried again later, and all that are claimed.
func (d *Drainer) Waits(ctx context.Context) (Waits, error) {
	l := &lane{d: d}
	defer l.drop()
	return d.waits(ctx, l)
}

// waits is Waits on a connection that is there already.
func (d *Drainer) waits(ctx context.Context, l *lane) (w Waits, err error) {
	t := d.table.Columns
	of := func(s *statement, facts string, in state) *statement {
		s.add(" FROM ").name(d.table.Name).add(" t")
		if d.table.Side != "" {
			d.joined(s)
		}
		s.add(" WHERE ", facts).is(d.stateColumn(), d.kept(in))
		if d.table.Where != "" {
			s.add(" AND (", d.table.Where, ")")
		}
		return s.add(" AND ", facts)
	}
	facts := "t."
	if d.table.Side != "" {
		facts = "s."
	}
	later := func(descending string) error {
		s := d.statement().add("SELECT ", facts).name(t.NextAttemptAt).add(", ", facts).name(t.LastError)
		of(s, facts, pending).name(t.NextAttemptAt).add(" > ").now(t.NextAttemptAt).add(" ORDER BY ", facts).name(t.NextAttemptAt).add(descending, " LIMIT 1")
		return l.query(ctx, s, func(scan func(...any) error) error {
			var at, why any
			err := scan(&at, &why)
			if w.Last = timeOf(at); descending == "" {
				w.Next, w.NextError = timeOf(at), textOf(why)
			}
			return err
		})
	}
	err = l.single(ctx, func() error {
		w = Waits{}
		if err := later(""); err != nil || w.Next.IsZero() {
			return err
		}
		return later(" DESC")
	})
	if err != nil {
		return w, d.unavailable(err)
	}
	err = l.single(ctx, func() error {
		s := d.statement().add("SELECT MIN(", facts).name(t.LeaseUntil).add("), MAX(", facts).name(t.LeaseUntil).add(")")
		of(s, facts, sending).name(t.LeaseUntil).add(" > ").now(t.LeaseUntil)
		err := l.query(ctx, s, func(scan func(...any) error) error {
			var first, last any
			err := scan(&first, &last)
			w.FreeFrom, w.FreeUntil = timeOf(first), timeOf(last)
			return err
		})
		if err != nil {
			return err
		}
		s = d.statement().add("SELECT COUNT(*)")
		of(s, facts, sending).name(t.StartedAt).add(" IS NOT NULL AND ", facts).name(t.LeaseUntil).add(" < ").after(t.LeaseUntil, -overdueAfter)
		return l.query(ctx, s, func(scan func(...any) error) error { return scan(&w.Unfinished) })
	})
	return w, d.unavailable(err)
}
