package rows

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// overdueAfter is how long after its lease a claim is taken back: columns that keep whole seconds round.
const overdueAfter = time.Second

// reclaimed is what became of the rows of dead workers.
type reclaimed struct{ pending, unknown, dead int64 }

var errDied = errors.New("its process ended, or was away for longer than its lease, while the handler was at work")

// reclaim takes back claims whose lease has ended. What was never started is pending again; what was started
// is in doubt.
func (d *Drainer) reclaim(ctx context.Context, l *lane) (all reclaimed, err error) {
	type row struct {
		key     []any
		crashes int
	}
	var fresh, begun []row
	s := d.statement().add("SELECT ", d.keys(), ", COALESCE(").name(d.table.Columns.Crashes).add(", 0), CASE WHEN ")
	s.name(d.table.Columns.StartedAt).add(" IS NULL THEN 0 ELSE 1 END FROM ").name(d.facts()).add(" WHERE ")
	err = l.single(ctx, func() error {
		fresh, begun = nil, nil
		return l.query(ctx, d.overdue(s).add(" LIMIT 1000"), func(scan func(...any) error) error {
			var r row
			var started int
			var err error
			if r.key, err = d.scanKey(scan, &r.crashes, &started); err != nil {
				return err
			}
			if started == 1 {
				begun = append(begun, r)
			} else {
				fresh = append(fresh, r)
			}
			return nil
		})
	})
	if err != nil || len(fresh)+len(begun) == 0 {
		return all, err
	}
	err = l.transact(ctx, func() error {
		all = reclaimed{}
		if len(fresh) > 0 {
			keys := make([][]any, len(fresh))
			for i, r := range fresh {
				keys[i] = r.key
			}
			n, err := d.takeBack(ctx, l, keys, false, pending, nil)
			if err != nil {
				return err
			}
			all.pending = n
		}
		for _, r := range begun {
			to := unknown
			if d.options.Idempotent {
				if to = pending; r.crashes+1 >= d.options.Crashes {
					to = dead
				}
			}
			n, err := d.takeBack(ctx, l, [][]any{r.key}, true, to, &r.crashes)
			if err != nil {
				return err
			}
			*map[state]*int64{pending: &all.pending, unknown: &all.unknown, dead: &all.dead}[to] += n
		}
		return nil
	})
	return all, err
}

// takeBack ends claims that are overdue still. The token goes: whoever has it is told that the row is lost.
func (d *Drainer) takeBack(ctx context.Context, l *lane, keys [][]any, begun bool, to state, crashes *int) (int64, error) {
	t := d.table.Columns
	s := d.statement().add("UPDATE ").name(d.facts()).add(" SET ").is(d.stateColumn(), d.kept(to)).add(", ")
	if begun {
		s.is(t.LastError, d.errorText(errDied)).add(", ").is(t.Crashes, *crashes+1).add(", ")
		if to == pending {
			s.name(t.NextAttemptAt).add(" = ").after(t.NextAttemptAt, d.backoff(*crashes+1)).add(", ")
		}
	}
	s.name(t.Token).add(" = NULL, ").name(t.LeaseUntil).add(" = NULL WHERE ").keyed("", keys).add(" AND ")
	d.overdue(s).add(" AND ").name(t.StartedAt)
	if begun {
		s.add(" IS NOT NULL")
	} else {
		s.add(" IS NULL")
	}
	n, err := l.exec(ctx, s)
	if err != nil || n == 0 || len(keys) > 1 {
		return n, err
	}
	return n, d.mirror(ctx, l, []*item{{row: Row{Key: keys[0]}}}, to)
}

// overdue appends that a claim has ended without a word.
func (d *Drainer) overdue(s *statement) *statement {
	until := d.table.Columns.LeaseUntil
	return s.is(d.stateColumn(), d.kept(sending)).add(" AND ").name(until).add(" < ").after(until, -overdueAfter)
}

func (r reclaimed) String() string {
	return fmt.Sprintf("%d pending again, %d unknown, %d dead", r.pending, r.unknown, r.dead)
}
