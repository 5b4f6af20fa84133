package rows

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mysqlSettings are the variables that Preflight looks at.
var mysqlSettings = []string{
	"autocommit", "binlog_format", "innodb_flush_log_at_trx_commit", "innodb_read_only", "log_bin", "read_only", "super_read_only", "sync_binlog", "wsrep_on",
}

func (e *mysql) inspect(ctx context.Context, l *lane, r *Report) error {
	d := l.d
	settings := map[string]string{}
	// By the pool and not by the lane, which has set what it needs.
	err := each(ctx, d.db, func(scan func(...any) error) error {
		var name, value string
		err := scan(&name, &value)
		settings[strings.ToLower(name)] = strings.ToUpper(value)
		return err
	}, "SHOW VARIABLES WHERE Variable_name IN ('"+strings.Join(mysqlSettings, "', '")+"')")
	if err != nil {
		return err
	}
	e.weigh(settings, r)
	for table, l := range map[string]looks{d.table.Name: d.looks, d.table.Side: d.side, fencesTable: d.fences} {
		if l.there() && l.what == "" && !strings.EqualFold(l.storage, "InnoDB") {
			r.note(Refused, "engine", fmt.Sprintf("ALTER TABLE %s ENGINE=InnoDB;\n", e.quote(table)),
				"%s is of the engine %s, which knows no transactions: SKIP LOCKED is ignored, and after a crash a row that was started may not say so", table, l.storage)
		}
	}
	if err := e.replica(ctx, l, r); err != nil {
		return err
	}
	if err := e.ownTimes(ctx, l, r); err != nil {
		return err
	}
	before, now := time.Now(), 0.0
	if err := each(ctx, l.conn, func(scan func(...any) error) error { return scan(&now) }, "SELECT UNIX_TIMESTAMP(NOW(6)) + 0e0"); err != nil {
		return err
	}
	r.skew(before, time.Now(), unixSeconds(now))
	return nil
}

// weigh says what is amiss with version and settings, whose values are in upper case. What the server does not know is
// not among them.
func (e *mysql) weigh(settings map[string]string, r *Report) {
	off := func(name string) bool { v := settings[name]; return v == "" || v == "OFF" || v == "0" }
	if old := e.old(); old != "" {
		r.note(Refused, "version", "-- use MariaDB 10.6 or MySQL 8.0.1, or a later one", "%s", old)
	}
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if !off(name) {
			r.note(Refused, "server", "-- name the primary in the data source name; on what is the primary:\nSET GLOBAL "+name+" = 0;\n", "the server is read-only (%s=%s), as a replica is", name, settings[name])
		}
	}
	if !off("log_bin") && settings["binlog_format"] == "STATEMENT" {
		r.note(Refused, "binlog", "SET GLOBAL binlog_format = 'ROW';\n-- and in the server's configuration; then connect anew\n", "binlog_format=STATEMENT: InnoDB refuses to write at READ COMMITTED")
	}
	if !off("wsrep_on") {
		r.note(Slow, "server", "-- name one node in the data source name of all workers", "the server is a node of a Galera cluster (wsrep_on): what is locked on another node is not passed over, and of two claims of one row one is taken back at its COMMIT")
	}
	if off("autocommit") {
		r.note(Refused, "session", "-- take autocommit=0 out of the data source name; if it is the server's:\nSET GLOBAL autocommit = 1;\n",
			"the connections of the pool have autocommit=0: what handlers write by it is taken back unless they COMMIT, and each read keeps a snapshot open")
	}
	if v := settings["innodb_flush_log_at_trx_commit"]; v != "1" && v != "" {
		r.note(Noted, "disk", "SET GLOBAL innodb_flush_log_at_trx_commit = 1;\n-- and in the server's configuration\n", "innodb_flush_log_at_trx_commit=%s: if the server's machine fails, rows of its last second are pending again that were sent", v)
	}
	if !off("log_bin") && off("sync_binlog") {
		r.note(Noted, "disk", "SET GLOBAL sync_binlog = 1;\n-- and in the server's configuration\n", "sync_binlog=0: if the server's machine fails, rows that were sent may be pending again")
	}
}

