package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// looks is what the database says of a table.
type looks struct {
	columns []column
	what    string     // what it is if it is no plain table, as "a view"
	remark  string     // what whoever made it has said of it
	heirs   bool       // other tables inherit from it, whose keys are their own
	storage string     // the storage engine, on MariaDB and MySQL
	unique  [][]string // the columns of each unique index that has no NULLs, and of the primary key
	indexes [][]string // the columns of every index, unique ones too
}

// column is a column as the database describes it.
type column struct {
	name     string
	declared string // its type as the database writes it
	kind     kind
	nullable bool
	values   []string // of an enumeration
	length   int      // characters of a text, 0: no limit; bits of an integer
	unsigned bool     // an integer
	narrow   bool     // a text that cannot have all of Unicode
	collate  string   // what a declaration says besides to have the same texts equal
}

// kind is what a type can hold, as far as it matters here.
type kind int

const (
	others   kind = iota
	texts         // of characters
	integers      //
	times         // without a zone: kept in UTC
	instants      // with one
	enums         // one of some values
	uuids         //
	booleans      //
	bits          // read as bytes, and compared as numbers
)

// there reports whether the table is.
func (l looks) there() bool { return len(l.columns) > 0 }

// column finds a column. Names are compared without regard to case, as most engines do; an exact
// one goes first.
func (l looks) column(name string) (column, bool) {
	for _, c := range l.columns {
		if c.name == name {
			return c, true
		}
	}
	for _, c := range l.columns {
		if strings.EqualFold(c.name, name) {
			return c, true
		}
	}
	return column{}, false
}

// identifies reports whether no two rows have these columns equal.
func (l looks) identifies(key []string) bool {
	return slices.ContainsFunc(l.unique, func(unique []string) bool {
		return !slices.ContainsFunc(unique, func(u string) bool { return !containsFold(key, u) })
	})
}

// ordered reports whether an index begins with these columns.
func (l looks) ordered(columns ...string) bool {
	return slices.ContainsFunc(l.indexes, func(index []string) bool {
		return len(index) >= len(columns) && slices.EqualFunc(index[:len(columns)], columns, strings.EqualFold)
	})
}

func containsFold(all []string, name string) bool {
	return slices.ContainsFunc(all, func(a string) bool { return strings.EqualFold(a, name) })
}

// check refuses what would lose rows or work them off twice, and what cannot work at all.
func (d *Drainer) check() error {
	t := d.table
	switch {
	case !d.looks.there():
		return d.refuse("name an existing one", "%s has no such table", d.engine.name())
	case d.looks.what != "":
		return d.refuse("name the table that is behind it", "it is %s", d.looks.what)
	case d.looks.heirs:
		return d.refuse("make partitions of them, or one table", "other tables inherit from it (INHERITS), and their rows may have the same %s", strings.Join(t.Key, ", "))
	}
	for _, name := range slices.Concat(t.Key, t.Read, []string{t.Order, t.State}) {
		if _, ok := d.looks.column(name); !ok && name != "" {
			return d.refuse("it has "+columnNames(d.looks), "there is no column %s", name)
		}
	}
	if !d.looks.identifies(t.Key) {
		return d.refuse("name the primary key, or make a unique index on it, of columns that are NOT NULL", "several rows may have the same %s", strings.Join(t.Key, ", "))
	}
	for _, k := range t.Key {
		if c, _ := d.looks.column(k); c.kind == bits {
			return d.refuse("name another unique column", "the key's column %s is of type %s, which cannot be asked for by its value", c.name, c.declared)
		}
	}
	if t.State != "" {
		if err := d.checkState(); err != nil {
			return err
		}
	}
	facts := d.looks
	if t.Side != "" {
		if facts = d.side; !facts.there() {
			return d.refuse("run the printed migration (cronce drain --print-migration)", "there is no side table %s", t.Side)
		}
		if whose, ok := strings.CutPrefix(d.side.remark, remark); ok && !sameTable(whose, t.Name) {
			return d.refuse("name another one (--print-migration makes it); if the table has another name now, change the remark on its side table", "the side table %s is that of %s, and what has been sent of that one would be taken for rows of this one", t.Side, whose)
		}
		for _, k := range t.Key {
			ours, _ := d.side.column(k)
			if theirs, _ := d.looks.column(k); ours.declared != theirs.declared || ours.collate != theirs.collate {
				return d.refuse("make it by the printed migration", "the side table %s has another type of %s (%q, not %q)", t.Side, k,
					strings.TrimSpace(ours.declared+ours.collate), strings.TrimSpace(theirs.declared+theirs.collate))
			}
		}
		if !facts.identifies(t.Key) {
			return d.refuse("make it by the printed migration", "the side table %s has no primary key on %s", t.Side, strings.Join(t.Key, ", "))
		}
	}
	for i, name := range t.Columns.list() {
		c, ok := facts.column(*name)
		if !ok {
			return d.refuse("run the printed migration (cronce drain --print-migration)", "there is no column %s, for %s", *name, factSettings[i])
		}
		if err := d.checkFact(factSettings[i], c); err != nil {
			return err
		}
	}
	if d.options.Fence > 0 && !d.fences.there() {
		return d.refuse("run the printed migration (cronce drain --print-migration)", "there is no table %s, which keeps the highest fence of each job", fencesTable)
	}
	return nil
}

