package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Drainer works off one table. Any number of them, in any number of processes, may work off the same one.
type Drainer struct {
	db      *sql.DB
	table   Table // complete
	options Options
	engine  engine

	looks  looks // of the table
	side   looks // of its side table
	fences looks // of cronce_fences
}

// Open looks at the table and refuses, with a *[TableError], what would lose rows or work them off twice: no such table or
// column, a view, a key that is not unique, columns that do not fit what they are to hold, states that the
// state column would change, rows without a state. It writes nothing. What is merely slow is said by Preflight.
//
// A Drain keeps three connections beside those that the handlers use. On Postgres and SQLite it keeps none where the
// pool allows fewer than the workers and four.
func Open(ctx context.Context, db *sql.DB, t Table, o Options) (*Drainer, error) {
	d, err := prepare(ctx, db, t, o)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.check(), d.checkPool()); err != nil {
		return nil, err
	}
	if err := d.try(ctx); err != nil {
		return nil, d.unavailable(err)
	}
	return d, nil
}

// try runs what a claim selects, for what only the database can say of it, and looks for rows that nobody would ever claim.
func (d *Drainer) try(ctx context.Context) error {
	l := &lane{d: d}
	defer l.end()
	if _, err := d.waiting(ctx, l); err != nil {
		if d.engine.refused(err) {
			return d.notTaken(err)
		}
		return err
	}
	n, err := d.rowNeed(ctx, l)
	if err == nil && n != nil {
		return d.refuse(n.cure, "%s", n.what)
	}
	return err
}

// prepare is Open without its refusals by what the database has: the migration may be still to come.
func prepare(ctx context.Context, db *sql.DB, t Table, o Options) (*Drainer, error) {
	if err := errors.Join(t.Check(), o.check()); err != nil {
		return nil, err
	}
	t = t.complete()
	d := &Drainer{db: db, table: t, options: o.complete(t)}
	var err error
	if d.engine, err = detect(ctx, db); err != nil {
		return nil, &UnavailableError{Table: t.Name, Err: err}
	}
	for name, l := range map[string]*looks{t.Name: &d.looks, t.Side: &d.side, fencesTable: &d.fences} {
		if name == "" {
			continue
		}
		if *l, err = d.engine.look(ctx, db, name); err != nil {
			return nil, d.unavailable(err)
		}
	}
	return d, nil
}

// Result is what one Drain did.
type Result struct {
	Sent, Failed, Dead, Unknown int64 // rows by what this Drain made of them
	Retry                       int64 // failed attempts after which the row is pending again
	Returned                    int64 // claimed, not started, given back
	Lost                        int64 // rows whose claim had ended before their start or result was on record: others may have them
	Overtaken                   int64 // of these: those that had been started, so that their work may be done once more
	Reclaimed                   int64 // rows of dead workers that had not started, or are tried again: pending
	Doubtful                    int64 // rows of dead workers that had started: unknown
	Crashed                     int64 // rows of dead workers whose crashes are used up: dead
	Unrecorded                  int64 // results that could not be recorded: once their lease has ended these rows are in doubt
	Blocked                     int64 // claims that got nothing while rows were pending
	Left                        Counts
}

// Counts are the rows of a table by state.
type Counts struct {
	Pending                     int64 // due now
	Later                       int64 // pending, not to be tried yet
	Sending                     int64 // claimed, by whomever
	Overdue                     int64 // of these: their claim has ended and nobody took it back yet
	Sent, Failed, Dead, Unknown int64
	Other                       int64 // neither of these, as NULL: they are never claimed
}

func (d *Drainer) unavailable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var mine *TableError
	if errors.As(err, &mine) {
		return err
	}
	if unbound(err) {
		return d.notTaken(err)
	}
	return &UnavailableError{Table: d.table.Name, Err: err}
}

// notTaken is about a statement that no other try will make right.
func (d *Drainer) notTaken(err error) error {
	return d.refuse("mend the description; is it Where (where)?", "the database does not take the statement that looks for rows: %v", err)
}

func (d *Drainer) refuse(cure, format string, a ...any) error {
	return &TableError{Table: d.table.Name, What: fmt.Sprintf(format, a...), Cure: cure}
}
