package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// item is a row that this Drain has claimed.
type item struct {
	row   Row
	order any
	token string
	stop  context.CancelCauseFunc // of its handler, once it runs
	begun bool                    // started, as far as is known on record
}

// claim is one attempt to get rows.
type claim struct {
	d     *Drainer
	limit int
	from  any // the smallest value of the order column to look at; nil: any
	token string
	asked bool // something that claims was sent
}

// claim takes up to limit rows. The error is a *StaleError, or what the database said; then nothing was
// claimed, or nothing that could be found again: those rows are taken back when their lease ends.
func (d *Drainer) claim(ctx context.Context, l *lane, limit int, from any) ([]*item, error) {
	c := &claim{d: d, limit: limit, from: from, token: cronce.NewRunID()}
	var got []*item
	work := func() (err error) {
		if got, err = nil, d.raise(ctx, l); err != nil {
			return err
		}
		got, err = c.take(ctx, l)
		return err
	}
	var err error
	if d.options.Fence == 0 && d.table.Side == "" && d.engine.claims(d, c) != nil {
		err = l.single(ctx, work)
	} else {
		err = l.transact(ctx, work)
	}
	switch {
	case err == nil:
	case !c.asked, d.engine.again(err), d.engine.refused(err), errors.As(err, new(*StaleError)):
		return nil, err
	default:
		// No reply: what is there under our token is ours.
		found, lookErr := c.settle(context.WithoutCancel(ctx), l)
		if lookErr != nil || len(found) == 0 {
			return nil, err
		}
		got = found
	}
	for _, it := range got {
		it.token, it.row.Token, it.row.Fence = c.token, c.token, d.options.Fence
	}
	return got, nil
}

// take selects and marks.
func (c *claim) take(ctx context.Context, l *lane) ([]*item, error) {
	d := c.d
	if d.table.Side == "" {
		if s := d.engine.claims(d, c); s != nil {
			c.asked = true
			got, err := c.read(ctx, l, s)
			slices.SortStableFunc(got, func(a, b *item) int { return compare(a.order, b.order) })
			return got, err
		}
	}
	s := d.candidates(d.statement(), c.limit, c.from)
	if d.table.State != "" {
		s.add(d.engine.lock())
	}
	got, err := c.read(ctx, l, s)
	if err != nil || len(got) == 0 {
		return nil, err
	}
	c.asked = true
	n, err := c.mark(ctx, l, keysOf(got))
	if err != nil || n == int64(len(got)) && d.table.Side == "" {
		return got, err
	}
	// Others were faster with some: no lock held them off.
	return c.read(ctx, l, c.under(got))
}

func (c *claim) read(ctx context.Context, l *lane, s *statement) (got []*item, err error) {
	err = l.query(ctx, s, func(scan func(...any) error) error {
		it, err := c.d.claimed(scan)
		got = append(got, it)
		return err
	})
	return got, err
}

// marks appends what a claim sets.
func (c *claim) marks(s *statement) *statement {
	t := c.d.table
	s.is(c.d.stateColumn(), c.d.kept(sending)).add(", ").is(t.Columns.Token, c.token)
	s.add(", ").name(t.Columns.LeaseUntil).add(" = ").after(t.Columns.LeaseUntil, c.d.options.Lease)
	s.add(", ").name(t.Columns.StartedAt).add(" = NULL, ").is(t.Columns.Fence, c.d.fence())
	return s
}

