package rows

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (e *postgres) inspect(ctx context.Context, l *lane, r *Report) error {
	d := l.d
	settings, before := map[string]string{}, time.Now()
	err := each(ctx, l.conn, func(scan func(...any) error) error {
		var name, value string
		err := scan(&name, &value)
		settings[name] = value
		return err
	}, `SELECT name, setting FROM pg_settings WHERE name IN ('server_version_num', 'synchronous_commit', 'fsync')
UNION ALL SELECT 'recovery', pg_is_in_recovery()::text UNION ALL SELECT 'now', EXTRACT(EPOCH FROM clock_timestamp())::text`)
	if err != nil {
		return err
	}
	if now, err := strconv.ParseFloat(settings["now"], 64); err == nil {
		r.skew(before, time.Now(), unixSeconds(now))
	}
	e.weigh(settings, r)
	for _, table := range append(d.tables(), fencesTable) {
		err := each(ctx, l.conn, func(func(...any) error) error {
			r.note(Refused, "engine", "ALTER TABLE "+e.quote(table)+" SET LOGGED;\n", "%s is unlogged: after a crash it is empty", table)
			return nil
		}, "SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relpersistence = 'u'", e.quote(table))
		if err != nil {
			return err
		}
	}
	return nil
}

// weigh says what is amiss with version and settings.
func (e *postgres) weigh(settings map[string]string, r *Report) {
	if n, err := strconv.Atoi(settings["server_version_num"]); err == nil && n < 120000 {
		r.note(Refused, "version", "-- use Postgres 12 or a later one", "%s is too old: it may run the SELECT of a claim several times", e.name())
	}
	if settings["recovery"] == "true" {
		r.note(Refused, "server", "-- name the primary in the data source name", "the server is a replica (pg_is_in_recovery): nothing can be claimed there")
	}
	if settings["fsync"] == "off" {
		r.note(Noted, "disk", "ALTER SYSTEM SET fsync = on;\nSELECT pg_reload_conf();\n", "fsync=off: if the server's machine fails, the database may be damaged, and rows that were sent pending again")
	}
	if settings["synchronous_commit"] == "off" {
		r.note(Noted, "disk", "-- in the data source name, or:\nALTER ROLE CURRENT_USER SET synchronous_commit = on;\n", "synchronous_commit=off: if the server fails, rows of its last second are pending again that were sent")
	}
}

func (e *postgres) user(ctx context.Context, q querier) (user string, err error) {
	err = each(ctx, q, func(scan func(...any) error) error { return scan(&user) }, "SELECT quote_ident(current_user)")
	return user, err
}

func (e *postgres) denied(err error) bool { return sqlState(err) == "42501" }

func (e *postgres) transaction() string {
	return "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')::boolean"
}

func (e *postgres) server() string {
	return "SELECT concat_ws(' ', inet_server_addr(), inet_server_port(), 'since ' || pg_postmaster_start_time())"
}

func (e *postgres) writable() string {
	return "ALTER ROLE CURRENT_USER SET default_transaction_read_only = off;\n-- and see who has set it: the database, the role, the data source name\n"
}

func (e *postgres) analyze(table string) string { return "ANALYZE " + e.quote(table) + ";\n" }

// postgresNode is a node of a plan as EXPLAIN writes it.
type postgresNode struct {
	Type     string         `json:"Node Type"`
	Relation string         `json:"Relation Name"`
	Alias    string         `json:"Alias"`
	Schema   string         `json:"Schema"`
	Index    string         `json:"Index Name"`
	Cond     string         `json:"Index Cond"`
	Rows     float64        `json:"Plan Rows"`
	Plans    []postgresNode `json:"Plans"`
}

// ours reports whether it reads the table, or a partition of it.
func (n postgresNode) ours() bool { return n.Alias == "t" || strings.HasPrefix(n.Alias, "t_") }

