package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// create makes the job's row, if it is not there, with what runs tell that are. lost
// reports that there are such, decided since the store was last in doubt.
func (t *tx) create(ctx context.Context, job string) (lost bool, err error) {
	t.add("INSERT IGNORE INTO cronce_jobs (name, fence, highest_tick, beside) SELECT ?, COALESCE(fence, 0), highest, live FROM ("+adopted+") a", job, job)
	t.add("SELECT ROW_COUNT() = 1 AND EXISTS (SELECT 1 FROM cronce_runs r JOIN cronce_store s WHERE s.id = 1 AND r.job = ? AND (s.seen IS NULL OR r.started > s.seen))", job)
	if err := t.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&lost) }); err != nil {
		return false, err
	}
	return lost, t.end(ctx)
}

// adopted is what a job's runs tell of it.
const adopted = "SELECT MAX(fence) AS fence, MAX(tick) AS highest, GROUP_CONCAT(IF(state = 'running', id, NULL) SEPARATOR ' ') AS live FROM cronce_runs WHERE job = ?"

// doubtful reports what needs a closer look, or is lost for sure: decisions of
// another server, a job with a lower fence than this process has seen, or one
// whose last holder is on no record.
func (s *section) doubtful(srv *server) bool {
	return srv.kept != srv.identity || s.lower(srv) || s.holderGone(srv)
}

// lower reports that the job has a lower fence than this process has seen.
func (s *section) lower(srv *server) bool {
	return s.job.Fence < s.d.memory.of(srv, s.job.Job)
}

// holderGone reports that the last holder is neither there nor, for all that the
// watermark says, forgotten.
func (s *section) holderGone(srv *server) bool {
	return s.gone && s.job.highest.After(s.job.pruned) && srv.since(s.job.Fence)
}

// since reports that a lease was given since the store was last in doubt.
func (s *server) since(fence int64) bool { return s.seen.IsZero() || fence > s.seen.UnixMicro() }

// misses reports whether decisions may have been lost, which is not on record yet.
func (s *section) misses(ctx context.Context, srv *server) (bool, error) {
	switch {
	case srv.kept != srv.identity, s.lower(srv) && srv.since(s.d.memory.of(srv, s.job.Job)):
		return true, nil
	case !s.holderGone(srv):
		return false, nil
	}
	// A program of before may have forgotten it, and skips that came later not: what
	// was decided last is forgotten last.
	lost := true
	s.add("SELECT 1 FROM cronce_runs WHERE id = ?", s.job.last)
	err := s.query(ctx, func(rows *sql.Rows) error {
		lost = false
		return rows.Scan(new(int))
	})
	return lost && err == nil, err
}

// adopt gives a job's row what this process has seen and the runs tell that are
// there: one that goes on keeps its lease.
func (s *section) adopt(ctx context.Context, srv *server) error {
	var fence sql.NullInt64
	var highest sql.NullTime
	var live sql.NullString
	s.add(adopted, s.job.Job)
	err := s.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&fence, &highest, &live) })
	if err != nil {
		return err
	}
	if had := max(fence.Int64, s.d.memory.of(srv, s.job.Job)); had > s.job.Fence {
		s.job.Fence = had
		s.set("fence", s.job.Fence)
	}
	if highest.Time.After(s.job.highest) {
		s.job.highest = highest.Time
		s.set("highest_tick", highest.Time.UTC())
	}
	for _, id := range strings.Fields(live.String) {
		if !slices.Contains(s.mayLive, id) {
			s.mayLive = append(s.mayLive, id)
			s.setBeside(append(slices.Clone(s.job.beside), id))
		}
	}
	return nil
}