// mark makes rows ours if they are pending still, and returns how many it changed.
func (c *claim) mark(ctx context.Context, l *lane, keys [][]any) (int64, error) {
	d, t := c.d, c.d.table
	s := d.statement().add("UPDATE ").name(d.facts()).add(" SET ")
	c.marks(s).add(" WHERE ").keyed("", keys).add(" AND ").still(d.stateColumn(), d.kept(pending)).add(" AND ")
	n, err := l.exec(ctx, d.due(s, ""))
	if err != nil || t.Side == "" {
		return n, err
	}
	// In a side table a row that is not there is pending. Its primary key lets one in.
	s = d.statement().add("INSERT INTO ").name(t.Side).add(" (", quoted(d.engine, t.Key), ", ", sideState, ", ",
		quoted(d.engine, []string{t.Columns.Token, t.Columns.LeaseUntil, t.Columns.Fence}), ") VALUES ")
	for i, key := range keys {
		s.comma(i).add("(")
		for _, k := range key {
			s.arg(k).add(", ")
		}
		s.arg(sending.String()).add(", ").arg(c.token).add(", ").after(t.Columns.LeaseUntil, d.options.Lease).add(", ").arg(d.fence()).add(")")
	}
	inserted, err := l.exec(ctx, s.add(d.engine.ignore(sideState)))
	return n + inserted, err
}

// under appends the rows that are ours, of some or of all.
func (c *claim) under(of []*item) *statement {
	d, t := c.d, c.d.table
	s := d.statement().add("SELECT ")
	facts := "t"
	if t.Side != "" {
		facts = "s"
	}
	d.selects(s, "t", facts).add(" FROM ").name(t.Name).add(" t")
	if t.Side != "" {
		d.joined(s)
	}
	s.add(" WHERE ", facts, ".").is(d.stateColumn(), d.kept(sending)).add(" AND ", facts, ".").is(t.Columns.Token, c.token)
	if of != nil {
		s.add(" AND ").keyed("t.", keysOf(of))
	}
	return s.add(" ORDER BY t.").name(t.Order)
}

// settle reads back by token what a claim has got whose reply was lost. What comes to light later
// still has a lease, and nobody who started it.
func (c *claim) settle(ctx context.Context, l *lane) (found []*item, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		err = l.single(ctx, func() (err error) {
			found, err = c.read(ctx, l, c.under(nil))
			return err
		})
		if len(found) > 0 || pause > time.Second || wait(ctx, pause) != nil {
			return found, err
		}
	}
}

// fence is ours as it is kept, nil for none.
func (d *Drainer) fence() any {
	if d.options.Fence == 0 {
		return nil
	}
	return d.options.Fence
}

// raise has the job's row of cronce_fences not lower than ours, and nobody raise it before the transaction ends.
func (d *Drainer) raise(ctx context.Context, l *lane) error {
	ours := d.options.Fence
	if ours == 0 {
		return nil
	}
	for {
		var seen sql.NullInt64
		s := d.statement().add("SELECT fence FROM ").name(fencesTable).add(" WHERE ").is("job", d.options.Job).add(d.engine.share())
		if err := l.query(ctx, s, func(scan func(...any) error) error { return scan(&seen) }); err != nil {
			return err
		}
		switch {
		case seen.Valid && seen.Int64 == ours:
			return nil
		case seen.Int64 > ours:
			return &StaleError{Job: d.options.Job, Fence: ours, Seen: seen.Int64}
		case seen.Valid:
			s = d.statement().add("UPDATE ").name(fencesTable).add(" SET ").is("fence", ours).add(" WHERE ").is("job", d.options.Job).add(" AND fence < ").arg(ours)
		default:
			s = d.statement().add("INSERT INTO ").name(fencesTable).add(" (job, fence) VALUES (").arg(d.options.Job).add(", ").arg(ours).add(")").add(d.engine.ignore("fence"))
		}
		if _, err := l.exec(ctx, s); err != nil {
			return err
		}
	}
}

func keysOf(items []*item) [][]any {
	keys := make([][]any, len(items))
	for i, it := range items {
		keys[i] = it.row.Key
	}
	return keys
}

// compare orders what the order column gave; what has no order we know of stays as it came.
func compare(a, b any) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case float64:
		if b, ok := b.(float64); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b)
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b)
		}
	}
	return 0
}

// wait is a pause that the context ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
