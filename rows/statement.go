package rows

import (
	"strconv"
	"strings"
)

// statement is SQL in the making, with its arguments.
type statement struct {
	d    *Drainer
	text strings.Builder
	args []any
}

func (d *Drainer) statement() *statement { return &statement{d: d} }

// add appends SQL as it is.
func (s *statement) add(parts ...string) *statement {
	for _, p := range parts {
		s.text.WriteString(p)
	}
	return s
}

// arg appends the placeholder of a value.
func (s *statement) arg(value any) *statement {
	s.args = append(s.args, value)
	s.text.WriteString(s.d.engine.placeholder(len(s.args)))
	return s
}

// name appends a quoted name.
func (s *statement) name(name string) *statement { return s.add(s.d.engine.quote(name)) }

// state appends the placeholder of a state, as the table's column keeps it.
func (s *statement) state(value string) *statement {
	c, _ := s.d.looks.column(s.d.table.State)
	switch c.kind {
	case integers:
		n, _ := strconv.ParseInt(value, 10, 64) // checkState has seen it
		return s.arg(n)
	case booleans:
		return s.arg(value == "true")
	}
	return s.arg(value)
}
