package rows

import (
	"context"
	"fmt"
)

// plan is how the database would find the rows that a claim takes.
type plan struct {
	text   string
	scans  bool // it reads rows that are not pending as well, or all of them
	sorts  bool // it reads all that are pending
	suited bool // it has an index that spares both, whether it takes it or not
}

// smallTable is up to how many rows a database may well read all of them.
const smallTable = 1000

// examinePlan has the SELECT of a claim explained.
func (d *Drainer) examinePlan(ctx context.Context, l *lane, r *Report) error {
	t := d.table
	s := d.candidates(d.statement(), d.options.Batch, nil)
	if t.State != "" {
		s.add(d.engine.lock())
	}
	p, err := d.engine.explain(ctx, l, s)
	if err != nil {
		if !d.engine.refused(err) {
			return err
		}
		// The whole statement is not taken, be it for the lock or for Where.
		r.note(Refused, "index", "", "the database does not take the statement of a claim: %v", err)
		l.drop()
		return l.open(ctx)
	}
	r.Plan = p.text
	if !p.scans && !p.sorts {
		return nil
	}
	rows, err := d.upTo(ctx, l, smallTable, d.statement().add("SELECT 1 AS one FROM ").name(t.Name))
	if err != nil {
		return err
	}
	what := "reads more rows than it takes"
	if p.sorts {
		what = "reads and sorts all pending rows"
	}
	switch few := 2 * d.options.Batch; {
	case p.suited && rows <= smallTable:
		r.Plan += " (the table is small; as it grows there is an index for it)"
	case p.suited && !p.sorts:
		r.note(Noted, "index", d.engine.analyze(t.Name), "a claim %s, and not by the index for it: that is right while most rows are pending (%s)", what, p.text)
	case p.suited:
		pending, err := d.upTo(ctx, l, few, d.candidates(d.statement(), few+1, nil))
		if err != nil {
			return err
		}
		if pending <= few {
			r.Plan += " (few rows are pending; as they grow there is an index for it)"
			return nil
		}
		r.note(Slow, "index", d.engine.analyze(t.Name), "a claim %s, although there is an index for it (%s)", what, p.text)
	case t.State == "":
		r.note(Slow, "index", d.claimsIndex(), "a claim %s (%s)", what, p.text)
	case t.Side != "": // the table may not change
		r.note(Slow, "index", d.claimsIndex(), "without an index on (%s, %s) a claim %s (%s)", t.State, t.Order, what, p.text)
	default:
		r.note(Refused, "index", d.claimsIndex(),
			"without an index on (%s, %s) a claim %s, and on some databases locks them (%s)", t.State, t.Order, what, p.text)
	}
	return nil
}

// upTo is how many rows a query has, counted to one more than most.
func (d *Drainer) upTo(ctx context.Context, l *lane, most int, s *statement) (n int, err error) {
	query := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM (%s) every LIMIT %d) few", s.text.String(), most+1)
	err = each(ctx, l.conn, func(scan func(...any) error) error { return scan(&n) }, query, s.args...)
	return n, err
}

// suited reports whether an index has the columns for it.
func (d *Drainer) suited() bool {
	if d.table.State == "" {
		return d.looks.ordered(d.table.Order)
	}
	return d.looks.ordered(d.table.State, d.table.Order)
}
