package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	now := time.Now()
	var serves localstore.Serves // hosts that share a store are not seen from here
	if !store.Shared() {
		serves = localstore.ReadServes(*dir)
	}
	left := false
	list := make([]cli.StateOf, len(states))
	for i, s := range states {
		list[i] = cli.StateOf{JobState: s, Next: cli.NextTick(s, now)}
		if s.Last != nil && s.Last.Holder.Via == "serve" && !store.Shared() && !serves.Serve(s.Job) {
			list[i].Next, left = "-", true // nobody is there to start it
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
	if left && serves.Count == 0 {
		fmt.Fprintln(out, "no serve is running on this store")
	}
	return out.Flush()
}
