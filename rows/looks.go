package rows

import (
	"slices"
	"strings"
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
	base     string   // the type that a domain is of, or the type, on Postgres
	rest     string   // all that its definition says behind the type, on MariaDB and MySQL; empty: not known
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
