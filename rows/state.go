package rows

import "strconv"

// state is what has become of a row, in the order of States.list.
type state int

const (
	pending state = iota
	sending
	sent
	failed
	dead
	unknown
)

func (s state) String() string { return stateSettings[s] }

// own is a state as the table's own column has it; ok is false where that does not say it.
func (d *Drainer) own(s state) (value any, ok bool) {
	text := *d.table.States.list()[s]
	if text == "" {
		return nil, false
	}
	c, _ := d.looks.column(d.table.State)
	switch c.kind {
	case integers:
		n, _ := strconv.ParseInt(text, 10, 64) // checkState has seen it
		return n, true
	case booleans:
		return text == "true", true
	}
	return text, true
}

// kept is a state as it is kept with the facts.
func (d *Drainer) kept(s state) any {
	if d.table.Side != "" {
		return s.String()
	}
	value, _ := d.own(s)
	return value
}

// facts is the table that has the facts: a side table, or the table itself.
func (d *Drainer) facts() string { return or(d.table.Side, d.table.Name) }

// stateColumn is the one beside the facts.
func (d *Drainer) stateColumn() string {
	if d.table.Side != "" {
		return sideState
	}
	return d.table.State
}

// fact is a column of the facts, as the database describes it.
func (d *Drainer) fact(name string) column {
	l := d.looks
	if d.table.Side != "" {
		l = d.side
	}
	c, _ := l.column(name)
	c.name = name
	return c
}
