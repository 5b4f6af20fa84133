package rows

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
)

// inspector is what Preflight asks of an engine.
type inspector interface {
	// inspect adds what is amiss with the server, its settings as the pool's connections have them, and the tables. The lane
	// is set as claims are.
	inspect(ctx context.Context, l *lane, r *Report) error
	// transaction is a query for isolation level and whether the transaction is read-only; empty: neither can differ.
	transaction() string
	// server is a query for a text that is another one on another server; empty: there is one.
	server() string
	// writable is SQL that lets transactions write again.
	writable() string
	// user is who we are, as GRANT has it; empty: there are no users.
	user(ctx context.Context, q querier) (string, error)
	// denied reports whether the user lacks a right.
	denied(err error) bool
	// analyze is SQL that has the planner look at a table anew.
	analyze(table string) string
	// explain asks how a statement would be run.
	explain(ctx context.Context, l *lane, s *statement) (plan, error)
	// triggers are those that run when the state changes.
	triggers(ctx context.Context, l *lane) ([]trigger, error)
	// snapshots adds transactions that are older.
	snapshots(ctx context.Context, l *lane, older time.Duration, r *Report) error
}

// trigger is one on the table or its side table.
type trigger struct {
	table, name string
	text        string // what it does
	drop        string // SQL
}

// oldSnapshot is from when on an open transaction is worth a word.
const oldSnapshot = time.Minute

// examine looks at one thing after the other; what needs columns and transactions is left out where there are none.
func (d *Drainer) examine(ctx context.Context, r *Report) error {
	fits := d.examineNeeds(r)
	l := &lane{d: d}
	defer l.drop()
	if err := l.open(ctx); err != nil {
		if d.engine.refused(err) {
			r.note(Refused, "session", "-- "+d.engine.session(), "the database does not take the settings of claims: %v", err)
			return nil
		}
		return err
	}
	if err := d.engine.inspect(ctx, l, r); err != nil {
		return err
	}
	holds, err := d.examineSession(ctx, l, r)
	if err != nil {
		return err
	}
	d.examineColumns(r)
	if err := d.examineTriggers(ctx, l, r); err != nil {
		return err
	}
	older := oldSnapshot
	if fits && holds && !r.refused("server", "session") {
		for _, look := range []func(context.Context, *lane, *Report) error{d.examineRights, d.examineStrays, d.examinePlan, d.examineRows, d.prove} {
			if err := look(ctx, l, r); err != nil {
				return err
			}
		}
		if r.refused("locks") {
			older = lockPatience
		}
	}
	return d.engine.snapshots(ctx, l, older, r)
}

// examineNeeds names all that is missing, so that what is printed is mended in one go. What a drain is right without is
// left to the plan where there can be one.
func (d *Drainer) examineNeeds(r *Report) (fits bool) {
	all := d.needs()
	fits = !slices.ContainsFunc(all, func(n need) bool { return !n.slow })
	for _, n := range all {
		if fix := or(n.sql, "-- "+n.cure); !fits {
			r.note(Refused, n.about, fix, "%s", n.what)
		}
	}
	return fits
}

// examineSession begins a transaction as claims do and looks at what has come of it. holds is false if that is not a
// transaction.
func (d *Drainer) examineSession(ctx context.Context, l *lane, r *Report) (holds bool, err error) {
	if err := l.simple(ctx, d.engine.begin()); err != nil {
		if d.engine.again(err) { // SQLite: another one writes
			return true, l.rollback(ctx)
		}
		r.note(Refused, "session", "-- connect to the database itself, or by a pooler in session or transaction mode", "a transaction cannot be begun: %v", err)
		l.drop()
		return false, l.open(ctx)
	}
	defer func() {
		if rollback := l.rollback(ctx); err == nil {
			err = rollback
		}
	}()
	query := d.engine.transaction()
	if query == "" {
		return true, nil
	}
	var isolation string
	var readOnly bool
	err = each(ctx, l.conn, func(scan func(...any) error) error { return scan(&isolation, &readOnly) }, query)
	if err != nil {
		return false, err
	}
	if got := strings.ReplaceAll(strings.ToUpper(isolation), "-", " "); got != "READ COMMITTED" {
		r.note(Refused, "session", "-- "+d.engine.session()+"\n-- is not passed on: by a proxy or a pooler, or what it sets is set back",
			"claims ask for READ COMMITTED and get %s: what they lock and what they see is not what is there now", got)
	}
	if readOnly {
		r.note(Refused, "session", d.engine.writable(), "transactions are read-only")
	}
	// Outside of a transaction there is no savepoint to go back to.
	for _, s := range []string{"SAVEPOINT cronce", "ROLLBACK TO SAVEPOINT cronce"} {
		if err := l.simple(ctx, s); err != nil {
			if !d.engine.refused(err) {
				return false, err
			}
			r.note(Refused, "session", "-- connect to the database itself, or have the pooler or driver pass on BEGIN and COMMIT",
				"each statement is a transaction by itself (autocommit), also after a BEGIN: no lock is held until the rows are marked")
			l.drop()
			return false, l.open(ctx)
		}
	}
	return true, nil
}

