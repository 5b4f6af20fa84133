package mysqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/cronce/cronce"
)

// glance answers, without a lock, the two claims that most are: that of a tick
// higher than any that was decided, where no run lives, and that of a tick which
// is taken. The first is decided on what one statement read, and is put on
// record only if the job's row still is as it was read; the run that had its
// lease has ended, for ever. The second changes nothing. next is lock where it is
// neither, or somebody else was faster.
func (t *tx) glance(ctx context.Context, c cronce.Claim, srv *server) (lease cronce.Lease, answer error, next step, err error) {
	if c.Tick.IsZero() || c.Attempt > 1 {
		return lease, nil, lock, nil
	}
	s := &section{tx: t, free: true, runs: map[string]*runRow{}}
	var h holderScan
	t.add("SELECT "+jobColumns+", "+holderColumns+", "+t.d.clock+", "+t.d.serverColumns()+
		" FROM cronce_store s LEFT JOIN cronce_jobs j ON j.name = ? LEFT JOIN cronce_runs r ON r.id = j.holder_run WHERE s.id = 1", c.Job)
	err = t.query(ctx, func(rows *sql.Rows) error {
		if err := srv.scan(rows, &s.now, append(s.as.columns(), h.columns()...)...); err != nil || !s.as.name.Valid {
			return err
		}
		return s.found(&h)
	})
	if err == nil {
		err = t.d.trusted(srv)
	}
	switch {
	case err != nil:
		return lease, nil, done, err
	case s.job == nil, srv.kept != srv.identity, s.doubtful(srv), len(s.job.beside) > 0:
		return lease, nil, lock, nil
	case !c.Tick.After(s.job.highest):
		if h.state.String == running && !s.now.Before(h.expires.Time) {
			return lease, nil, lock, nil // it is to be marked as lost first
		}
		answer, err = s.taken(ctx, c)
		if err != nil || answer == nil {
			return lease, nil, lock, err
		}
		t.d.memory.keep(s.job)
		return lease, answer, done, nil
	case len(s.mayLive) > 0:
		return lease, nil, lock, nil
	}
	s.survey()
	cl := &claim{section: s, Claim: c, known: srv.known, seen: srv.seen, offered: c.Offered}
	if cl.offered.IsZero() {
		cl.offered = s.now
	}
	if lease, answer = cl.decide(); s.made == nil {
		return cronce.Lease{}, nil, lock, nil // what is written beside a decision needs more
	}
	if err := s.leave(ctx); err != nil {
		switch number(err) {
		case errNull, errDuplicate: // the row is not as it was
			return cronce.Lease{}, nil, lock, t.rollback(ctx)
		}
		return cronce.Lease{}, nil, done, err
	}
	t.d.memory.keep(s.job)
	return lease, answer, done, nil
}

// taken is the answer to a claim whose tick others have, nil where more is to
// be looked at.
func (s *section) taken(ctx context.Context, c cronce.Claim) (answer error, err error) {
	if c.Definition != (cronce.Definition{}) && c.Definition != s.job.Definition {
		return nil, nil
	}
	var taken []*runRow
	s.addTick(c, c.Attempt)
	err = s.query(ctx, func(rows *sql.Rows) error {
		r, err := scanRun(rows)
		taken = append(taken, r)
		return err
	})
	mine := func(r *runRow) bool { return r.ID == c.RunID }
	if err != nil || len(taken) < c.Slots || slices.ContainsFunc(taken, mine) {
		return nil, err
	}
	return &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: taken[len(taken)-1].Run}, nil
}
