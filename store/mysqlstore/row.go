package mysqlstore

import (
	"database/sql"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cronce/cronce"
)

// What is longer is kept in part.
const (
	maxOutput  = 64 << 10 // the end of it
	maxMessage = 1 << 10  // the beginning
	maxText    = 1 << 10  // of who and why, each
)

// running is the state of a run that has not ended; a skip's is skipped, any
// other's its outcome.
const (
	running = "running"
	skipped = "skipped"
)

// runColumns are those that scan reads, of a table called r.
const runColumns = "r.id, r.job, r.tick, r.attempt, r.slot, r.fence, r.state, r.skip, r.held_by, r.holder, r.started, r.ended," +
	" r.expires, r.ttl, r.orphaned, r.stop, r.revoked, r.exit_code, r.exit_signal, r.message, r.output_bytes, r.tries"

// runRow is a run with its lease. All fields are null where a join finds none.
type runRow struct {
	cronce.Run
	state         string
	expires       time.Time
	ttl           time.Duration
	orphaned      bool
	stop, revoked *cronce.Request
}

// granted is when the lease was given or renewed.
func (r *runRow) granted() time.Time { return r.expires.Add(-r.ttl) }

// runScan is where the columns of a run go before they make one.
type runScan struct {
	id, job, state, skip, held, holder, stop, revoked, signal, message sql.NullString
	attempt, slot, fence, ttl, orphaned, exit, bytes, tries            sql.NullInt64
	tick, started, ended, expires                                      sql.NullTime
}

// columns are the places of runColumns.
func (s *runScan) columns() []any {
	return []any{&s.id, &s.job, &s.tick, &s.attempt, &s.slot, &s.fence, &s.state, &s.skip, &s.held, &s.holder, &s.started, &s.ended,
		&s.expires, &s.ttl, &s.orphaned, &s.stop, &s.revoked, &s.exit, &s.signal, &s.message, &s.bytes, &s.tries}
}

// run is the run, nil where there is none.
func (s *runScan) run() (*runRow, error) {
	if !s.id.Valid {
		return nil, nil
	}
	r := &runRow{
		Run: cronce.Run{
			ID: s.id.String, Job: s.job.String, Tick: s.tick.Time, Attempt: int(s.attempt.Int64), Slot: int(s.slot.Int64), Fence: s.fence.Int64,
			Skip: cronce.SkipReason(s.skip.String), Held: s.held.String, Start: s.started.Time, End: s.ended.Time,
		},
		state: s.state.String, expires: s.expires.Time, ttl: time.Duration(s.ttl.Int64) * time.Microsecond, orphaned: s.orphaned.Int64 != 0,
	}
	if r.state == running {
		r.Run.Expires = r.expires
	}
	if r.state != running && r.state != skipped {
		r.Result = cronce.Result{
			Outcome: cronce.Outcome(r.state), ExitCode: int(s.exit.Int64), Signal: s.signal.String, Message: s.message.String,
			OutputBytes: s.bytes.Int64, Attempts: int(s.tries.Int64),
		}
	}
	if r.Tick.IsZero() {
		r.Slot = 0
	}
	if err := json.Unmarshal([]byte(s.holder.String), &r.Holder); err != nil {
		return nil, err
	}
	var err error
	if r.stop, err = readJSON[cronce.Request](s.stop); err != nil {
		return nil, err
	}
	r.revoked, err = readJSON[cronce.Request](s.revoked)
	return r, err
}

// scanRun reads one row of runColumns.
func scanRun(rows *sql.Rows, more ...any) (*runRow, error) {
	var s runScan
	if err := rows.Scan(append(s.columns(), more...)...); err != nil {
		return nil, err
	}
	return s.run()
}

// jobColumns are those that jobScan reads, of a table called j.
const jobColumns = "j.name, j.schedule, j.zone, j.policies, j.since, j.paused, j.resumed, j.fence, j.highest_tick, j.pruned_tick," +
	" j.last_run, j.holder_run, j.beside, j.waiting, j.succeeded, j.succeeded_at"

// jobRow is a job.
type jobRow struct {
	cronce.JobState
	highest, pruned        time.Time
	last, holder           string
	beside                 []string
	waiting                *place
	succeeded, succeededAt time.Time
}

// place is a job's one place to wait.
type place struct {
	Run     cronce.Run
	Granted time.Time // when its claim was last made
	Expires time.Time
}

// jobScan is where the columns of a job go before they make one.
type jobScan struct {
	name, schedule, zone, policies, paused, last, holder, beside, waiting sql.NullString
	fence                                                                 sql.NullInt64
	since, resumed, highestTick, prunedTick, succeeded, succeededAt       sql.NullTime
}

// columns are the places of jobColumns.
func (s *jobScan) columns() []any {
	return []any{&s.name, &s.schedule, &s.zone, &s.policies, &s.since, &s.paused, &s.resumed, &s.fence, &s.highestTick, &s.prunedTick,
		&s.last, &s.holder, &s.beside, &s.waiting, &s.succeeded, &s.succeededAt}
}

func (s *jobScan) job() (*jobRow, error) {
	j := &jobRow{
		JobState: cronce.JobState{
			Job: s.name.String, Definition: cronce.Definition{Schedule: s.schedule.String, Zone: s.zone.String, Policies: s.policies.String},
			Since: s.since.Time, Resumed: s.resumed.Time, Fence: s.fence.Int64,
		},
		highest: s.highestTick.Time, pruned: s.prunedTick.Time, last: s.last.String, holder: s.holder.String,
		beside: strings.Fields(s.beside.String), succeeded: s.succeeded.Time, succeededAt: s.succeededAt.Time,
	}
	var err error
	if j.Paused, err = readJSON[cronce.Request](s.paused); err != nil {
		return nil, err
	}
	j.waiting, err = readJSON[place](s.waiting)
	return j, err
}

func readJSON[T any](s sql.NullString) (*T, error) {
	if !s.Valid {
		return nil, nil
	}
	v := new(T)
	return v, json.Unmarshal([]byte(s.String), v)
}

// asJSON is how a value of ours is kept; nothing of it is null.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of text, numbers and times
	}
	return string(b)
}

// null is NULL for a zero value.
func null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// nullTime is NULL for a zero time, and what the tables can keep of another.
func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Truncate(time.Microsecond)
}

// begin is the beginning of a text, at most so many bytes, as valid UTF-8: the
// server refuses anything else.
func begin(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