// old is what is wrong with the version, if anything.
func (e *mysql) old() string {
	if strings.Contains(e.version, "TiDB") {
		return e.version + " is TiDB, which locks otherwise than MySQL"
	}
	least := []int{8, 0, 1}
	if strings.Contains(e.version, "MariaDB") {
		least = []int{10, 6, 0}
	}
	have := make([]int, 3)
	fmt.Sscanf(e.version, "%d.%d.%d", &have[0], &have[1], &have[2])
	if slices.Compare(have, least) < 0 {
		return e.name() + " is too old: it has no SKIP LOCKED"
	}
	return ""
}

// replica refuses a server that follows another one: what is claimed here is not known there.
func (e *mysql) replica(ctx context.Context, l *lane, r *Report) error {
	follows := func(query string) (n int, err error) {
		found, err := l.conn.QueryContext(ctx, query)
		if err != nil {
			return 0, err
		}
		defer found.Close()
		for found.Next() { // with as many columns as the version has
			n++
		}
		return n, found.Err()
	}
	mariadb := strings.Contains(e.version, "MariaDB")
	query := "SHOW REPLICA STATUS"
	if mariadb {
		query = "SHOW ALL REPLICAS STATUS"
	}
	n, err := follows(query)
	if e.number(err) == errSyntax {
		n, err = follows("SHOW SLAVE STATUS")
	}
	if err != nil && mariadb && e.refused(err) {
		// Whoever may not see that may see how many run.
		err = each(ctx, l.conn, func(scan func(...any) error) error {
			var name, value string
			err := scan(&name, &value)
			n, _ = strconv.Atoi(value)
			return err
		}, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
	}
	if err != nil {
		return l.d.unseen(r, "whether the server is a replica", "REPLICATION CLIENT", err)
	}
	if n > 0 {
		r.note(Refused, "server", "-- name the primary in the data source name; on what is a replica no more:\nSTOP REPLICA;\nRESET REPLICA ALL;\n", "the server is a replica: its primary does not know what is claimed here")
	}
	return nil
}

// errSyntax is the number of a statement that the server does not know.
const errSyntax = 1064

func (e *mysql) user(ctx context.Context, q querier) (user string, err error) {
	err = each(ctx, q, func(scan func(...any) error) error { return scan(&user) }, "SELECT CURRENT_USER()")
	name, host := user, "%"
	if i := strings.LastIndex(user, "@"); i >= 0 {
		name, host = user[:i], user[i+1:]
	}
	return literal(name) + "@" + literal(host), err
}

// denied: to a database, table or column.
func (e *mysql) denied(err error) bool {
	n := e.number(err)
	return n == 1044 || n == 1142 || n == 1143
}

// What is changed in a column of times, before its comment.
var (
	onUpdate     = regexp.MustCompile(`(?i)^([^']*?) ON UPDATE current_timestamp(?:\(\d*\))?`)
	currentTime  = regexp.MustCompile(`(?i)^([^']*?)current_timestamp(?:\(\d*\))?`)
	wholeSeconds = regexp.MustCompile(`^(datetime|timestamp)(?:\(\d\))?`)
)

// ownTimes looks at columns of times that the table had: the server may change them by itself.
func (e *mysql) ownTimes(ctx context.Context, l *lane, r *Report) error {
	d, t := l.d, l.d.table
	schema, name, found := strings.Cut(d.facts(), ".")
	if !found {
		schema, name = "", d.facts()
	}
	return each(ctx, l.conn, func(scan func(...any) error) error {
		var column, kind, extra string
		var digits int
		if err := scan(&column, &kind, &extra, &digits); err != nil {
			return err
		}
		c := d.fact(column)
		ours := containsFold([]string{t.Columns.LeaseUntil, t.Columns.StartedAt, t.Columns.NextAttemptAt}, column)
		switch {
		case ours && strings.Contains(strings.ToLower(extra), "on update"):
			c.rest = onUpdate.ReplaceAllString(c.rest, "$1")
			r.note(Refused, "clock", or(e.retype(d.facts(), c, kind), "-- take ON UPDATE off the column"), "column %s (%s %s) is set by the server whenever the row is changed: a claimed row would look as if it had been started", column, kind, extra)
		case strings.EqualFold(column, t.Columns.LeaseUntil) && digits < 3:
			c.rest = currentTime.ReplaceAllString(c.rest, "${1}current_timestamp(6)")
			r.note(Noted, "clock", or(e.retype(d.facts(), c, wholeSeconds.ReplaceAllString(kind, "$1(6)")), "-- give the column six digits"), "column %s (%s) keeps whole seconds: leases end up to a second early", column, kind)
		}
		return nil
	}, "SELECT COLUMN_NAME, COLUMN_TYPE, EXTRA, DATETIME_PRECISION FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? AND DATETIME_PRECISION IS NOT NULL",
		schema, name)
}

func (e *mysql) transaction() string {
	name := strings.TrimSuffix(e.isolation(), "isolation")
	return "SELECT @@" + name + "isolation, @@" + name + "read_only"
}

func (e *mysql) server() string { return "SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id)" }

func (e *mysql) writable() string {
	return "SET GLOBAL " + strings.TrimSuffix(e.isolation(), "isolation") + "read_only = 0;\n-- or take it out of the data source name\n"
}

func (e *mysql) analyze(table string) string { return "ANALYZE TABLE " + e.quote(table) + ";\n" }

func (e *mysql) explain(ctx context.Context, l *lane, s *statement) (p plan, err error) {
	found, err := l.conn.QueryContext(ctx, "EXPLAIN "+s.text.String(), s.args...)
	if err != nil {
		return p, err
	}
	defer found.Close()
	names, err := found.Columns()
	if err != nil {
		return p, err
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for found.Next() {
		if err := found.Scan(into...); err != nil {
			return p, err
		}
		of := map[string]string{}
		for i, name := range names {
			of[strings.ToLower(name)] = values[i].String
		}
		e.read(of, l.d.table.State != "", &p)
	}
	p.suited = l.d.suited()
	return p, found.Err()
}

// read adds a line of EXPLAIN to the plan.
func (e *mysql) read(of map[string]string, stateful bool, p *plan) {
	if p.text != "" {
		p.text += "; "
	}
	p.text += fmt.Sprintf("%s: %s", or(of["table"], "-"), or(of["type"], "nothing"))
	if of["key"] != "" {
		p.text += " by " + of["key"]
	}
	if of["rows"] != "" {
		p.text += ", about " + of["rows"] + " rows"
	}
	if of["extra"] != "" {
		p.text += ", " + of["extra"]
	}
	switch of["type"] {
	case "ALL", "":
		p.scans = true
	case "index":
		p.scans = p.scans || stateful // all of the index, in its order
	}
	p.sorts = p.sorts || strings.Contains(of["extra"], "filesort") || strings.Contains(of["extra"], "temporary")
}

func (e *mysql) triggers(ctx context.Context, l *lane) (all []trigger, err error) {
	for _, table := range l.d.tables() {
		schema, name, found := strings.Cut(table, ".")
		if !found {
			schema, name = "", table
		}
		err = each(ctx, l.conn, func(scan func(...any) error) error {
			t := trigger{table: table}
			var of string
			err := scan(&of, &t.name, &t.text)
			t.drop = fmt.Sprintf("DROP TRIGGER %s;\n", e.quote(of+"."+t.name))
			all = append(all, t)
			return err
		}, "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS"+
			" WHERE EVENT_OBJECT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND EVENT_OBJECT_TABLE = ? AND EVENT_MANIPULATION = 'UPDATE' ORDER BY 1, 2", schema, name)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *mysql) snapshots(ctx context.Context, l *lane, older time.Duration, r *Report) error {
	// trx_started is in the server's own zone. The lane is not used for claims after this.
	if err := l.simple(ctx, "SET SESSION time_zone = 'SYSTEM'"); err != nil {
		return err
	}
	err := each(ctx, l.conn, func(scan func(...any) error) error {
		var id, seconds int64
		var who string
		if err := scan(&id, &seconds, &who); err != nil {
			return err
		}
		r.snapshot(fmt.Sprintf("KILL %d;\n", id), fmt.Sprintf("connection %d of %s", id, who), seconds)
		return nil
	}, fmt.Sprintf(`SELECT t.trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), COALESCE(CONCAT(p.USER, ' at ', p.HOST), 'somebody')
FROM information_schema.INNODB_TRX t LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id <> CONNECTION_ID() AND t.trx_started <= NOW() - INTERVAL %d SECOND ORDER BY t.trx_started LIMIT 3`, int(older.Seconds())))
	return l.d.unseen(r, "open transactions", "PROCESS", err)
}
