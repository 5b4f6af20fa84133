package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// doubtfulRow is a row as the report lists it.
type doubtfulRow struct {
	Key       string    `json:"key"`
	State     string    `json:"state"`
	Started   time.Time `json:"started,omitzero"`
	Attempts  int       `json:"attempts"`
	Crashes   int       `json:"crashes,omitempty"` // attempts that ended with their process
	Fence     int64     `json:"fence,omitempty"`
	Run       string    `json:"run,omitempty"` // that had it: the run of the job with this fence
	Holder    string    `json:"holder,omitempty"`
	Token     string    `json:"token,omitempty"`
	LastError string    `json:"last_error,omitempty"`
}

// drainReport lists rows of which it is not certain that they were sent once, with the runs that had them.
func drainReport(ctx context.Context, args []string, stdout io.Writer) error {
	o := &drainOptions{db: os.Getenv(databaseVariable)}
	f := o.flags()
	store := cli.StoreFlag(f)
	asJSON := f.Bool("json", false, "")
	limit := f.Int("n", 50, "")
	rest, err := f.Parse(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return cli.Misuse("drain", "report: %q is no flag", rest[0])
	case o.db == "":
		return cli.Misuse("drain", "--db: the URL of the database is missing; it may be in %s too", databaseVariable)
	case o.repeats && (o.target == "" || len(o.content) == 0):
		return cli.Misuse("drain", "report --duplicates: --target and --content say what a duplicate is")
	case (o.logTable == "") != (o.logTime == ""):
		return cli.Misuse("drain", "report: --log-table and --log-time name the log and its column that says when: both are needed")
	case *limit < 1:
		return cli.Misuse("drain", "-n: a number from 1 on is expected")
	}
	if err := o.table.Check(); err != nil && o.logTable == "" {
		return &cli.UsageError{Command: "drain", Err: asFlags(err)}
	}
	db, err := connect(ctx, o.db)
	if err != nil {
		return err
	}
	defer db.Close()
	if o.repeats {
		return o.reportDuplicates(ctx, db, *limit, *asJSON, stdout)
	}
	d, err := o.open(ctx, db)
	if err != nil {
		return err
	}
	found, err := d.Doubts(ctx, *limit)
	if err != nil {
		return drainError(err)
	}
	runs, err := runsByFence(ctx, f, *store, o.name(), found)
	var missing *cli.ExitError
	if errors.As(err, &missing) && missing.Code == cli.NoInput && !f.Given("store") {
		err = nil // no job ran here under cronce
	}
	if err != nil {
		return err
	}
	all := make([]doubtfulRow, len(found))
	for i, r := range found {
		all[i] = doubtfulRow{
			Key: (rows.Row{Key: r.Key}).String(), State: r.State, Started: r.StartedAt, Attempts: r.Attempts, Crashes: r.Crashes, Fence: r.Fence, Token: r.Token, LastError: r.LastError,
		}
		if run, ok := runs[r.Fence]; ok {
			all[i].Run, all[i].Holder = run.ID, run.Holder.String()
		}
	}
	c, err := d.Count(ctx)
	if err != nil {
		return drainError(err)
	}
	w := waits(ctx, d, c)
	if !*asJSON {
		err = o.writeDoubts(stdout, all, *limit, waitLines(c, w), w.Unfinished > 0)
	} else {
		out := json.NewEncoder(stdout)
		out.SetEscapeHTML(false)
		for _, r := range all {
			err = errors.Join(err, out.Encode(r))
		}
	}
	if n := int64(len(all)) + w.Unfinished; err == nil && n > 0 {
		err = toLookAt(o.table.Name, counted(n, "row")+" in doubt")
	}
	return err
}

// toLookAt is the end of a report that has something to tell, for who goes by exit codes.
func toLookAt(table, what string) error {
	return &cli.ExitError{Code: exitDoubt, Err: fmt.Errorf("%s: %s", table, what)}
}

// runsByFence finds the runs that had rows: no two runs of a job have one fence.
func runsByFence(ctx context.Context, f *cli.Flags, place, job string, found []rows.Doubt) (map[int64]cronce.Run, error) {
	wanted := map[int64]bool{}
	for _, r := range found {
		wanted[r.Fence] = r.Fence > 0
	}
	delete(wanted, 0)
	if len(wanted) == 0 {
		return nil, nil
	}
	store, err := openForReading(ctx, f, place)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	ctx, cancel := soon(ctx, f, place)
	defer cancel()
	list, err := store.Runs(ctx, cronce.RunQuery{Job: job})
	if err != nil {
		return nil, err
	}
	runs := map[int64]cronce.Run{}
	for _, r := range list {
		if r.Skip == "" && wanted[r.Fence] {
			runs[r.Fence] = r
		}
	}
	return runs, nil
}

// writeDoubts lists them for people, and what is left waits for.
func (o *drainOptions) writeDoubts(stdout io.Writer, all []doubtfulRow, limit int, left []string, unfinished bool) error {
	defer func() {
		for _, line := range left {
			fmt.Fprintf(stdout, "%s: %s\n", o.table.Name, line)
		}
	}()
	if len(all) == 0 {
		if unfinished {
			return nil
		}
		_, err := fmt.Fprintf(stdout, "%s: no row is in doubt\n", o.table.Name)
		return err
	}
	t := cli.NewTable(stdout, strings.ToUpper(strings.Join(o.table.Key, ",")), "STATE", "STARTED", "ATTEMPTS", "FENCE", "RUN", "WHY")
	for _, r := range all {
		why := r.LastError
		if r.Crashes > 0 && r.State != "unknown" {
			why = strings.TrimSuffix(counted(int64(r.Crashes), "attempt")+" ended with the process: perhaps sent more than once; "+why, "; ")
		}
		started, fence, run := "-", "-", "-"
		if !r.Started.IsZero() {
			started = cronce.Stamp(r.Started)
		}
		if r.Fence > 0 {
			fence = strconv.FormatInt(r.Fence, 10)
		}
		if r.Run != "" {
			run = r.Run
		}
		t.Row(r.Key, r.State, started, strconv.Itoa(r.Attempts), fence, run, why)
	}
	t.Flush()
	if slices.ContainsFunc(all, func(r doubtfulRow) bool { return r.Fence > 0 && r.Run == "" }) {
		fmt.Fprintf(stdout, "Where RUN is -, the store has no run of job %s with that fence: --job NAME and --store PLACE say whose, and where.\n", cli.ShellWord(o.name()))
	}
	if len(all) == limit {
		fmt.Fprintf(stdout, "There may be more: -n N lists N.\n")
	}
	return nil
}
