package rows

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

func (e *sqlite) inspect(ctx context.Context, l *lane, r *Report) error {
	settings := map[string]string{}
	for _, name := range []string{"journal_mode", "query_only", "synchronous"} {
		err := each(ctx, l.conn, func(scan func(...any) error) error {
			var value string
			err := scan(&value)
			settings[name] = strings.ToLower(value)
			return err
		}, "PRAGMA "+name)
		if err != nil {
			return err
		}
	}
	e.weigh(settings, r)
	d := l.d
	if !d.looks.there() || d.looks.what != "" {
		return nil
	}
	// To begin is no proof: what cannot be written to is begun as well.
	err := l.simple(ctx, "DELETE FROM "+e.quote(d.table.Name)+" WHERE 0")
	if e.code(err) == sqliteReadOnly && settings["query_only"] != "1" {
		r.note(Refused, "session", "-- open it without mode=ro or immutable, as a user who may write to the file and its folder\n", "the database is read-only: %v", err)
		return nil
	}
	if e.again(err) || e.code(err) == sqliteReadOnly {
		return nil
	}
	return err
}

// sqliteReadOnly is the code of a database that cannot be written to.
const sqliteReadOnly = 8

// weigh says what is amiss with version and settings.
func (e *sqlite) weigh(settings map[string]string, r *Report) {
	have := make([]int, 3)
	fmt.Sscanf(e.version, "%d.%d.%d", &have[0], &have[1], &have[2])
	if slices.Compare(have, []int{3, 35, 0}) < 0 {
		r.note(Refused, "version", "-- use SQLite 3.35 or a later one", "%s is too old: it has no RETURNING", e.name())
	}
	if settings["query_only"] == "1" {
		r.note(Refused, "session", e.writable(), "the database is read-only (query_only)")
	}
	if mode := settings["journal_mode"]; mode != "wal" && mode != "memory" {
		r.note(Slow, "disk", "PRAGMA journal_mode = WAL;\n", "journal_mode=%s: each reader keeps workers from writing, and they it", mode)
	}
	switch wal := settings["journal_mode"] == "wal"; {
	case settings["synchronous"] == "0", settings["synchronous"] == "1" && wal:
		r.note(Noted, "disk", "-- for each connection, as by the data source name:\nPRAGMA synchronous = FULL;\n", "synchronous=%s: if the machine fails, rows that were sent may be pending again", settings["synchronous"])
	}
}

// user is nobody: whoever may write to the file may do all.
func (e *sqlite) user(context.Context, querier) (string, error) { return "", nil }

func (e *sqlite) denied(error) bool { return false }

func (e *sqlite) transaction() string { return "" }

func (e *sqlite) server() string { return "" }

func (e *sqlite) writable() string { return "PRAGMA query_only = 0;\n" }

func (e *sqlite) analyze(table string) string { return "ANALYZE " + e.quote(table) + ";\n" }

func (e *sqlite) explain(ctx context.Context, l *lane, s *statement) (p plan, err error) {
	var said []string
	err = each(ctx, l.conn, func(scan func(...any) error) error {
		var id, parent, unused int
		var detail string
		if err := scan(&id, &parent, &unused, &detail); err != nil {
			return err
		}
		said = append(said, detail)
		if detail == "SCAN t" || strings.HasPrefix(detail, "SCAN t ") {
			// Without a state it is read in its order, up to what is taken.
			p.scans = p.scans || l.d.table.State != ""
		}
		p.sorts = p.sorts || strings.Contains(detail, "TEMP B-TREE FOR ORDER BY")
		return nil
	}, "EXPLAIN QUERY PLAN "+s.text.String(), s.args...)
	if err != nil {
		return p, err
	}
	p.text, p.suited = strings.Join(said, "; "), l.d.suited()
	if p.scans && !p.sorts {
		// A partial index has but what is pending, and its order.
		if m := scanIndex.FindStringSubmatch(p.text); m != nil {
			err = each(ctx, l.conn, func(func(...any) error) error { p.scans = false; return nil },
				"SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ? AND sql LIKE '% WHERE %'", m[1])
		}
	}
	return p, err
}

var scanIndex = regexp.MustCompile(`SCAN t USING (?:COVERING )?INDEX (\S+)`)

func (e *sqlite) triggers(ctx context.Context, l *lane) (all []trigger, err error) {
	for _, table := range l.d.tables() {
		schema, name, found := strings.Cut(table, ".")
		if !found {
			schema, name = "main", table
		}
		state := or(l.d.table.State, sideState)
		if table == l.d.table.Side {
			state = sideState
		}
		err = each(ctx, l.conn, func(scan func(...any) error) error {
			t := trigger{table: table}
			if err := scan(&t.name, &t.text); err != nil {
				return err
			}
			m := sqliteTrigger.FindStringSubmatch(t.text)
			if m == nil || m[1] != "" && !namesColumn(m[1], state) {
				return nil // of INSERT or DELETE, or of other columns
			}
			t.drop = fmt.Sprintf("DROP TRIGGER %s;\n", e.quote(t.name))
			all = append(all, t)
			return nil
		}, "SELECT name, sql FROM "+e.quote(schema)+".sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(?) ORDER BY name", name)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sqliteTrigger finds the event of a trigger on UPDATE, and its columns.
var sqliteTrigger = regexp.MustCompile(`(?is)^\s*CREATE\s.*?\bUPDATE\s+(?:OF\s+(.*?)\s+)?ON\s.*?\bBEGIN\b`)

func namesColumn(list, column string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(strings.TrimSpace(name), "\"`[]"), column) {
			return true
		}
	}
	return false
}

// snapshots finds none: SQLite does not tell who reads.
func (e *sqlite) snapshots(context.Context, *lane, time.Duration, *Report) error { return nil }
