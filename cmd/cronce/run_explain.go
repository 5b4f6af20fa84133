package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
)

// explain is --dry-run: what would be done now, and why.
func (in *invocation) explain(ctx context.Context, c cronce.Claim, stdout io.Writer) error {
	store, err := in.open(true)
	if err != nil {
		return err
	}
	defer store.Close()
	state, known, err := store.Job(ctx, c.Job)
	if err != nil {
		return err
	}
	verdict, err := in.verdict(ctx, store, c, state)
	if err != nil {
		return err
	}
	seen := "the store has not seen this job"
	if known {
		seen = "the store knows this job, defined as " + state.Definition.String()
	}
	_, err = fmt.Fprintf(stdout, "job %q, %s: %s\n%s\n%s\n", c.Job, tickText(c.Tick), in.whyTick(), seen, verdict)
	if err != nil || !in.typed() {
		return err
	}
	return in.explainCron(ctx, store, state, stdout)
}

// cronPath is the PATH that cron gives to commands.
const cronPath = "/usr/bin:/bin"

// withCure adds to a conflict of definitions what ends it.
func (in *invocation) withCure(err error) error {
	var conflict *cronce.ConflictError
	if !errors.As(err, &conflict) {
		return err
	}
	update := cli.UpdateCommand(in.store, conflict.Job, conflict.Kept, conflict.Have)
	if update == "" {
		return err
	}
	return fmt.Errorf("%w; where this line is right, tell the store: %s", err, update)
}

// explainCron says at a terminal what the same line would do there, where it is
// meant to stand.
func (in *invocation) explainCron(ctx context.Context, store *cronce.Store, state cronce.JobState, stdout io.Writer) error {
	cron := *in
	cron.terminal = false
	c := cron.claim(time.Now())
	verdict, err := cron.verdict(ctx, store, c, state)
	if err != nil {
		return err
	}
	if _, err := guard.LookPath(in.command[0], cronPath); errors.Is(err, guard.ErrNotFound) {
		verdict += fmt.Sprintf("\nunder cron: %s is not in its PATH, %s: name it by its whole path", in.command[0], cronPath)
	}
	_, err = fmt.Fprintf(stdout, "under cron, started now: %s: %s\n", tickText(c.Tick), verdict)
	return err
}

// whyTick says where the tick comes from, or why there is none.
func (in *invocation) whyTick() string {
	switch {
	case !in.tick.IsZero():
		return "named by --tick"
	case in.manual:
		return "asked for by --manual"
	case in.schedule == nil:
		return "without --schedule there are no ticks"
	case in.terminal:
		return "typed at a terminal"
	}
	return "the latest of " + in.schedule.String()
}

// verdict is the sentence that --dry-run ends with.
func (in *invocation) verdict(ctx context.Context, store *cronce.Store, c cronce.Claim, state cronce.JobState) (string, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return "", err
	}
	state = state.AsOf(now)
	if state.Problem != "" {
		return "would be refused: " + state.Problem, nil
	}
	if store.Shared() && c.Definition != (cronce.Definition{}) && !state.Since.IsZero() && cli.UpdateCommand(in.store, c.Job, state.Definition, c.Definition) != "" {
		conflict := &cronce.ConflictError{Job: c.Job, Kept: state.Definition, Have: c.Definition, Since: state.Since}
		return fmt.Sprintf("would be refused: %v", in.withCure(conflict)), nil
	}
	if !c.Tick.IsZero() {
		runs, err := store.Runs(ctx, cronce.RunQuery{Job: c.Job})
		if err != nil {
			return "", err
		}
		for _, r := range runs {
			if r.Tick.Equal(c.Tick) {
				return fmt.Sprintf("would not run: the tick is taken by run %s (%s)", r.ID, result(r)), nil
			}
		}
		switch late := now.Sub(c.Tick); {
		case late < 0 && -late > cronce.MaxSkew:
			return fmt.Sprintf("would not run: the tick is %s ahead of the clock", brief(-late)), nil
		case late < 0:
			return fmt.Sprintf("would wait %s for the tick, then run", brief(-late)), nil
		case state.Paused != nil:
			return "would skip: paused by " + state.Paused.By, nil
		case c.StartDeadline > 0 && late > c.StartDeadline:
			return fmt.Sprintf("would skip: late, the tick was %s ago and the start deadline is %s", brief(late), brief(c.StartDeadline)), nil
		}
	}
	if len(state.Live) > 0 && c.Overlap.Policy != cronce.OverlapAllow {
		holder := state.Live[0]
		what := "skip: overlap"
		switch c.Overlap.Policy {
		case cronce.OverlapWait:
			what = fmt.Sprintf("wait up to %s", c.Overlap.Wait)
		case cronce.OverlapReplace:
			what = fmt.Sprintf("ask it to stop and wait up to %s", c.Overlap.Wait)
		}
		return fmt.Sprintf("would %s: run %s is alive, pid %d on %s, since %s", what, holder.ID, holder.Holder.PID, holder.Holder.Host, cronce.Stamp(holder.Start)), nil
	}
	words := make([]string, len(in.command))
	for i, w := range in.command {
		words[i] = shellWord(w)
	}
	path, err := in.lookPath()
	if err == nil {
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "would run and fail: not found: " + path, nil
	} else if err != nil {
		return fmt.Sprintf("would run and fail: %v", err), nil
	}
	return "would run: " + strings.Join(words, " "), nil
}
