package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// status shows the jobs of a store as they are now.
func status(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("status")
	dir := cli.StoreFlag(f)
	asJSON := f.Bool("json", false, "")
	rest, err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return help([]string{"status"}, stdout)
	} else if err != nil {
		return err
	}
	if len(rest) > 1 {
		return cli.Misuse("status", "one job at most is expected, not %d", len(rest))
	}
	store, err := openForReading(*dir, f.StoreTimeout)
	if err != nil {
		return err
	}
	defer store.Close()
	var states []cronce.JobState
	if len(rest) == 1 {
		if err := cronce.CheckName(rest[0]); err != nil {
			return cli.Misuse("status", "%w", err)
		}
		if err := cli.CheckKnown(ctx, store, *dir, rest[0]); err != nil {
			return err
		}
		state, _, err := store.Job(ctx, rest[0])
		if err != nil {
			return err
		}
		states = append(states, state)
	} else if states, err = store.Jobs(ctx); err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	var serves localstore.Serves
	nobody := func(s cronce.JobState) (bool, error) {
		return s.Last != nil && s.Last.Holder.Via == "serve" && !serves.Serve(s.Job), nil
	}
	if store.Shared() { // its hosts are not seen from here, but what they do is
		nobody = func(s cronce.JobState) (bool, error) { return unattended(ctx, store, s, now) }
	} else {
		serves = localstore.ReadServes(*dir)
	}
	var left []string
	list := make([]cli.StateOf, len(states))
	for i, s := range states {
		s = s.AsOf(now)
		list[i] = cli.StateOf{JobState: s, Next: cli.NextTick(s, now)}
		alone, err := nobody(s)
		if err != nil {
			return err
		}
		if alone {
			list[i].Next, left = "-", append(left, s.Job) // nobody is there to start it
		}
	}
	out := bufio.NewWriter(stdout)
	if *asJSON {
		if err := cli.WriteJSON(out, list); err != nil {
			return err
		}
		return out.Flush()
	}
	cli.WriteStates(out, list, now, false)
	switch {
	case len(left) > 0 && store.Shared():
		more := ""
		if n := len(left) - namedAtMost; n > 0 {
			left, more = left[:namedAtMost], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(out, "no host serves or runs %s%s: the last tick was not decided\n", strings.Join(left, ", "), more)
	case len(left) > 0 && serves.Count == 0:
		fmt.Fprintln(out, "no serve is running on this store")
	}
	return out.Flush()
}

// namedAtMost is how many jobs without a host are named in the line below the table, which has them all.
const namedAtMost = 5

// decidedWithin is how soon after a tick some host has decided it.
const decidedWithin = 30 * time.Second

// unattended reports whether no host has decided the job's last tick, although none waits
// for a run to end: nobody will start the next one.
func unattended(ctx context.Context, store *cronce.Store, s cronce.JobState, now time.Time) (bool, error) {
	if s.Definition.Schedule == "" || len(s.Live) > 0 {
		return false, nil
	}
	job, err := cli.JobOf(s.Job, s.Definition)
	if err != nil {
		return false, nil // NEXT says so
	}
	schedule, err := job.Parse()
	if err != nil {
		return false, nil
	}
	due := schedule.Prev(now.Add(-decidedWithin - job.Jitter))
	if due.IsZero() || !due.After(s.Since) || s.Last != nil && !s.Last.Tick.Before(due) {
		return false, nil
	}
	// The run that was decided last may be one by hand, or of a tick that was caught up.
	runs, err := store.Runs(ctx, cronce.RunQuery{Job: s.Job, Since: due})
	for _, r := range runs {
		if !r.Tick.Before(due) {
			return false, nil
		}
	}
	return true, err
}
