package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mysql is MariaDB from 10.6 on, and MySQL from 8.0.1.
type mysql struct{ version string }

func (e *mysql) name() string {
	if strings.Contains(e.version, "MariaDB") {
		return "MariaDB " + e.version
	}
	return "MySQL " + e.version
}

func (e *mysql) quote(name string) string {
	return "`" + strings.ReplaceAll(name, ".", "`.`") + "`"
}

func (e *mysql) stored(column string) string { return column }

func (e *mysql) placeholder(int) string { return "?" }

// now is UTC: connections are set so.
func (e *mysql) now(column) string { return "NOW(6)" }

func (e *mysql) after(_ column, seconds string) string {
	return "NOW(6) + INTERVAL " + seconds + " SECOND"
}

func (e *mysql) look(ctx context.Context, db *sql.DB, table string) (l looks, err error) {
	schema, name, found := strings.Cut(table, ".")
	if !found {
		schema, name = "", table
	}
	const where = " WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?"
	var what string
	err = db.QueryRowContext(ctx, "SELECT TABLE_TYPE, COALESCE(ENGINE, ''), TABLE_COMMENT FROM information_schema.TABLES"+where, schema, name).Scan(&what, &l.storage, &l.remark)
	if err == sql.ErrNoRows {
		return looks{}, nil
	} else if err != nil {
		return l, err
	}
	if what != "BASE TABLE" && what != "SYSTEM VERSIONED" {
		l.what = "a " + strings.ToLower(what)
	}
	err = each(ctx, db, func(scan func(...any) error) error {
		var c column
		var kind, nullable string
		if err := scan(&c.name, &kind, &c.declared, &nullable, &c.length, &c.narrow, &c.collate); err != nil {
			return err
		}
		c.nullable = nullable == "YES"
		switch kind {
		case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
			c.kind = texts
		case "tinyint", "smallint", "mediumint", "int", "bigint":
			c.kind = integers
			c.unsigned = strings.Contains(c.declared, "unsigned")
			c.length = map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[kind]
		case "timestamp":
			c.kind = instants
		case "datetime":
			c.kind = times
		case "uuid":
			c.kind = uuids
		case "bit":
			c.kind = bits
		case "enum":
			c.kind = enums
			c.values = enumValues(c.declared)
		}
		l.columns = append(l.columns, c)
		return nil
	}, "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), COALESCE(CHARACTER_SET_NAME, 'utf8mb4') <> 'utf8mb4',"+
		" COALESCE(CONCAT(' CHARACTER SET ', CHARACTER_SET_NAME, ' COLLATE ', COLLATION_NAME), '') FROM information_schema.COLUMNS"+where+
		" ORDER BY ORDINAL_POSITION", schema, name)
	if err != nil {
		return l, err
	}
	if l.what == "" {
		if err := e.define(ctx, db, table, l.columns); err != nil && !e.refused(err) {
			return l, err
		}
	}
	var last string
	var unique, whole bool
	var columns []string
	end := func() {
		if columns != nil && whole {
			l.indexes = append(l.indexes, columns)
			if unique {
				l.unique = append(l.unique, columns)
			}
		}
		columns, whole = nil, true
	}
	err = each(ctx, db, func(scan func(...any) error) error {
		var index, column string
		var repeats, prefix bool
		if err := scan(&index, &repeats, &column, &prefix); err != nil {
			return err
		}
		if index != last {
			end()
			last, unique = index, !repeats
		}
		columns = append(columns, column)
		c, _ := l.column(column)
		unique = unique && !c.nullable
		whole = whole && !prefix
		return nil
	}, "SELECT INDEX_NAME, NON_UNIQUE, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL FROM information_schema.STATISTICS"+where+
		" ORDER BY INDEX_NAME, SEQ_IN_INDEX", schema, name)
	end()
	return l, err
}

// define reads what the server would write of each column behind its type: default, comment, checks and all else, of
// which a MODIFY keeps only what it repeats.
func (e *mysql) define(ctx context.Context, db *sql.DB, table string, columns []column) error {
	var name, text string
	if err := db.QueryRowContext(ctx, "SHOW CREATE TABLE "+e.quote(table)).Scan(&name, &text); err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		for i := range columns {
			c := &columns[i]
			for _, quote := range []string{"`", `"`, ""} {
				if rest, ok := strings.CutPrefix(line, quote+c.name+quote+" "+c.declared); ok && c.rest == "" {
					c.rest = rest + " " // known, also where there is nothing
				}
			}
		}
	}
	return nil
}