// examineColumns says where what is kept in columns of the table's own may surprise.
func (d *Drainer) examineColumns(r *Report) {
	t := d.table
	if t.Side != "" {
		return
	}
	defaults := SideColumns
	for i, name := range t.Columns.list() {
		c := d.fact(*name)
		if c.kind == times && !strings.EqualFold(*name, "cronce_"+*defaults.list()[i]) {
			r.note(Noted, "clock", "", "column %s (%s) has no time zone: UTC is written to it, and read from it", *name, c.declared)
		}
	}
}

// examineTriggers tells of triggers that a claim, a start and a result set off.
func (d *Drainer) examineTriggers(ctx context.Context, l *lane, r *Report) error {
	found, err := d.engine.triggers(ctx, l)
	if err != nil {
		return err
	}
	for _, t := range found {
		column := d.table.State
		if d.table.Side != "" && strings.EqualFold(t.table, d.table.Side) {
			column = sideState
		}
		if column != "" && writes(t.text, t.table, column) {
			r.note(Refused, "trigger", t.drop, "trigger %s on %s writes to %s itself: what a claim marks may not be what is there then", t.name, t.table, column)
			continue
		}
		r.note(Slow, "trigger", "", "trigger %s on %s runs up to three times for each row: when it is claimed, started, and done", t.name, t.table)
	}
	return nil
}

// writes reports whether a trigger's text seems to assign the table's column.
func writes(text, table, column string) bool {
	quoted := func(name string) string { return "[`\"]?" + regexp.QuoteMeta(name) + "[`\"]?" }
	name := quoted(column)
	assigns := `(?is)\bNEW\s*\.\s*` + name + `\s*:=|\bINTO\s+NEW\s*\.\s*` + name + `\b` +
		`|(?:\bSET\s+|\bBEGIN\s+|\bTHEN\s+|\bELSE\s+|[,;]\s*)NEW\s*\.\s*` + name + `\s*=` // elsewhere it compares
	if regexp.MustCompile(assigns).MatchString(text) {
		return true
	}
	update := regexp.MustCompile(`(?is)\bUPDATE\s+(?:OR\s+\w+\s+)?` + quoted(base(table)) + `\s+SET\s+(.*?)(?:\bWHERE\b|;|$)`)
	set := regexp.MustCompile(`(?is)(?:^|,)\s*` + name + `\s*=`)
	for _, m := range update.FindAllStringSubmatch(text, -1) {
		if set.MatchString(m[1]) {
			return true
		}
	}
	return false
}

// unseen is for what this user may not look at, which few may: it is no fault, and the rest goes on.
func (d *Drainer) unseen(r *Report, what, right string, err error) error {
	if err == nil || !d.engine.refused(err) {
		return err
	}
	r.Unseen = append(r.Unseen, what+", which takes the right "+right)
	return nil
}

// examineStrays names rows that nobody would ever claim, as Open does.
func (d *Drainer) examineStrays(ctx context.Context, l *lane, r *Report) error {
	n, err := d.rowNeed(ctx, l)
	if err != nil {
		return err
	}
	if n != nil {
		r.note(Refused, n.about, "-- "+n.cure, "%s", n.what)
	}
	return l.open(ctx) // which was given back
}

// refused reports whether something about one of these is refused.
func (r *Report) refused(about ...string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Refused && slices.Contains(about, f.About) })
}

// skew is what a host's clock that differs from the database's is worth. The database was asked between two times of the host.
func (r *Report) skew(before, after, database time.Time) {
	off := max(before.Sub(database), 0) + min(after.Sub(database), 0) // both are more than zero, both less, or it is none
	if off = off.Round(time.Second); off > maxSkew || off < -maxSkew {
		r.note(Noted, "clock", "-- set this host's clock, and the database's, by NTP", "this host's clock is %s off the database's: leases and waits go by the database's, lines of the log by this host's", off)
	}
}

const maxSkew = 5 * time.Second

// snapshot is for a transaction that is open for long.
func (r *Report) snapshot(fix, who string, seconds int64) {
	r.note(Slow, "transaction", fix, "%s has a transaction open since %s: what is finished meanwhile cannot be cleared away, and claims read past it", who, time.Duration(seconds)*time.Second)
}

// tables are the ones that are written to with each row.
func (d *Drainer) tables() []string {
	if d.table.Side == "" {
		return []string{d.table.Name}
	}
	return []string{d.table.Name, d.table.Side}
}
