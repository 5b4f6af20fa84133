package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
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
	failed := f.Bool("failed", false, "")
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
	case *failed && *id != "":
		return cli.Misuse("runs", "--failed and --id contradict each other")
	case len(rest) == 1:
		q.Job = rest[0]
		if err := cronce.CheckName(q.Job); err != nil {
			return cli.Misuse("runs", "%w", err)
		}
	}
	if *since != "" {
		if q.Since, err = cli.ParseSince(*since, time.Now()); err != nil {
			return cli.Misuse("runs", "--since: %w", err)
		}
	}
	store, err := openForReading(*dir, f.StoreTimeout)
	if err != nil {
		return err
	}
	defer store.Close()
	if *failed {
		q.Limit = 0 // the newest of those that failed
	}
	list, err := store.Runs(ctx, q)
	if err == nil && len(list) == 0 && *id != "" {
		list, err = runsBeginning(ctx, store, q)
	}
	if err != nil {
		return err
	}
	if err := asOfNow(ctx, store, list); err != nil {
		return err
	}
	if err := withAfterwords(ctx, store, list); err != nil {
		return err
	}
	if *failed {
		list = slices.DeleteFunc(list, func(r cronce.Run) bool { return !wrong(r) })
		if *n > 0 {
			list = list[max(0, len(list)-*n):]
		}
	}
	if len(list) == 0 {
		if err := cli.CheckKnown(ctx, store, *dir, q.Job); err != nil {
			return err
		}
		if *id != "" {
			return fmt.Errorf("there is no run %q in this store", *id)
		}
	}
	out := bufio.NewWriter(stdout)
	switch {
	case *asJSON:
		err = cli.WriteJSON(out, list)
	case *id != "":
		var held *cronce.Run
		if by := list[0].Held; by != "" {
			if found, err := store.Runs(ctx, cronce.RunQuery{ID: by}); err == nil && len(found) > 0 {
				held = &found[0]
			}
		}
		// A program gets the bytes; a terminal must not obey them.
		writeRun(out, list[0], held, stdout == io.Writer(os.Stdout) && isTerminal(os.Stdout))
	default:
		cli.WriteRuns(out, list, time.Now(), store.Shared())
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil || *id != "" {
		return err
	}
	return checkWhole(ctx, store, q.Job)
}

// asOfNow shows runs as lost whose lease has ended, also before that is on record.
func asOfNow(ctx context.Context, store *cronce.Store, list []cronce.Run) error {
	if !slices.ContainsFunc(list, func(r cronce.Run) bool { return !r.Expires.IsZero() }) {
		return nil
	}
	now, err := store.Now(ctx)
	for i, r := range list {
		list[i] = r.AsOf(now)
	}
	return err
}

// withAfterwords gives lost runs the words of the programs that saw them end, where there are such.
func withAfterwords(ctx context.Context, store *cronce.Store, list []cronce.Run) error {
	words := map[string]string{} // by run
	asked := map[string]bool{}   // jobs
	for i, r := range list {
		if r.Outcome != cronce.Lost || r.Message != "" || !store.Shared() {
			continue
		}
		if !asked[r.Job] {
			asked[r.Job] = true
			requests, err := store.Requests(ctx, r.Job, 0)
			if err != nil {
				return err
			}
			for _, q := range requests {
				if q.Kind == cronce.Ended && len(q.Runs) == 1 {
					words[q.Runs[0]] = fmt.Sprintf("%s (by %s, which could not record it in time)", q.Why, q.By)
				}
			}
		}
		list[i].Message = words[r.ID]
	}
	return nil
}

// runsBeginning is the one run whose id begins as that of the query.
func runsBeginning(ctx context.Context, store *cronce.Store, q cronce.RunQuery) ([]cronce.Run, error) {
	begin := q.ID
	all, err := store.Runs(ctx, cronce.RunQuery{Job: q.Job})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r cronce.Run) bool { return !strings.HasPrefix(r.ID, begin) })
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		q.ID = all[0].ID
		return store.Runs(ctx, q) // with its output
	}
	return nil, cli.Misuse("runs", "--id %s: %d runs have an id that begins so, as %s and %s", begin, len(all), all[0].ID, all[1].ID)
}

// wrong reports whether somebody has to look at a run: nobody asked for this end.
func wrong(r cronce.Run) bool {
	return r.Outcome == cronce.Failed || r.Outcome == cronce.TimedOut || r.Outcome == cronce.Lost
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

// writeRun shows one run whole.
func writeRun(w io.Writer, r cronce.Run, held *cronce.Run, readable bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, value)
		}
	}
	row("run", r.ID)
	row("job", r.Job)
	row("tick", cronce.Stamp(r.Tick))
	if r.Attempt > 1 {
		row("attempt", fmt.Sprintf("%d, as the run before was lost", r.Attempt))
	}
	row("result", cli.Outcome(r))
	row("start", cronce.Stamp(r.Start))
	row("end", cronce.Stamp(r.End))
	row("took", cli.Took(r, time.Now()))
	row("holder", fmt.Sprintf("pid %d on %s, %s by %s", r.Holder.PID, r.Holder.Host, r.Holder.Via, r.Holder.User))
	if r.Fence > 0 {
		row("fence", fmt.Sprint(r.Fence))
	}
	if r.Attempts > 1 {
		row("attempts", fmt.Sprint(r.Attempts))
	}
	row("note", cli.Note(r, held))
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

// Said so often that they have short names.
func result(r cronce.Run) string               { return cli.Outcome(r) }
func shellWord(s string) string                { return cli.ShellWord(s) }
func brief(d time.Duration) string             { return cli.Brief(d) }
func parseTime(text string) (time.Time, error) { return cli.ParseTime(text) }