func (e *mysql) retype(table string, c column, declared string) string {
	if c.rest == "" {
		return ""
	}
	return fmt.Sprintf("ALTER TABLE %s MODIFY %s %s;\n", e.quote(table), e.quote(c.name), strings.TrimSpace(declared+c.rest))
}

func (e *mysql) extend(table string, c column, values []string) string {
	declared := strings.TrimSuffix(c.declared, ")")
	for _, v := range values {
		declared += "," + literal(strings.ReplaceAll(v, `\`, `\\`))
	}
	return e.retype(table, c, declared+")")
}

// enumValues reads enum('a','it”s').
func enumValues(declared string) (all []string) {
	text := strings.TrimSuffix(strings.TrimPrefix(declared, "enum("), ")")
	for part := range strings.SplitSeq(text, "','") {
		all = append(all, strings.ReplaceAll(strings.Trim(part, "'"), "''", "'"))
	}
	return all
}

func (e *mysql) declare(k kind) string {
	switch k {
	case texts:
		return "VARCHAR(500) CHARACTER SET utf8mb4 NULL"
	case uuids:
		return "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL"
	case instants:
		return "DATETIME(6) NULL"
	default:
		return "BIGINT NULL"
	}
}

func (e *mysql) remark(_, text string) (opened, closed, after string) {
	return "", " COMMENT = " + literal(text), ""
}

func (e *mysql) index(name, table string, columns ...string) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s);", e.quote(name), e.quote(table), quoted(e, columns))
}

// session is what claims need, whatever the server or the pool is set to: states are never cut to
// what fits, times are UTC, and nothing waits for a lock for long.
func (e *mysql) session() string {
	return "SET SESSION " + e.isolation() + " = 'READ-COMMITTED', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'," +
		" autocommit = 1, completion_type = 'NO_CHAIN', sql_select_limit = 18446744073709551615, sql_safe_updates = 0, innodb_lock_wait_timeout = 5"
}

// isolation is the variable's name: MariaDB has MySQL's only since 11.1.
func (e *mysql) isolation() string {
	if strings.Contains(e.version, "MariaDB") {
		return "tx_isolation"
	}
	return "transaction_isolation"
}

func (e *mysql) prepares() bool { return true }

func (e *mysql) begin() string { return "START TRANSACTION" }

// tuples: of a list (a, b) IN ((?, ?), (?, ?)) MariaDB 10.11 finds the first only where a text is of another
// character set than the connection.
func (e *mysql) tuples() (bool, string) { return true, "" }

func (e *mysql) lock() string { return " FOR UPDATE SKIP LOCKED" }

func (e *mysql) share() string { return " LOCK IN SHARE MODE" }

func (e *mysql) ignore(column string) string {
	return " ON DUPLICATE KEY UPDATE " + column + " = " + column
}

// claims is nil: MariaDB has no UPDATE that returns rows.
func (e *mysql) claims(*Drainer, *claim) *statement { return nil }

// mysqlNumber is the server's error number, which the driver has in front of its text alone.
var mysqlNumber = regexp.MustCompile(`^Error (\d+)[ :]`)

func (e *mysql) number(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if m := mysqlNumber.FindStringSubmatch(err.Error()); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	return 0
}

// again is a deadlock, also Galera's at COMMIT, or a lock that was waited for too long.
func (e *mysql) again(err error) bool { n := e.number(err); return n == 1213 || n == 1205 }

func (e *mysql) refused(err error) bool {
	if unbound(err) {
		return true
	}
	switch e.number(err) {
	case 0, 1020, 1021, 1026, 1030, 1037, 1040, 1041, 1047, 1053, 1114, 1152, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1213, 1226, 1290, 1317, 1412, 1615, 1792, 1836, 1927, 1969, 3024:
		return false // the disk is full, the server is busy, going or read-only, a statement took too long, the table is being altered: it may pass
	}
	return true
}
