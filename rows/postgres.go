package rows

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// postgres is PostgreSQL from 12 on.
type postgres struct{ version string }

func (e *postgres) name() string {
	words := strings.Fields(e.version)
	return strings.Join(words[:min(2, len(words))], " ")
}

func (e *postgres) quote(name string) string {
	return `"` + strings.ReplaceAll(name, ".", `"."`) + `"`
}

func (e *postgres) stored(column string) string { return column }

func (e *postgres) placeholder(n int) string { return "$" + strconv.Itoa(n) }

func (e *postgres) now(c column) string {
	if c.kind == times {
		return "(now() AT TIME ZONE 'UTC')"
	}
	return "now()"
}

func (e *postgres) after(c column, seconds string) string {
	return e.now(c) + " + " + seconds + " * interval '1 second'"
}

func (e *postgres) look(ctx context.Context, db *sql.DB, table string) (l looks, err error) {
	var id sql.NullInt64
	var what sql.NullString
	err = db.QueryRowContext(ctx, "SELECT c.oid::bigint, c.relkind::text, c.relkind = 'r' AND EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid), COALESCE(obj_description(c.oid, 'pg_class'), '') FROM pg_class c WHERE c.oid = to_regclass($1)",
		e.quote(table)).Scan(&id, &what, &l.heirs, &l.remark)
	if err == sql.ErrNoRows {
		return looks{}, nil
	} else if err != nil {
		return l, err
	}
	l.what = map[string]string{"r": "", "p": "", "v": "a view", "m": "a materialized view", "f": "a foreign table"}[what.String]
	err = each(ctx, db, func(scan func(...any) error) error {
		var c column
		var base, class, values string
		if err := scan(&c.name, &c.declared, &base, &class, &c.nullable, &c.length, &values, &c.narrow, &c.collate, &c.base); err != nil {
			return err
		}
		switch {
		case class == "e":
			c.kind, c.values = enums, strings.Split(values, "\x1f")
		case base == "text" || base == "varchar" || base == "bpchar" || base == "citext":
			c.kind = texts
		case base == "int2" || base == "int4" || base == "int8":
			c.kind = integers
		case base == "timestamptz":
			c.kind = instants
		case base == "timestamp":
			c.kind = times
		case base == "uuid":
			c.kind = uuids
		case base == "bool":
			c.kind = booleans
		}
		l.columns = append(l.columns, c)
		return nil
	}, `SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname, t.typtype::text, NOT a.attnotnull AND NOT declared.typnotnull,
	CASE WHEN t.typname IN ('varchar', 'bpchar') AND m.length > 4 THEN m.length - 4
		WHEN t.typname IN ('int2', 'int4', 'int8') THEN t.typlen * 8 ELSE 0 END,
	COALESCE((SELECT string_agg(enumlabel, chr(31) ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid), ''),
	current_setting('server_encoding') <> 'UTF8',
	COALESCE((SELECT ' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(o.collname) FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
		WHERE o.oid = a.attcollation AND a.attcollation <> declared.typcollation), ''),
	format_type(t.oid, NULL)
FROM pg_attribute a JOIN pg_type declared ON declared.oid = a.atttypid JOIN pg_type t ON t.oid = CASE declared.typtype WHEN 'd' THEN declared.typbasetype ELSE declared.oid END,
	LATERAL (SELECT CASE declared.typtype WHEN 'd' THEN declared.typtypmod ELSE a.atttypmod END AS length) m
WHERE a.attrelid = $1::bigint AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, id.Int64)
	if err != nil {
		return l, err
	}
	err = each(ctx, db, func(scan func(...any) error) error {
		var unique bool
		var text string
		if err := scan(&unique, &text); err != nil {
			return err
		}
		columns := strings.Split(text, "\x1f")
		l.indexes = append(l.indexes, columns)
		if unique {
			l.unique = append(l.unique, columns)
		}
		return nil
	}, `SELECT i.indisunique AND i.indimmediate AND bool_and(COALESCE(a.attnotnull, false)), string_agg(COALESCE(a.attname, ''), chr(31) ORDER BY k.place)
FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place) LEFT JOIN pg_attribute a ON a.attrelid = $1::bigint AND a.attnum = k.attnum
WHERE i.indrelid = $1::bigint AND i.indisvalid AND i.indpred IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisunique, i.indimmediate`, id.Int64)
	return l, err
}

func (e *postgres) declare(k kind) string {
	switch k {
	case texts:
		return "text"
	case uuids:
		return "uuid"
	case instants:
		return "timestamptz"
	default:
		return "bigint"
	}
}

func (e *postgres) remark(table, text string) (opened, closed, after string) {
	return "", "", fmt.Sprintf("COMMENT ON TABLE %s IS %s;\n", e.quote(table), literal(text))
}

func (e *postgres) index(name, table string, columns ...string) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s);", e.quote(name), e.quote(table), quoted(e, columns))
}

func (e *postgres) retype(table string, c column, declared string) string {
	return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s%s;\n", e.quote(table), e.quote(c.name), declared, c.collate)
}

func (e *postgres) extend(_ string, c column, values []string) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "ALTER TYPE %s ADD VALUE %s;\n", c.base, literal(v))
	}
	return b.String()
}

func (e *postgres) session() string { return "" }

func (e *postgres) prepares() bool { return false }

func (e *postgres) begin() string { return "BEGIN ISOLATION LEVEL READ COMMITTED" }

func (e *postgres) tuples() (bool, string) { return false, "" }

func (e *postgres) lock() string { return " FOR NO KEY UPDATE OF t SKIP LOCKED" }

func (e *postgres) share() string { return " FOR SHARE" }

func (e *postgres) ignore(string) string { return " ON CONFLICT DO NOTHING" }

// claims materializes what it locks: as a subquery (IN (SELECT … LIMIT …)) the planner may run it once more
// for each row, and claim more than the limit.
func (e *postgres) claims(d *Drainer, c *claim) *statement {
	s := d.statement().add("WITH c AS MATERIALIZED (")
	d.candidates(s, c.limit, c.from)
	s.add(e.lock(), ") UPDATE ").name(d.table.Name).add(" u SET ")
	c.marks(s)
	s.add(" FROM c WHERE ")
	for i, k := range d.table.Key {
		if i > 0 {
			s.add(" AND ")
		}
		s.add("u.").name(k).add(" = c.", selectedName(i))
	}
	s.add(" AND ").still(d.table.State, d.kept(pending)).add(" RETURNING ")
	return d.selects(s, "u", "u")
}

// again: serialization failure, deadlock, a lock that was waited for too long.
func (e *postgres) again(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01", "55P03":
		return true
	}
	return false
}

func (e *postgres) refused(err error) bool {
	if unbound(err) {
		return true
	}
	state := sqlState(err)
	if len(state) != 5 || state == "0A000" && strings.Contains(err.Error(), "cached plan") { // somebody has altered the table
		return false
	}
	switch state[:2] {
	case "08", "25", "53", "57", "58", "XX", "40", "55": // no connection, read-only, disk or memory full, shutting down
		return false
	}
	return true
}
