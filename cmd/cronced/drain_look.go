package main

import (
	"context"
	"fmt"
	"io"

	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// printMigration prints the SQL of what the database lacks. It is the same inside cronce run and
// alone: the fence of a run needs its table.
func printMigration(ctx context.Context, db *database, o *drainOptions, stdout io.Writer) error {
	options := o.options
	options.Fence = max(options.Fence, 1)
	text, err := rows.Migration(ctx, db.DB, o.table, options)
	if err != nil {
		return drainError(err)
	}
	if o.target != "" {
		more, err := rows.MeterMigration(ctx, db.DB, o.meterOptions())
		if err != nil {
			return drainError(err)
		}
		text += more
	}
	if text == "" {
		text = "-- nothing is missing\n"
	}
	_, err = io.WriteString(stdout, text)
	return err
}

// dryRun says what would be done.
func dryRun(ctx context.Context, d *rows.Drainer, o *drainOptions, stdout io.Writer) error {
	c, err := d.Count(ctx)
	if err != nil {
		return drainError(err)
	}
	w := waits(ctx, d, c)
	due := c.Pending + c.Overdue - w.Unfinished
	what := "the work would be done"
	switch {
	case due == 0:
	case o.post != nil:
		what = "the request of --post would be sent"
	case len(o.command) == 0:
	case o.lines:
		what = cli.ShellWord(o.command[0]) + " would be given a line"
	default:
		what = cli.ShellWord(o.command[0]) + " would be run"
	}
	if due > 0 {
		fmt.Fprintf(stdout, "%s: %s: for %s; nothing was changed\n", o.name(), what, counted(due, "row"))
	} else {
		fmt.Fprintf(stdout, "%s: nothing would be done; nothing was changed\n", o.name())
	}
	for _, line := range waitLines(c, w) {
		fmt.Fprintf(stdout, "  %s\n", line)
	}
	for _, n := range []struct {
		n    int64
		what string
	}{
		{c.Sent, "sent"},
		{c.Failed, "failed"}, {c.Dead, "dead"}, {c.Unknown, "unknown: see 'cronce drain report'"}, {c.Other, "in none of the states: they are never claimed"},
	} {
		if n.n > 0 {
			fmt.Fprintf(stdout, "  %s %s\n", counted(n.n, "row"), n.what)
		}
	}
	return nil
}

// checkTable looks at server, session and table as claims will use them, and says what is wrong or slow. Alone it looks at what a
// drain inside cronce run needs too.
func checkTable(ctx context.Context, db *database, o *drainOptions, stdout io.Writer) error {
	options := o.options
	options.Fence = max(options.Fence, 1)
	r, err := rows.Preflight(ctx, db.DB, o.table, options)
	if err == nil && o.target != "" {
		err = rows.PreflightMeter(ctx, db.DB, o.meterOptions(), r)
	}
	if err != nil {
		return drainError(err)
	}
	if _, err := fmt.Fprintf(stdout, "%skeys of rows begin with %s/, the fence is of job %s: on each host --table and --job are spelled alike\n", r, o.table.Name, o.name()); err != nil {
		return err
	}
	if err := r.Err(); err != nil {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("table %s cannot be worked off as it is", o.table.Name)}
	}
	return nil
}
