package rows

import "context"

// Count counts the rows by state, without a lock.
func (d *Drainer) Count(ctx context.Context) (Counts, error) {
	l := &lane{d: d}
	defer l.end()
	c, err := d.count(ctx, l, true)
	return c, d.unavailable(err)
}

// count counts all states, or only those of rows that are still to be worked off.
func (d *Drainer) count(ctx context.Context, l *lane, all bool) (c Counts, err error) {
	t := d.table
	s := d.statement().add("SELECT ")
	facts, column := "t.", "t."+d.engine.quote(t.State)
	if t.Side != "" {
		facts, column = "s.", "COALESCE(s."+sideState+", 'pending')"
	}
	// A number instead of the state itself: drivers give numbers alike.
	s.add("CASE")
	for i := range words.list() {
		s.add(" WHEN ", column, " = ").arg(d.kept(state(i))).add(" THEN ", string(rune('0'+i)))
	}
	until, next := t.Columns.LeaseUntil, t.Columns.NextAttemptAt
	s.add(" ELSE -1 END AS c0, CASE WHEN ", facts).name(next).add(" > ").now(next).add(" THEN 1 ELSE 0 END AS c1, ")
	s.add("CASE WHEN ", facts).name(until).add(" < ").after(until, -overdueAfter).add(" THEN 1 ELSE 0 END AS c2, COUNT(*) FROM ").name(t.Name).add(" t")
	if t.Side != "" {
		d.joined(s.add(" LEFT"))
	}
	s.add(" WHERE 1 = 1")
	if t.Side != "" && t.State != "" {
		// What has no claim is as its own column says.
		value, _ := d.own(pending)
		s.add(" AND (s.", sideState, " IS NOT NULL OR t.").is(t.State, value).add(")")
	}
	if !all {
		s.add(" AND ", column, " IN (").arg(d.kept(pending)).add(", ").arg(d.kept(sending)).add(")")
	}
	if t.Where != "" {
		s.add(" AND (", t.Where, ")")
	}
	s.add(" GROUP BY 1, 2, 3")
	err = l.single(ctx, func() error {
		c = Counts{}
		return l.query(ctx, s, func(scan func(...any) error) error {
			var what, later, overdue int
			var n int64
			if err := scan(&what, &later, &overdue, &n); err != nil {
				return err
			}
			switch of := []*int64{&c.Pending, &c.Sending, &c.Sent, &c.Failed, &c.Dead, &c.Unknown}; {
			case what < 0:
				c.Other += n
			case state(what) == pending && later == 1:
				c.Later += n
			default:
				*of[what] += n
				if state(what) == sending && overdue == 1 {
					c.Overdue += n
				}
			}
			return nil
		})
	})
	return c, err
}

// waiting reports whether rows are due, whoever may have them locked.
func (d *Drainer) waiting(ctx context.Context, l *lane) (some bool, err error) {
	err = l.single(ctx, func() error {
		some = false
		return l.query(ctx, d.candidates(d.statement(), 1, nil), func(scan func(...any) error) error {
			some = true
			return nil
		})
	})
	return some, err
}
