package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// sqlite is SQLite from 3.35 on, which has RETURNING.
type sqlite struct{ version string }

func (e *sqlite) name() string { return "SQLite " + e.version }

func (e *sqlite) quote(name string) string {
	return `"` + strings.ReplaceAll(name, ".", `"."`) + `"`
}

// stored is an expression: drivers make times of what a column that is declared as a date has.
func (e *sqlite) stored(column string) string { return "+" + column }

// placeholder has a plus, which changes no value: with a bare one SQLite may go by the value when it plans (where
// ANALYZE has kept samples), and then plans a prepared statement anew for each other one.
func (e *sqlite) placeholder(int) string { return "+?" }

// now is UTC, as text: 2026-11-30 14:00:00.000.
func (e *sqlite) now(column) string { return "strftime('%Y-%m-%d %H:%M:%f', 'now')" }

func (e *sqlite) after(_ column, seconds string) string {
	return "strftime('%Y-%m-%d %H:%M:%f', 'now', " + seconds + " || ' seconds')"
}

func (e *sqlite) look(ctx context.Context, db *sql.DB, table string) (l looks, err error) {
	schema, name, found := strings.Cut(table, ".")
	if !found {
		schema, name = "main", table
	}
	var what, made string
	err = db.QueryRowContext(ctx, "SELECT type, COALESCE(sql, '') FROM "+e.quote(schema)+".sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(?)", name).Scan(&what, &made)
	if err == sql.ErrNoRows {
		return looks{}, nil
	} else if err != nil {
		return l, err
	}
	if m := sqliteRemark.FindStringSubmatch(made); m != nil {
		l.remark = m[1]
	}
	if what != "table" {
		l.what = "a " + what
	}
	var primary []string
	err = each(ctx, db, func(scan func(...any) error) error {
		var c column
		var notNull bool
		var place int
		if err := scan(&c.name, &c.declared, &notNull, &place); err != nil {
			return err
		}
		c.nullable = !notNull
		c.kind, c.length = sqliteKind(c.declared)
		if place > 0 {
			primary = append(primary, c.name)
		}
		l.columns = append(l.columns, c)
		return nil
	}, `SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?, ?) WHERE hidden <> 1 ORDER BY cid`, name, schema)
	if err != nil {
		return l, err
	}
	if len(primary) == 1 {
		// The one primary key that has neither an index nor NULLs.
		if c, _ := l.column(primary[0]); strings.EqualFold(c.declared, "INTEGER") {
			l.unique = append(l.unique, primary)
			l.indexes = append(l.indexes, primary)
		}
	}
	type index struct {
		name            string
		unique, primary bool
	}
	var all []index
	err = each(ctx, db, func(scan func(...any) error) error {
		var i index
		if err := scan(&i.name, &i.unique, &i.primary); err != nil {
			return err
		}
		all = append(all, i)
		return nil
	}, `SELECT name, "unique", origin = 'pk' FROM pragma_index_list(?, ?) WHERE NOT partial`, name, schema)
	if err != nil {
		return l, err
	}
	for _, i := range all {
		var columns []string
		err = each(ctx, db, func(scan func(...any) error) error {
			var name sql.NullString
			if err := scan(&name); err != nil {
				return err
			}
			columns = append(columns, name.String)
			c, ok := l.column(name.String)
			i.unique = i.unique && ok && (!c.nullable || i.primary) // which may have NULLs here; see loose
			return nil
		}, "SELECT name FROM pragma_index_info(?, ?) ORDER BY seqno", i.name, schema)
		if err != nil {
			return l, err
		}
		l.indexes = append(l.indexes, columns)
		if i.unique {
			l.unique = append(l.unique, columns)
		}
	}
	return l, nil
}

// sqliteKind goes by what is declared; SQLite itself minds little.
func sqliteKind(declared string) (kind, int) {
	word, _, _ := strings.Cut(strings.ToUpper(declared), "(")
	switch word = strings.TrimSpace(word); {
	case strings.Contains(word, "INT"):
		return integers, 64
	case strings.Contains(word, "UUID"), strings.Contains(word, "CHAR"), strings.Contains(word, "TEXT"), strings.Contains(word, "CLOB"):
		return texts, 0 // a length is not enforced
	case strings.Contains(word, "DATE"), strings.Contains(word, "TIME"):
		return times, 0
	case word == "BOOLEAN":
		return booleans, 0
	}
	return others, 0
}

func (e *sqlite) declare(k kind) string {
	switch k {
	case texts, uuids:
		return "TEXT"
	case instants:
		return "TEXT" // all that a STRICT table has for it
	default:
		return "INTEGER"
	}
}

// remark is a comment in what the database keeps of CREATE TABLE.
func (e *sqlite) remark(_, text string) (opened, closed, after string) {
	return " /* " + strings.ReplaceAll(text, "*/", "* /") + " */", "", ""
}

var sqliteRemark = regexp.MustCompile(`\A[^(]*\( /\* (.*?) \*/`)

func (e *sqlite) index(name, table string, columns ...string) string {
	schema, table, found := strings.Cut(table, ".")
	if !found {
		return fmt.Sprintf("CREATE INDEX %s ON %s (%s);", e.quote(name), e.quote(schema), quoted(e, columns))
	}
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s);", e.quote(schema+"."+name), e.quote(table), quoted(e, columns))
}

// retype is not asked for: a length is not enforced. Nor is extend: there are no enumerations.
func (e *sqlite) retype(string, column, string) string { return "" }

func (e *sqlite) extend(string, column, []string) string { return "" }

func (e *sqlite) session() string { return "" }

func (e *sqlite) prepares() bool { return true }

// begin takes the write lock at once: a transaction that reads first cannot get it once another has written.
func (e *sqlite) begin() string { return "BEGIN IMMEDIATE" }

func (e *sqlite) tuples() (bool, string) { return false, "VALUES " }

func (e *sqlite) lock() string { return "" }

func (e *sqlite) share() string { return "" }

func (e *sqlite) ignore(string) string { return " ON CONFLICT DO NOTHING" }

func (e *sqlite) claims(d *Drainer, c *claim) *statement {
	s := d.statement().add("UPDATE ").name(d.table.Name).add(" AS u SET ")
	c.marks(s)
	s.add(" WHERE (", quoted(e, d.table.Key), ") IN (SELECT ")
	for i := range d.table.Key {
		s.comma(i).add("c.", selectedName(i))
	}
	s.add(" FROM (")
	d.candidates(s, c.limit, c.from)
	s.add(") c) AND ").is(d.table.State, d.kept(pending)).add(" RETURNING ")
	return d.selects(s, "", "")
}

// The codes of SQLite that mean something to us; the upper bits are details.
const (
	sqliteError      = 1
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteConstraint = 19
	sqliteMismatch   = 20
)

// code is the one that modernc.org/sqlite has as a method.
func (e *sqlite) code(err error) int {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code() & 0xff
	}
	return 0
}

// again is a database that another connection writes to.
func (e *sqlite) again(err error) bool {
	switch e.code(err) {
	case sqliteBusy, sqliteLocked:
		return true
	case 0: // other drivers
		return err != nil && (strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "database table is locked"))
	}
	return false
}

func (e *sqlite) refused(err error) bool {
	switch e.code(err) {
	case sqliteError, sqliteReadOnly, sqliteConstraint, sqliteMismatch:
		return true
	}
	return unbound(err)
}
