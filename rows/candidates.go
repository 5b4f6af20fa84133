package rows

import (
	"strconv"
	"strings"
)

// candidates appends the SELECT of a claim, without its lock: rows that are due, smallest in order first, from
// a value of the order column on where there is one. It is what an index on (state, order) is for, and what Preflight
// has the database explain. Its columns are c0, c1 and so on.
func (d *Drainer) candidates(s *statement, limit int, from any) *statement {
	t := d.table
	facts := "t"
	if t.Side != "" {
		facts = "s"
	}
	d.selects(s.add("SELECT "), "t", facts)
	s.add(" FROM ").name(t.Name).add(" t")
	if t.Side != "" {
		d.joined(s.add(" LEFT"))
	}
	s.add(" WHERE ")
	if t.State != "" {
		value, _ := d.own(pending)
		s.add("t.").is(t.State, value).add(" AND ")
	}
	if t.Side != "" {
		s.add("(s.", sideState, " IS NULL OR s.", sideState, " = 'pending') AND ")
	}
	if from != nil {
		s.add("t.").name(t.Order).add(" >= ").arg(from).add(" AND ")
	}
	d.due(s, facts+".")
	for _, k := range d.loose() {
		s.add(" AND t.").name(k).add(" IS NOT NULL")
	}
	if t.Where != "" {
		s.add(" AND (", t.Where, ")")
	}
	return s.add(" ORDER BY t.").name(t.Order).add(" LIMIT ", strconv.Itoa(limit))
}

// joined appends the side table, as s.
func (d *Drainer) joined(s *statement) *statement {
	s.add(" JOIN ").name(d.table.Side).add(" s ON ")
	for i, k := range d.table.Key {
		if i > 0 {
			s.add(" AND ")
		}
		s.add("s.").name(k).add(" = t.").name(k)
	}
	return s
}

// due appends that the next attempt need not wait.
func (d *Drainer) due(s *statement, facts string) *statement {
	next := d.table.Columns.NextAttemptAt
	return s.add("(", facts).name(next).add(" IS NULL OR ", facts).name(next).add(" <= ").now(next).add(")")
}

// selects appends what a claim reads of a row: key, order, read, attempts, crashes. See claimed.
func (d *Drainer) selects(s *statement, table, facts string) *statement {
	n := 0
	add := func(sql string) {
		s.comma(n).add(sql, " AS ", selectedName(n))
		n++
	}
	column := func(of, name string) string {
		if of != "" {
			return of + "." + d.engine.quote(name)
		}
		return d.engine.quote(name)
	}
	for _, k := range d.table.Key {
		add(d.engine.stored(column(table, k)))
	}
	add(d.engine.stored(column(table, d.table.Order)))
	for _, c := range d.table.Read {
		add(column(table, c))
	}
	add(column(facts, d.table.Columns.Attempts))
	add(column(facts, d.table.Columns.Crashes))
	return s
}

// keys is a list of the key's columns, for scanKey.
func (d *Drainer) keys() string {
	all := make([]string, len(d.table.Key))
	for i, k := range d.table.Key {
		all[i] = d.engine.stored(d.engine.quote(k))
	}
	return strings.Join(all, ", ")
}

// loose are columns of the key that may be NULL. A row where one is cannot be asked for by its key.
func (d *Drainer) loose() (all []string) {
	for _, k := range d.table.Key {
		if c, ok := d.looks.column(k); ok && c.nullable {
			all = append(all, k)
		}
	}
	return all
}

func selectedName(n int) string { return "c" + strconv.Itoa(n) }

// claimed reads a row of selects.
func (d *Drainer) claimed(scan func(...any) error) (*item, error) {
	key, read := len(d.table.Key), len(d.table.Read)
	values := make([]any, key+1+read)
	var attempts, crashes *int
	into := make([]any, 0, len(values)+2)
	for i := range values {
		into = append(into, &values[i])
	}
	if err := scan(append(into, &attempts, &crashes)...); err != nil {
		return nil, err
	}
	for i, name := range d.names() {
		c, _ := d.looks.column(name)
		values[i] = d.plain(c, values[i])
	}
	it := &item{row: Row{Key: values[:key:key], Values: values[key+1:]}, order: values[key]}
	if attempts != nil {
		it.row.Attempt = *attempts
	}
	if crashes != nil {
		it.row.Crashes = *crashes
	}
	return it, nil
}

// names are the table's columns in the order of selects.
func (d *Drainer) names() []string {
	return append(append(append([]string{}, d.table.Key...), d.table.Order), d.table.Read...)
}

// plain makes one value of what drivers give as bytes or as what it is, by the mood of the protocol.
func (d *Drainer) plain(c column, value any) any {
	b, ok := value.([]byte)
	if !ok {
		return value
	}
	_, typed := d.engine.(*sqlite) // each value has a type of its own
	switch {
	case c.kind == integers && !typed:
		if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
			return n
		}
		return string(b)
	case c.kind == others || c.kind == bits || typed:
		return append([]byte{}, b...) // not nil, which is NULL
	default:
		return string(b)
	}
}
