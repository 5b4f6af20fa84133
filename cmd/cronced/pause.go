package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// pause lets the ticks of a job be skipped.
func pause(ctx context.Context, args []string, stdout io.Writer) error {
	return change(ctx, "pause", args, func(ctx context.Context, store *cronce.Store, before cronce.JobState, r cronce.Request) error {
		if before.Paused == nil {
			if err := store.Request(ctx, r); err != nil {
				return err
			}
		}
		state, _, err := store.Job(ctx, r.Job)
		if err != nil {
			return err
		}
		p := state.Paused
		var text string
		switch {
		case p == nil:
			text = "paused, and resumed by somebody else in the same moment"
		case before.Paused == nil && p.By == r.By && p.Why == r.Why:
			text = "paused: its ticks are skipped until 'cronce resume'"
			if n := len(state.Live); n > 0 {
				text += fmt.Sprintf("; %s that it has now may go on ('cronce release' ends it)", count(n, "run"))
			}
		default:
			text = "paused already, " + cli.PausedBy(*p)
		}
		_, err = fmt.Fprintf(stdout, "%s: %s\n", r.Job, text)
		return err
	})
}

// resume takes a pause back.
func resume(ctx context.Context, args []string, stdout io.Writer) error {
	return change(ctx, "resume", args, func(ctx context.Context, store *cronce.Store, before cronce.JobState, r cronce.Request) error {
		text := "it is not paused"
		if before.Paused != nil {
			if err := store.Request(ctx, r); err != nil {
				return err
			}
			text = "resumed; it was paused " + cli.PausedBy(*before.Paused)
			if next := cli.NextTick(before, time.Now()); next != "-" {
				text += "; next tick " + next
			}
		}
		_, err := fmt.Fprintf(stdout, "%s: %s\n", r.Job, text)
		return err
	})
}

// change reads the command line of a request for one job and lets it be made.
func change(ctx context.Context, command string, args []string, do func(context.Context, *cronce.Store, cronce.JobState, cronce.Request) error) error {
	f := cli.NewFlags(command)
	dir := cli.StoreFlag(f)
	why := whyFlag(f)
	rest, err := f.Parse(args)
	if err != nil {
		return err
	}
	job, err := oneJob(command, rest)
	if err != nil {
		return err
	}
	ctx, cancel := soon(ctx, f, *dir)
	defer cancel()
	store, err := openThere(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := cli.CheckKnown(ctx, store, *dir, job); err != nil {
		return err
	}
	state, _, err := store.Job(ctx, job)
	if err != nil {
		return err
	}
	return do(ctx, store, state, cronce.Request{Kind: cronce.RequestKind(command), Job: job, By: requester(), Why: *why})
}
