package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/cronce/cronce"
)

// read hands each row of a query to a reader.
func (d *driver) read(ctx context.Context, reader func(*sql.Rows) error, query string, args ...any) error {
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return d.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := reader(rows); err != nil {
			return d.failed(err)
		}
	}
	return d.failed(rows.Err())
}

// Runs returns the runs that q selects, oldest first.
func (d *driver) Runs(ctx context.Context, q cronce.RunQuery) ([]cronce.Run, error) {
	columns, conditions, args := runColumns, []string{"TRUE"}, []any(nil)
	where := func(condition string, value any) {
		conditions, args = append(conditions, condition), append(args, value)
	}
	if q.ID != "" {
		columns += ", r.output"
		where("r.id = ?", q.ID)
	}
	if q.Job != "" {
		where("r.job = ?", q.Job)
	}
	if !q.Since.IsZero() {
		where("r.started >= ?", q.Since.UTC())
	}
	query := "SELECT " + columns + " FROM cronce_runs r WHERE " + strings.Join(conditions, " AND ") + " ORDER BY r.started DESC, r.id DESC"
	if q.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, q.Limit)
	}
	var runs []cronce.Run
	err := d.read(ctx, func(rows *sql.Rows) error {
		var output []byte
		var more []any
		if q.ID != "" {
			more = []any{&output}
		}
		r, err := scanRun(rows, more...)
		if err == nil {
			r.Output = output
			runs = append(runs, r.Run)
		}
		return err
	}, query, args...)
	slices.Reverse(runs)
	return runs, err
}

// Jobs returns the state of the named job, or of all, by name, as they were at
// one time.
func (d *driver) Jobs(ctx context.Context, job string) ([]cronce.JobState, error) {
	var states []cronce.JobState
	err := d.repeat(ctx, func() error {
		conn, err := d.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer (&tx{d: d, conn: conn}).rollback(ctx)
		_, err = conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;START TRANSACTION READ ONLY")
		if err != nil {
			return err
		}
		jobs, err := readJobs(ctx, conn, job)
		if err != nil {
			return err
		}
		states = make([]cronce.JobState, len(jobs))
		var ids []string
		place := map[string]int{}
		for i, j := range jobs {
			states[i], place[j.Job] = j.JobState, i
			own := slices.Concat([]string{j.last, j.holder}, j.beside)
			slices.Sort(own)
			ids = append(ids, slices.Compact(own)...)
		}
		for ids := range slices.Chunk(ids, 500) {
			err := readRuns(ctx, conn, ids, func(r *runRow) {
				i := place[r.Job]
				if r.ID == jobs[i].last {
					states[i].Last = &r.Run
				}
				if r.Live() {
					states[i].Live = append(states[i].Live, r.Run)
				}
			})
			if err != nil {
				return err
			}
		}
		for _, s := range states {
			slices.SortFunc(s.Live, func(a, b cronce.Run) int { return a.Start.Compare(b.Start) })
		}
		return nil
	})
	return states, err
}

// readJobs reads the named job, or all, by name.
func readJobs(ctx context.Context, conn *sql.Conn, job string) (jobs []*jobRow, err error) {
	query, args := "SELECT "+jobColumns+" FROM cronce_jobs j", []any(nil)
	if job != "" {
		query, args = query+" WHERE j.name = ?", []any{job}
	}
	rows, err := conn.QueryContext(ctx, query+" ORDER BY j.name", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var scan jobScan
		if err := rows.Scan(scan.columns()...); err != nil {
			return nil, err
		}
		j, err := scan.job()
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// readRuns reads the runs with those ids; an id may be of none.
func readRuns(ctx context.Context, conn *sql.Conn, ids []string, each func(*runRow)) error {
	marks, args := list(ids)
	rows, err := conn.QueryContext(ctx, "SELECT "+runColumns+" FROM cronce_runs r WHERE r.id IN ("+marks+")", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRun(rows)
		if err != nil {
			return err
		}
		each(r)
	}
	return rows.Err()
}