// explain asks twice where the first plan reads too much: whether there is a better one that is not worth it yet.
func (e *postgres) explain(ctx context.Context, l *lane, s *statement) (p plan, err error) {
	if err := l.simple(ctx, "BEGIN"); err != nil {
		return p, err
	}
	defer l.rollback(ctx)
	if p, err = e.plan(ctx, l, s); err != nil || !p.scans && !p.sorts {
		return p, err
	}
	for _, name := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
		if err := l.simple(ctx, "SET LOCAL "+name+" = off"); err != nil {
			return p, err
		}
	}
	better, err := e.plan(ctx, l, s)
	p.suited = !better.scans && !better.sorts || l.d.suited()
	return p, err
}

func (e *postgres) plan(ctx context.Context, l *lane, s *statement) (p plan, err error) {
	var text string
	err = each(ctx, l.conn, func(scan func(...any) error) error { return scan(&text) }, "EXPLAIN (VERBOSE, FORMAT JSON) "+s.text.String(), s.args...)
	if err != nil {
		return p, err
	}
	var top []struct{ Plan postgresNode }
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		return p, fmt.Errorf("the plan cannot be read: %w", err)
	}
	var said []string
	var walk func(n postgresNode) error
	walk = func(n postgresNode) error {
		switch {
		case n.Type == "Sort" || n.Type == "Incremental Sort":
			p.sorts = true
			said = append(said, "sort")
		case n.Type == "Seq Scan" && n.ours():
			p.scans = true
		case (n.Type == "Index Scan" || n.Type == "Index Only Scan") && n.ours():
			// An index in the right order that says nothing of the state is read from its beginning.
			if l.d.table.State != "" && !strings.Contains(n.Cond, l.d.table.State) {
				partial, err := e.partial(ctx, l, n)
				if err != nil {
					return err
				}
				p.scans = p.scans || !partial
			}
		}
		if n.Alias != "" {
			what := n.Alias + ": " + strings.ToLower(n.Type)
			if n.Index != "" {
				what += " by " + n.Index
			}
			said = append(said, fmt.Sprintf("%s, about %.0f rows", what, n.Rows))
		}
		for _, child := range n.Plans {
			if err := walk(child); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range top {
		if err := walk(t.Plan); err != nil {
			return p, err
		}
	}
	p.text = strings.Join(said, "; ")
	return p, nil
}

// partial reports whether the index has only some rows: it is used only where these are enough.
func (e *postgres) partial(ctx context.Context, l *lane, n postgresNode) (partial bool, err error) {
	name := `"` + n.Schema + `"."` + n.Index + `"`
	err = each(ctx, l.conn, func(scan func(...any) error) error { return scan(&partial) },
		"SELECT indpred IS NOT NULL FROM pg_index WHERE indexrelid = to_regclass($1)", name)
	return partial, err
}

func (e *postgres) triggers(ctx context.Context, l *lane) (all []trigger, err error) {
	for _, table := range l.d.tables() {
		state := l.d.table.State
		if table == l.d.table.Side {
			state = sideState
		}
		err = each(ctx, l.conn, func(scan func(...any) error) error {
			t := trigger{table: table}
			err := scan(&t.name, &t.text)
			t.drop = fmt.Sprintf("DROP TRIGGER %q ON %s;\n", t.name, e.quote(table))
			all = append(all, t)
			return err
		}, `SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass($1) AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 16 <> 0
AND (cardinality(t.tgattr::int2[]) = 0 OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = t.tgrelid AND a.attnum = ANY(t.tgattr) AND a.attname = $2))
ORDER BY t.tgname`, e.quote(table), state)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// snapshots sees those of other users only as a member of pg_read_all_stats.
func (e *postgres) snapshots(ctx context.Context, l *lane, older time.Duration, r *Report) error {
	return each(ctx, l.conn, func(scan func(...any) error) error {
		var id, seconds int64
		var who, state string
		if err := scan(&id, &seconds, &who, &state); err != nil {
			return err
		}
		r.snapshot(fmt.Sprintf("SELECT pg_terminate_backend(%d);\n", id), fmt.Sprintf("connection %d of %s (%s)", id, who, state), seconds)
		return nil
	}, fmt.Sprintf(`SELECT pid, EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::bigint, COALESCE(usename, 'somebody'), COALESCE(state, '?') FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend' AND xact_start <= clock_timestamp() - interval '%d seconds' ORDER BY xact_start LIMIT 3`, int(older.Seconds())))
}
