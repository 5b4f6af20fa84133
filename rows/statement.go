package rows

import (
	"strconv"
	"strings"
	"time"
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
	return s.add(s.d.engine.placeholder(len(s.args)))
}

// name appends a quoted name.
func (s *statement) name(name string) *statement { return s.add(s.d.engine.quote(name)) }

// is appends COLUMN = VALUE.
func (s *statement) is(name string, value any) *statement { return s.name(name).add(" = ").arg(value) }

// still appends COLUMN = VALUE for rows that are named by their keys already, so that no index is used for it: where
// old versions have to be kept, that on the state leads to all rows that have ever been in it.
func (s *statement) still(name string, value any) *statement {
	return s.add("(").is(name, value).add(") IS TRUE")
}

// now appends the database's time.
func (s *statement) now(name string) *statement { return s.add(s.d.engine.now(s.d.fact(name))) }

// after appends the database's time and so much.
func (s *statement) after(name string, d time.Duration) *statement {
	return s.add(s.d.engine.after(s.d.fact(name), strconv.FormatFloat(d.Seconds(), 'f', 3, 64)))
}

// keyed appends that a row is one of those with these keys. Lists are filled up to few lengths with
// the last key, so that there are few different statements. of is what stands before each column.
func (s *statement) keyed(of string, keys [][]any) *statement {
	columns := s.d.table.Key
	alternatives, tuples := s.d.engine.tuples()
	switch {
	case len(columns) == 1:
		s.add(of).name(columns[0]).add(" IN (")
	case alternatives:
		s.add("(")
	default:
		s.add("(")
		for i, c := range columns {
			s.comma(i).add(of).name(c)
		}
		s.add(") IN (", tuples)
	}
	for n := range filled(len(keys)) {
		key := keys[min(n, len(keys)-1)]
		switch {
		case len(columns) == 1:
			s.comma(n).arg(key[0])
		case alternatives:
			if n > 0 {
				s.add(" OR ")
			}
			for i, c := range columns {
				if i > 0 {
					s.add(" AND ")
				}
				s.add(of).is(c, key[i])
			}
		default:
			s.comma(n).add("(")
			for i := range columns {
				s.comma(i).arg(key[i])
			}
			s.add(")")
		}
	}
	return s.add(")")
}

// comma appends one before all but the first of a list.
func (s *statement) comma(i int) *statement {
	if i > 0 {
		s.add(", ")
	}
	return s
}

// filled is the length of a list of n.
func filled(n int) int {
	full := 1
	for full < n {
		full *= 2
	}
	if full > 256 {
		return (n + 255) / 256 * 256
	}
	return full
}
