package rows

import "strconv"

// candidates is the SELECT of a claim, without its lock: rows that are due, smallest in order first, from
// a value of the order column on where there is one. It is what an index on (state, order) is for, and what Preflight
// has the database explain.
func (d *Drainer) candidates(limit int, from any) *statement {
	t := d.table
	s := d.statement().add("SELECT ")
	for i, c := range d.selected() {
		if i > 0 {
			s.add(", ")
		}
		s.add("t.").name(c)
	}
	facts := "t"
	if t.Side != "" {
		facts = "s"
	}
	s.add(", ", facts, ".").name(t.Columns.Attempts).add(", ", facts, ".").name(t.Columns.Crashes)
	s.add(" FROM ").name(t.Name).add(" t")
	if t.Side != "" {
		s.add(" LEFT JOIN ").name(t.Side).add(" s ON ")
		for i, k := range t.Key {
			if i > 0 {
				s.add(" AND ")
			}
			s.add("s.").name(k).add(" = t.").name(k)
		}
	}
	s.add(" WHERE ")
	if t.State != "" {
		s.add("t.").name(t.State).add(" = ").state(t.States.Pending).add(" AND ")
	}
	if t.Side != "" {
		s.add("(s.").name(t.Key[0]).add(" IS NULL OR s.", sideState, " = 'pending') AND ")
	}
	if from != nil {
		s.add("t.").name(t.Order).add(" >= ").arg(from).add(" AND ")
	}
	next := d.fact(t.Columns.NextAttemptAt)
	s.add("(", facts, ".").name(next.name).add(" IS NULL OR ", facts, ".").name(next.name).add(" <= ", d.engine.now(next), ")")
	if t.Where != "" {
		s.add(" AND (", t.Where, ")")
	}
	return s.add(" ORDER BY t.").name(t.Order).add(" LIMIT ", strconv.Itoa(limit))
}

// selected are the columns of the table that a claim reads: key, order, read.
func (d *Drainer) selected() []string {
	t := d.table
	return append(append(append([]string{}, t.Key...), t.Order), t.Read...)
}

// fact is a column of the facts, as the database describes it.
func (d *Drainer) fact(name string) column {
	facts := d.looks
	if d.table.Side != "" {
		facts = d.side
	}
	c, _ := facts.column(name)
	c.name = name
	return c
}
