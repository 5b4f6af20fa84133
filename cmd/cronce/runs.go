package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// runs lists what was decided.
func runs(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("runs")
	dir := cli.StoreFlag(f)
	since := f.String("since", "", "")
	id := f.String("id", "", "")
	n := f.Int("n", 50, "")
	asJSON := f.Bool("json", false, "")
	rest, err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return help([]string{"runs"}, stdout)
	} else if err != nil {
		return err
	}
	q := cronce.RunQuery{ID: *id, Limit: *n}
	switch {
	case len(rest) > 1:
		return cli.Misuse("runs", "one job at most is expected, not %d", len(rest))
	case *n < 0:
		return cli.Misuse("runs", "-n %d: a number from 0 on is needed", *n)
	case len(rest) == 1:
		q.Job = rest[0]
		if err := cronce.CheckName(q.Job); err != nil {
			return cli.Misuse("runs", "%w", err)
		}
	}
	if *since != "" {
		if q.Since, err = parseSince(*since, time.Now()); err != nil {
			return cli.Misuse("runs", "--since: %w", err)
		}
	}
	store, err := cli.OpenForReading(*dir)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.Runs(ctx, q)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := checkKnown(ctx, store, q.Job); err != nil {
			return err
		}
		if *id != "" {
			return fmt.Errorf("there is no run %q in this store", *id)
		}
	}
	out := bufio.NewWriter(stdout)
	switch {
	case *asJSON:
		err = writeJSON(out, list)
	case *id != "":
		// A program gets the bytes; a terminal must not obey them.
		writeRun(out, list[0], stdout == io.Writer(os.Stdout) && isTerminal(os.Stdout))
	default:
		writeRuns(out, list, time.Now())
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil || *id != "" {
		return err
	}
	return checkWhole(ctx, store, q.Job)
}

// checkWhole says what is wrong with the records of which the readable part has
// been shown.
func checkWhole(ctx context.Context, store *cronce.Store, job string) error {
	states, err := store.Jobs(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, s := range states {
		if s.Problem != "" && (job == "" || s.Job == job) {
			problems = append(problems, fmt.Errorf("job %q is refused, and this may not be all of it: %s", s.Job, s.Problem))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &cli.ExitError{Code: cli.Config, Err: errors.Join(problems...)}
}

// checkKnown names a job that the store has never seen.
func checkKnown(ctx context.Context, store *cronce.Store, job string) error {
	if job == "" {
		return nil
	}
	_, known, err := store.Job(ctx, job)
	if err == nil && !known {
		err = fmt.Errorf("there is no job %q in this store: 'cronce status' lists them", job)
	}
	return err
}

// parseSince reads a time, or how long ago it was.
func parseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if t, err := parseTime(text); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time as 2026-03-08T07:00:00Z nor a duration as 36h", text)
}

func writeJSON[T any](w io.Writer, list []T) error {
	enc := json.NewEncoder(w)
	for _, x := range list {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

func writeRuns(w io.Writer, list []cronce.Run, now time.Time) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "START\tJOB\tTICK\tRESULT\tTOOK\tRUN\tNOTE")
	for _, r := range list {
		tick := cronce.Stamp(r.Tick)
		if r.Tick.IsZero() {
			tick = "by hand"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			cronce.Stamp(r.Start), r.Job, tick, result(r), took(r, now), r.ID, note(r))
	}
	tw.Flush()
}

// writeRun shows one run whole.
func writeRun(w io.Writer, r cronce.Run, readable bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, value)
		}
	}
	row("run", r.ID)
	row("job", r.Job)
	row("tick", cronce.Stamp(r.Tick))
	row("result", result(r))
	row("start", cronce.Stamp(r.Start))
	row("end", cronce.Stamp(r.End))
	row("took", took(r, time.Now()))
	row("holder", fmt.Sprintf("pid %d on %s, %s by %s", r.Holder.PID, r.Holder.Host, r.Holder.Via, r.Holder.User))
	if r.Fence > 0 {
		row("fence", fmt.Sprint(r.Fence))
	}
	row("note", note(r))
	row("output", outputSize(r))
	tw.Flush()
	if len(r.Output) > 0 {
		fmt.Fprintln(w)
		text := r.Output
		if readable {
			text = cli.Readable(text)
		}
		w.Write(text)
		if text[len(text)-1] != '\n' {
			fmt.Fprintln(w)
		}
	}
}

// outputSize says how much a run wrote, and how much of that is here.
func outputSize(r cronce.Run) string {
	if kept := int64(len(r.Output)); kept > 0 && kept < r.OutputBytes {
		return fmt.Sprintf("the last %d of %d bytes", kept, r.OutputBytes)
	}
	return fmt.Sprintf("%d bytes", r.OutputBytes)
}

// result is how a run ended, in a word.
func result(r cronce.Run) string {
	switch {
	case r.Skip != "":
		return "skipped"
	case r.Live():
		return "running"
	}
	return string(r.Outcome)
}

// took is how long a run went on, or has so far.
func took(r cronce.Run, now time.Time) string {
	switch {
	case r.Skip != "" || r.Outcome == cronce.Lost:
		return "-"
	case r.Live():
		return brief(now.Sub(r.Start))
	}
	return brief(r.End.Sub(r.Start))
}

// note is what else there is to say of a run.
func note(r cronce.Run) string {
	switch {
	case r.Held != "":
		return fmt.Sprintf("%s: run %s held it", r.Skip, r.Held)
	case r.Skip == cronce.SkipLate:
		return fmt.Sprintf("late: offered %s after its tick", brief(r.Start.Sub(r.Tick)))
	case r.Skip != "":
		return string(r.Skip)
	case r.Outcome == cronce.Lost && r.Message == "":
		return "nobody is left who could say how it ended"
	}
	return strings.Join(strings.Fields(r.Message), " ")
}

// brief writes a duration with three digits or so.
func brief(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
