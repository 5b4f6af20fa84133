package rows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// proofRows is how many rows each of the two claims takes.
const proofRows = 5

// proofPatience bounds what the proof may wait for.
const proofPatience = 20 * time.Second

// prove selects and locks as a claim does, on two connections, and takes both back. Nothing is marked, so that
// no trigger fires and nothing stays where an engine knows no ROLLBACK.
func (d *Drainer) prove(ctx context.Context, first *lane, r *Report) error {
	if most := d.db.Stats().MaxOpenConnections; most == 1 {
		r.Proof = "none: the pool allows one connection, and the proof takes two"
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, proofPatience, errors.New("the proof took too long"))
	defer cancel()
	second := &lane{d: d}
	defer second.drop()
	err := second.open(limited)
	if err == nil {
		err = d.proveOn(limited, first, second, r)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		r.Proof = "none: two connections could not be had in time"
		first.drop()
		return first.open(ctx)
	}
	return err
}

func (d *Drainer) proveOn(ctx context.Context, first, second *lane, r *Report) error {
	if query := d.engine.server(); query != "" {
		var servers [2]string
		for i, l := range []*lane{first, second} {
			if err := each(ctx, l.conn, func(scan func(...any) error) error { return scan(&servers[i]) }, query); err != nil {
				return err
			}
		}
		if servers[0] != servers[1] {
			r.note(Refused, "server", "-- name one server in the data source name: the primary", "the connections of this pool end at different servers (%s; %s): what one writes the other may not see yet", servers[0], servers[1])
			return nil
		}
	}
	if d.table.State == "" {
		r.Proof = "none: without a state column it is the side table's key that lets one claim a row"
		return nil
	}
	defer first.rollback(ctx)
	ours, err := d.lockPatiently(ctx, first)
	if err != nil {
		if d.engine.again(err) {
			r.Proof = "none: another one is writing"
			return nil
		}
		return d.notLocked(ctx, first, r, err)
	}
	if _, lite := d.engine.(*sqlite); lite {
		return d.proveWaits(ctx, second, r)
	}
	if len(ours) == 0 {
		return d.proveNone(ctx, second, r)
	}
	defer second.rollback(ctx)
	theirs, err := d.lockSome(ctx, second)
	switch {
	case err != nil && d.engine.again(err):
		r.note(Refused, "proof", "", "a second claimer has to wait for the first: locked rows are not passed over (%v)", err)
	case err != nil:
		return d.notLocked(ctx, second, r, err)
	case both(ours, theirs) != "":
		r.note(Refused, "proof", "", "a second claimer gets a row that the first has locked (%s): locks, or transactions, do not hold", both(ours, theirs))
	case len(theirs) == 0:
		return d.proveNoneLeft(ctx, second, ours, r)
	default:
		r.Proof = fmt.Sprintf("two claims at once got different rows (%s; %s)", keysText(ours), keysText(theirs))
	}
	return nil
}

// proveWaits is for SQLite: the second cannot begin while the first is not done.
func (d *Drainer) proveWaits(ctx context.Context, second *lane, r *Report) error {
	if err := second.simple(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	err := second.simple(ctx, d.engine.begin())
	switch {
	case err == nil:
		second.rollback(ctx)
		r.note(Refused, "proof", "-- open one file by one path", "a second claimer can begin while the first is not done: the two connections are not to one database")
	case d.engine.again(err):
		r.Proof = "a second claim cannot begin before the first is done"
	default:
		return d.notLocked(ctx, second, r, err)
	}
	return nil
}

// proveNoneLeft tells whether the first took all there was, or locked more than it took.
func (d *Drainer) proveNoneLeft(ctx context.Context, second *lane, ours [][]any, r *Report) error {
	pending := 0
	err := second.query(ctx, d.candidates(d.statement(), 2*proofRows, nil), func(scan func(...any) error) error { pending++; return nil })
	if err != nil {
		return err
	}
	if pending > len(ours) {
		r.note(Slow, "proof", "", "a second claimer gets nothing while a first one has locked %d rows of %d or more: others have the rest locked, or the first locks more than it takes", len(ours), pending)
		return nil
	}
	r.Proof = fmt.Sprintf("a second claim got none of the rows that a first one had (%s), and there were no others", keysText(ours))
	return nil
}

// proveNone says why nothing was locked.
func (d *Drainer) proveNone(ctx context.Context, l *lane, r *Report) error {
	some, err := d.waiting(ctx, l)
	switch {
	case err != nil:
		return err
	case some:
		r.note(Refused, "locks", "-- see who has a transaction open, and end it\n", "rows are due, and others have had them locked for %s: a claim gets none", lockPatience)
		r.Proof = "none: others have all rows locked that are due"
	default:
		r.Proof = "none: no row is due"
	}
	return nil
}

// lockPatience is how long others may have all rows locked, as a claim of theirs has for a moment.
const lockPatience = 2 * time.Second

// lockPatiently is lockSome, again and again while rows are due and others have them.
func (d *Drainer) lockPatiently(ctx context.Context, l *lane) ([][]any, error) {
	for end := time.Now().Add(lockPatience); ; {
		keys, err := d.lockSome(ctx, l)
		if err != nil || len(keys) > 0 || d.engine.lock() == "" || time.Now().After(end) {
			return keys, err
		}
		if err := l.rollback(ctx); err != nil {
			return nil, err
		}
		some, err := d.waiting(ctx, l)
		if err := errors.Join(err, l.open(ctx)); err != nil || !some {
			return nil, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// lockSome begins a transaction and locks rows, which stay so.
func (d *Drainer) lockSome(ctx context.Context, l *lane) (keys [][]any, err error) {
	if err := l.simple(ctx, d.engine.begin()); err != nil {
		return nil, err
	}
	s := d.candidates(d.statement(), proofRows, nil).add(d.engine.lock())
	err = l.query(ctx, s, func(scan func(...any) error) error {
		it, err := d.claimed(scan)
		if err == nil {
			keys = append(keys, it.row.Key)
		}
		return err
	})
	return keys, err
}

// notLocked is a claim's statement that is not taken, as without the right to UPDATE.
func (d *Drainer) notLocked(ctx context.Context, l *lane, r *Report, err error) error {
	if !d.engine.refused(err) {
		return err
	}
	r.note(Refused, "proof", "", "rows cannot be locked: %v", err)
	return nil
}

// both is the first key that is in both lists; empty: none is.
func both(a, b [][]any) string {
	seen := map[string]bool{}
	for _, k := range a {
		seen[identity(k)] = true
	}
	for _, k := range b {
		if seen[identity(k)] {
			return keyText(k, ",")
		}
	}
	return ""
}

func keysText(keys [][]any) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = keyText(k, ",")
	}
	return strings.Join(all, " ")
}
