package rows

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// Level says how bad a [Finding] is.
type Level int

const (
	// Noted is worth knowing.
	Noted Level = iota
	// Slow is right, and slower than need be.
	Slow
	// Refused would lose rows, send them twice, keep workers from one another's rows, or does not work at all.
	Refused
)

func (l Level) String() string { return [...]string{"note", "slow", "refused"}[l] }

// Finding is one thing that [Preflight] found.
type Finding struct {
	Level Level
	About string // one word: version, engine, table, rights, session, index, server, binlog, trigger, transaction, clock, disk, locks, proof
	What  string // what is the matter, a sentence without its full stop
	Fix   string // SQL to paste; what SQL cannot do is in it as a comment. Empty: there is nothing to do
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s", f.Level, f.About, f.What)
}

// Report is what [Preflight] found.
type Report struct {
	Table    string
	Database string    // what it is, as MariaDB 10.11.6
	Rows     string    // how many are pending, due, waiting until when, and claimed; empty: they could not be counted
	Plan     string    // how the database finds the rows that a claim takes; empty: it could not be asked
	Proof    string    // what came of two claims at once; empty: there were none
	Findings []Finding // the worst first
	Unseen   []string  // what this user may not look at
}

// Worst is the highest level found; ok is false if nothing was found at all.
func (r *Report) Worst() (l Level, ok bool) {
	if len(r.Findings) == 0 {
		return 0, false
	}
	return r.Findings[0].Level, true
}

// Err is a *[TableError] for the first finding that is refused; nil: there is none.
func (r *Report) Err() error {
	if l, ok := r.Worst(); !ok || l < Refused {
		return nil
	}
	f := r.Findings[0]
	return &TableError{Table: r.Table, What: f.What, Cure: strings.TrimSpace(f.Fix)}
}

// String is the report for people, many lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s, %s\n", r.Table, r.Database)
	for _, line := range []struct{ name, text string }{{"rows", r.Rows}, {"plan", r.Plan}, {"proof", r.Proof}} {
		if line.text != "" {
			fmt.Fprintf(&b, "%s: %s\n", line.name, line.text)
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f)
		for line := range strings.Lines(f.Fix) {
			b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	for _, what := range r.Unseen {
		fmt.Fprintf(&b, "not looked at: %s\n", what)
	}
	if len(r.Findings) == 0 {
		b.WriteString("nothing is amiss\n")
	}
	return b.String()
}

// note adds a finding.
func (r *Report) note(level Level, about, fix, format string, a ...any) {
	r.Findings = append(r.Findings, Finding{Level: level, About: about, What: fmt.Sprintf(format, a...), Fix: fix})
}

// Preflight looks at table, server and session as claims will use them, and has two connections claim at
// once to see that the second gets other rows; both are rolled back. It changes nothing, and no trigger fires. What
// it finds is in the report; it may be run while workers are at work, from whom it has a few rows
// locked for a moment.
//
// Errors: the description's own (see [Table.Check]), *[UnavailableError], the context's.
func Preflight(ctx context.Context, db *sql.DB, t Table, o Options) (*Report, error) {
	d, err := prepare(ctx, db, t, o)
	if err != nil {
		return nil, err
	}
	r := &Report{Table: d.table.Name, Database: d.engine.name()}
	if err := d.examine(ctx, r); err != nil {
		return nil, d.unavailable(err)
	}
	r.sort()
	return r, nil
}

// sort puts the worst first.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return int(b.Level) - int(a.Level) })
}
