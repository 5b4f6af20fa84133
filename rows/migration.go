package rows

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// fencesTable has one row a job, with the highest fence that has claimed.
const fencesTable = "cronce_fences"

// factKinds are the types of the facts, in the order of Columns.list.
var factKinds = []kind{uuids, instants, instants, integers, integers, instants, texts, integers}

// Migration is the SQL that adds what the description names and the database does not have: values of the state column, columns, the
// index on (state, order), the side table, and the table cronce_fences where Options.Fence is used. Empty: nothing is
// missing. It is for a person to read and to run; nothing is changed here.
//
// Errors: those of [Preflight], and a *[TableError] for what no SQL mends, as a table that is not there.
func Migration(ctx context.Context, db *sql.DB, t Table, o Options) (string, error) {
	d, err := prepare(ctx, db, t, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, n := range d.needs() {
		if n.sql == "" {
			return "", d.refuse(n.cure, "%s", n.what)
		}
		b.WriteString(n.sql)
	}
	return b.String(), nil
}

// makeSide makes the side table. The table itself may not change: what would make claims fast on it is a comment.
func (d *Drainer) makeSide() string {
	t, e := d.table, d.engine
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
	made := fmt.Sprintf("CREATE TABLE %s (%s\n\t%s\n)%s;\n%s", e.quote(t.Side), opened, strings.Join(lines, ",\n\t"), closed, after) +
		e.index("cronce_state_"+base(t.Side), t.Side, slices.Concat([]string{sideState}, t.Key)...) + "\n"
	if !d.suited() {
		made += fmt.Sprintf("-- claims read less with an index on %s itself, if it may have one:\n-- %s", t.Name, d.claimsIndex())
	}
	return made
}

// claimsIndex makes the index that claims are found by.
func (d *Drainer) claimsIndex() string {
	t := d.table
	if t.State == "" {
		return d.engine.index("cronce_order_"+base(t.Name), t.Name, t.Order) + "\n"
	}
	return d.engine.index("cronce_claims_"+base(t.Name), t.Name, t.State, t.Order) + "\n"
}

// makeFences makes the table of fences, which another table's migration may have made meanwhile.
func (d *Drainer) makeFences() string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n\tjob VARCHAR(200) NOT NULL PRIMARY KEY,\n\tfence BIGINT NOT NULL\n);\n", d.engine.quote(fencesTable))
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

// literal is a text in SQL.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