// checkState wants a column that gives back each state as it was written: some databases
// turn what does not fit into something else.
func (d *Drainer) checkState() error {
	c, _ := d.looks.column(d.table.State)
	for i, v := range d.table.States.list() {
		if *v == "" {
			continue
		}
		fits := true
		switch c.kind {
		case enums:
			fits = slices.Contains(c.values, *v)
		case integers:
			n, err := strconv.ParseInt(*v, 10, 64)
			fits = err == nil && strconv.FormatInt(n, 10) == *v && c.holds(n)
		case texts:
			fits = c.length == 0 || utf8.RuneCountInString(*v) <= c.length
		case booleans:
			fits = *v == "true" || *v == "false"
		default:
			return d.refuse("name a column of texts, integers or an enumeration", "the state column %s is of type %s", c.name, c.declared)
		}
		if !fits {
			return d.refuse(fmt.Sprintf("name another value for %s, or change the column", stateSettings[i]), "the state column %s (%s) cannot hold %q", c.name, c.declared, *v)
		}
	}
	return nil
}

// holds reports whether an integer column has a number.
func (c column) holds(n int64) bool {
	switch {
	case c.unsigned && n < 0:
		return false
	case c.length == 0 || c.length >= 64:
		return true
	case c.unsigned:
		return n < 1<<c.length
	}
	return n >= -1<<(c.length-1) && n < 1<<(c.length-1)
}

// checkFact wants a column of a type that holds the fact.
func (d *Drainer) checkFact(setting string, c column) error {
	fits := map[string][]kind{
		"token":           {texts, uuids},
		"lease-until":     {times, instants},
		"started-at":      {times, instants},
		"next-attempt-at": {times, instants},
		"attempts":        {integers},
		"crashes":         {integers},
		"fence":           {integers},
		"last-error":      {texts},
	}[setting]
	if _, ok := d.engine.(*sqlite); ok && slices.Contains(fits, times) {
		fits = append(fits, texts) // a STRICT table has no other type for them
	}
	counter := setting == "attempts" || setting == "crashes"
	switch {
	case !slices.Contains(fits, c.kind),
		setting == "token" && c.kind == texts && c.length > 0 && c.length < 36,
		setting == "fence" && c.length > 0 && c.length < 64:
		return d.refuse("name another column, or none and run the printed migration", "column %s (%s) cannot hold %s", c.name, c.declared, setting)
	case !c.nullable && !counter:
		return d.refuse("name another column, or let it be NULL", "column %s, for %s, must not be NULL", c.name, setting)
	}
	return nil
}

func columnNames(l looks) string {
	var all []string
	for _, c := range l.columns {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}
