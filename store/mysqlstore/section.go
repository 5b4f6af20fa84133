package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// section is a transaction that has a job's row locked, or one that changes it
// only as it was read.
type section struct {
	*tx
	job  *jobRow
	free bool    // it has no lock
	gone bool    // who took the lease last is on no record
	as   jobScan // as the row was read
	now  time.Time

	mayLive []string           // ids of the runs that may not have ended
	runs    map[string]*runRow // those that were read, by id
	live    []*runRow          // those that have not ended, oldest first
	lost    []string           // those that were marked as lost

	changed []string // columns of the job, and their values
	values  []any
	made    *statement // the run that is made
}

// holderColumns are those of the run that took the lease last that enter reads.
const holderColumns = "r.state, r.tick, r.started, r.ended, r.expires"

// enter locks the job's row and that of the run that took its lease last, reads
// what becomes of most claims by them, and then the time: nothing that was
// committed before is later. job stays nil where there is none.
func (t *tx) enter(ctx context.Context, job string, srv *server) (*section, error) {
	s := &section{tx: t, runs: map[string]*runRow{}}
	t.add("SELECT "+jobColumns+", "+holderColumns+" FROM cronce_jobs j LEFT JOIN cronce_runs r ON r.id = j.holder_run WHERE j.name = ? FOR UPDATE", job)
	t.add("SELECT " + t.d.clock + ", " + t.d.serverColumns() + " FROM cronce_store s WHERE s.id = 1")
	var h holderScan
	err := t.query(ctx, func(rows *sql.Rows) error {
		if err := rows.Scan(append(s.as.columns(), h.columns()...)...); err != nil {
			return err
		}
		return s.found(&h)
	}, func(rows *sql.Rows) error { return srv.scan(rows, &s.now) })
	if err == nil {
		err = t.d.trusted(srv)
	}
	return s, err
}

// holderScan is where holderColumns go.
type holderScan struct {
	state                         sql.NullString
	tick, started, ended, expires sql.NullTime
}

func (h *holderScan) columns() []any {
	return []any{&h.state, &h.tick, &h.started, &h.ended, &h.expires}
}

// found takes the job that was read, and who took its lease last.
func (s *section) found(h *holderScan) (err error) {
	if s.job, err = s.as.job(); err != nil {
		return err
	}
	s.mayLive, s.gone = s.job.beside, s.job.holder != "" && !h.state.Valid
	switch h.state.String {
	case running:
		s.mayLive = append([]string{s.job.holder}, s.mayLive...)
	case string(cronce.Succeeded):
		s.success(&cronce.Run{Tick: h.tick.Time, Start: h.started.Time, End: h.ended.Time})
	}
	return nil
}

// keep takes a run that was read; one that was read before stays.
func (s *section) keep(rows *sql.Rows) error {
	r, err := scanRun(rows)
	if err == nil && s.runs[r.ID] == nil {
		s.runs[r.ID] = r
	}
	return err
}

// addLive asks for the runs that may live, and locks their rows. It reports
// false where there are none to be asked for.
func (s *section) addLive() bool {
	if len(s.mayLive) == 0 {
		return false
	}
	marks, args := list(s.mayLive)
	s.add("SELECT "+runColumns+" FROM cronce_runs r WHERE r.id IN ("+marks+") FOR UPDATE", args...)
	return true
}

// survey finds the runs that live and marks those whose lease has ended.
func (s *section) survey() {
	for _, id := range s.mayLive {
		r := s.runs[id]
		switch {
		case r != nil && r.state == running && s.now.Before(r.expires):
			s.live = append(s.live, r)
			continue
		case r != nil && r.state == running:
			r.state, r.Outcome, r.End = string(cronce.Lost), cronce.Lost, s.now
			s.lost = append(s.lost, id)
		case r != nil && r.Outcome == cronce.Succeeded:
			s.success(&r.Run)
		}
		if i := slices.Index(s.job.beside, id); i >= 0 {
			s.setBeside(slices.Delete(slices.Clone(s.job.beside), i, i+1))
		}
	}
	slices.SortFunc(s.live, func(a, b *runRow) int { return a.Start.Compare(b.Start) })
	if p := s.job.waiting; p != nil && !s.now.Before(p.Expires) {
		s.setWaiting(nil)
	}
}

