package rows

import (
	"fmt"
	"slices"
	"strings"
)

// fencesTable has one row a job, with the highest fence that has claimed.
const fencesTable = "cronce_fences"

// factKinds are the types of the facts, in the order of Columns.list.
var factKinds = []kind{uuids, instants, instants, integers, integers, instants, texts, integers}

// migration is what is missing, as statements.
func (d *Drainer) migration() string {
	t, e := d.table, d.engine
	var b strings.Builder
	if t.Side == "" {
		var missing []string
		for i, name := range t.Columns.list() {
			if _, ok := d.looks.column(*name); !ok {
				missing = append(missing, e.quote(*name)+" "+e.declare(factKinds[i]))
			}
		}
		for _, m := range missing {
			fmt.Fprintf(&b, "ALTER TABLE %s ADD COLUMN %s;\n", e.quote(t.Name), m)
		}
		if !d.looks.ordered(t.State, t.Order) {
			b.WriteString(e.index("cronce_claims_"+base(t.Name), t.Name, t.State, t.Order) + "\n")
		}
	} else if !d.side.there() {
		var lines []string
		for _, k := range t.Key {
			c, _ := d.looks.column(k)
			lines = append(lines, e.quote(c.name)+" "+c.declared+c.collate+" NOT NULL")
		}
		lines = append(lines, e.quote(sideState)+" VARCHAR(10) NOT NULL")
		names := SideColumns
		for i, name := range names.list() {
			lines = append(lines, e.quote(*name)+" "+e.declare(factKinds[i]))
		}
		lines = append(lines, "PRIMARY KEY ("+quoted(e, t.Key)+")")
		opened, closed, after := e.remark(t.Side, remark+t.Name)
		fmt.Fprintf(&b, "CREATE TABLE %s (%s\n\t%s\n)%s;\n%s", e.quote(t.Side), opened, strings.Join(lines, ",\n\t"), closed, after)
		b.WriteString(e.index("cronce_state_"+base(t.Side), t.Side, slices.Concat([]string{sideState}, t.Key)...) + "\n")
	}
	if d.options.Fence > 0 && !d.fences.there() {
		fmt.Fprintf(&b, "CREATE TABLE %s (\n\tjob VARCHAR(200) NOT NULL PRIMARY KEY,\n\tfence BIGINT NOT NULL\n);\n", e.quote(fencesTable))
	}
	return b.String()
}

// remark on a side table, in front of the table whose claims it has.
const remark = "cronce: claims of "

// sameTable reports whether two names, with a schema or without, may be one table's.
func sameTable(a, b string) bool {
	if strings.Contains(a, ".") != strings.Contains(b, ".") {
		a, b = base(a), base(b)
	}
	return strings.EqualFold(a, b)
}

// base is a table's name without its schema.
func base(table string) string { return table[strings.LastIndex(table, ".")+1:] }
