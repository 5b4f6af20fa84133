package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/schedule"
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
	store, err := cli.OpenForReading(*dir)
	if err != nil {
		return err
	}
	defer store.Close()
	var states []cronce.JobState
	if len(rest) == 1 {
		if err := cronce.CheckName(rest[0]); err != nil {
			return cli.Misuse("status", "%w", err)
		}
		if err := checkKnown(ctx, store, rest[0]); err != nil {
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
	out := bufio.NewWriter(stdout)
	if *asJSON {
		if err := writeJSON(out, states); err != nil {
			return err
		}
		return out.Flush()
	}
	now := time.Now()
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tNOW\tLAST\tNEXT\tSCHEDULE")
	for _, s := range states {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", s.Job, doing(s, now), last(s, now), nextTick(s, now), s.Definition)
	}
	tw.Flush()
	return out.Flush()
}

// doing is what a job does now.
func doing(s cronce.JobState, now time.Time) string {
	switch {
	case s.Problem != "":
		return "refused: " + s.Problem
	case len(s.Live) == 1 && s.Live[0].ID == "":
		r := s.Live[0]
		return fmt.Sprintf("held by pid %d on %s, a run that is not on record", r.Holder.PID, r.Holder.Host)
	case len(s.Live) == 1:
		r := s.Live[0]
		return fmt.Sprintf("running for %s (pid %d on %s)", brief(now.Sub(r.Start)), r.Holder.PID, r.Holder.Host)
	case len(s.Live) > 1:
		return fmt.Sprintf("%d running, the oldest for %s", len(s.Live), brief(now.Sub(s.Live[0].Start)))
	case s.Paused != nil:
		return fmt.Sprintf("paused by %s since %s", s.Paused.By, cronce.Stamp(s.Paused.At))
	}
	return "idle"
}

// last is what was decided last.
func last(s cronce.JobState, now time.Time) string {
	if s.Last == nil {
		return "-"
	}
	r := *s.Last
	text := result(r) + " " + cronce.Stamp(r.Start)
	if r.Skip != "" {
		text += " (" + string(r.Skip) + ")"
	} else if !r.Live() && r.Outcome != cronce.Lost {
		text += " in " + took(r, now)
	}
	return text
}

// nextTick is when the job is due next, as far as its definition tells.
func nextTick(s cronce.JobState, now time.Time) string {
	if s.Definition.Schedule == "" {
		return "-"
	}
	job := cronce.Job{Name: s.Job, Schedule: s.Definition.Schedule, Zone: s.Definition.Zone, Seconds: schedule.ByCount}
	parsed, err := job.Parse()
	if err != nil {
		return "unknown: " + err.Error()
	}
	return cronce.Stamp(parsed.Next(now))
}
