package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// asking is a release of a job on a store that hosts share. Its runs are on other
// machines: they hear of it with their next renewal, and nobody else can end them.
type asking struct {
	store    *cronce.Store
	patience time.Duration // for each question to the store
	request  cronce.Request
	out      io.Writer
}

func (a *asking) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, "%s: %s\n", a.request.Job, fmt.Sprintf(format, args...))
	return err
}

// free makes the request and waits until none of the runs that it is for lives. A lease
// that was revoked, and whose holder says nothing, ends when it would have ended.
func (a *asking) free(ctx context.Context, wait time.Duration) error {
	before, dead, err := a.live(ctx, nil)
	if err != nil {
		return err
	}
	if len(before) == 0 {
		for _, r := range dead {
			if err := a.say("run %s, %s: lost: its lease ended at %s, and nobody is left to end", r.ID, r.Holder, cronce.Stamp(r.Expires)); err != nil {
				return err
			}
		}
		return a.say("nothing holds it")
	}
	asked, done := context.WithTimeout(ctx, a.patience)
	err = a.store.Request(asked, a.request)
	done()
	if err != nil {
		return err
	}
	what := "asked to stop"
	if a.request.Kind == cronce.Revoke {
		what, wait = "its lease is not renewed any more", max(wait, cronce.MaxTTL)
	}
	var ids []string
	for _, r := range before {
		ids = append(ids, r.ID)
		if err := a.say("%s: run %s, %s, since %s", what, r.ID, r.Holder, cronce.Stamp(r.Start)); err != nil {
			return err
		}
	}
	for began := time.Now(); ; {
		left, _, err := a.live(ctx, ids)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return a.ended(ctx, ids)
		}
		if time.Since(began) >= wait {
			var names []string
			for _, r := range left {
				names = append(names, fmt.Sprintf("run %s, %s", r.ID, r.Holder))
			}
			text := fmt.Sprintf("job %q is still held %s after the request, which stands: %s", a.request.Job, wait, strings.Join(names, "; "))
			if a.request.Kind == cronce.Stop {
				text += "; --force takes the lease away"
			}
			return &cli.ExitError{Code: cli.TempFail, Err: errors.New(text)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pollShared, wait)):
		}
	}
}

// pollShared is how often it is looked whether a job is free.
const pollShared = 500 * time.Millisecond

// live are the job's runs that live, of those if any are named; the leases of the dead ones
// have ended, and no claim has put that on record.
func (a *asking) live(ctx context.Context, ids []string) (live, dead []cronce.Run, err error) {
	ctx, done := context.WithTimeout(ctx, a.patience)
	defer done()
	state, _, err := a.store.Job(ctx, a.request.Job)
	if err != nil {
		return nil, nil, err
	}
	now, err := a.store.Now(ctx)
	for _, r := range state.Live {
		switch {
		case ids != nil && !slices.Contains(ids, r.ID):
		case r.AsOf(now).Live():
			live = append(live, r)
		default:
			dead = append(dead, r)
		}
	}
	return live, dead, err
}

// ended says how the runs ended, and what goes on that only the run waited for.
func (a *asking) ended(ctx context.Context, ids []string) error {
	behind := ""
	for _, id := range ids {
		asked, done := context.WithTimeout(ctx, a.patience)
		run, ok, err := a.store.Run(asked, id)
		done()
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		run = run.AsOf(run.Expires) // its lease has ended, whether or not that is on record
		text := fmt.Sprintf("run %s: %s after %s", id, cli.Outcome(run), cli.Brief(run.End.Sub(run.Start)))
		if note := cli.Note(run, nil); note != "" {
			text += ": " + note
		}
		if err := a.say("%s", text); err != nil {
			return err
		}
		if _, left, waited := strings.Cut(run.Message, cli.LeftBehind); waited {
			behind = left
		}
	}
	if behind != "" {
		return a.say("the run that waited has ended, what it waited for has not: end that there, on %s: until then that host starts no run of the job", behind)
	}
	return a.say("what held it has ended")
}