// success keeps the last success, before its run is out of sight.
func (s *section) success(r *cronce.Run) {
	if !r.End.After(s.job.succeededAt) {
		return
	}
	s.job.succeededAt = r.End
	if s.job.succeeded = r.Tick; r.Tick.IsZero() {
		s.job.succeeded = r.Start
	}
	s.set("succeeded", s.job.succeeded)
	s.set("succeeded_at", s.job.succeededAt)
}

// set changes a column of the job with the commit.
func (s *section) set(column string, value any) {
	if i := slices.Index(s.changed, column); i >= 0 {
		s.values[i] = value
		return
	}
	s.changed, s.values = append(s.changed, column), append(s.values, value)
}

func (s *section) setBeside(ids []string) {
	s.job.beside = ids
	s.set("beside", null(strings.Join(ids, " ")))
}

func (s *section) setWaiting(p *place) {
	s.job.waiting = p
	if p == nil {
		s.set("waiting", nil)
	} else {
		s.set("waiting", asJSON(p))
	}
}

// define makes this the job's definition from now on.
func (s *section) define(d cronce.Definition) {
	s.job.Definition, s.job.Since = d, s.now
	s.set("schedule", d.Schedule)
	s.set("zone", d.Zone)
	s.set("policies", d.Policies)
	s.set("since", s.now)
}

// record puts a person's request, or a run's, on record.
func (s *section) record(r cronce.Request) {
	s.add("INSERT INTO cronce_requests (job, at, request) VALUES (?, ?, ?)", s.job.Job, s.now, asJSON(r))
}

// ifChanged is a run's id where the statement before it has changed the job, and
// else NULL, which no mode of the server lets pass: the rest of the packet,
// COMMIT too, is not run then.
const ifChanged = "IF(ROW_COUNT() = 1, ?, NULL)"

// make puts a run on record with the change of its job. Its values begin with
// ifChanged.
func (s *section) make(columnsAndValues string, args ...any) {
	s.made = &statement{"INSERT INTO cronce_runs " + columnsAndValues, args}
}

// asItWas is true of a row that nothing has changed since it was read: each
// decision changes last_run, and each definition since.
const asItWas = "name = ? AND last_run <=> ? AND since <=> ? AND paused <=> ? AND pruned_tick <=> ? AND waiting <=> ? AND succeeded_at <=> ?"

// leave commits what was changed, if anything was. Without a lock it changes a
// row as it was read, or nothing: errNull.
func (s *section) leave(ctx context.Context) error {
	if len(s.lost) > 0 {
		marks, args := list(s.lost)
		s.add("UPDATE cronce_runs SET state = 'lost', ended = ? WHERE id IN ("+marks+") AND state = 'running'", append([]any{s.now}, args...)...)
	}
	if len(s.changed) > 0 {
		where, args := "name = ?", []any{s.job.Job}
		if as := &s.as; s.free {
			s.begin()
			where, args = asItWas, append(args, as.last, as.since, as.paused, as.prunedTick, as.waiting, as.succeededAt)
		}
		s.add("UPDATE cronce_jobs SET "+strings.Join(s.changed, " = ?, ")+" = ? WHERE "+where, append(s.values, args...)...)
	}
	if s.made != nil {
		s.add(s.made.text, s.made.args...)
	}
	return s.commit(ctx)
}

// list is a list of so many marks, and the values for them.
func list(ids []string) (marks string, args []any) {
	for _, id := range ids {
		args = append(args, id)
	}
	return strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", "), args
}
