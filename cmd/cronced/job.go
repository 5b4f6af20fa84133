package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// jobCommand is `cronce job`: what the store knows of jobs, and what it is to know.
func jobCommand(ctx context.Context, args []string, stdout io.Writer) error {
	name, rest := cli.SplitSubcommand(args)
	switch name {
	case "list":
		return jobList(ctx, rest, stdout)
	case "show":
		return jobShow(ctx, rest, stdout)
	case "update":
		return jobUpdate(ctx, rest, stdout)
	case "":
		return cli.Misuse("job", "what about jobs? There is: cronce job list, show, update")
	}
	return cli.Misuse("job", "there is no %q: there is cronce job list, show, update", name)
}

// jobList lists the jobs by name.
func jobList(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("job")
	dir := cli.StoreFlag(f)
	asJSON := f.Bool("json", false, "")
	rest, err := f.Parse(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return cli.Misuse("job", "unexpected %q: 'cronce job show %[1]s' shows one job", rest[0])
	}
	ctx, cancel := soon(ctx, f, *dir)
	defer cancel()
	store, err := openForReading(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	states, err := store.Jobs(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	if *asJSON {
		if err := cli.WriteJSON(out, states); err != nil {
			return err
		}
		return out.Flush()
	}
	now := time.Now()
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tDEFINED\tNEXT\tPAUSED\tDEFINITION")
	for _, s := range states {
		paused := "-"
		if s.Paused != nil {
			paused = cronce.Stamp(s.Paused.At)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", s.Job, cronce.Stamp(s.Since), cli.NextTick(s, now), paused, s.Definition)
	}
	tw.Flush()
	return out.Flush()
}

// details is all that is shown of a job.
type details struct {
	cronce.JobState
	Next     []time.Time      `json:"next,omitempty"`
	Runs     []cronce.Run     `json:"runs,omitempty"`
	Requests []cronce.Request `json:"requests,omitempty"`

	locks  []localstore.Lock
	shared bool // by hosts
}

// showNext is how many of the next ticks are shown.
const showNext = 5

// jobShow shows one job whole.
func jobShow(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("job")
	dir := cli.StoreFlag(f)
	asJSON := f.Bool("json", false, "")
	n := f.Int("n", 5, "")
	rest, err := f.Parse(args)
	if err != nil {
		return err
	}
	if *n < 1 {
		return cli.Misuse("job", "-n %d: a number above zero is needed", *n)
	}
	name, err := oneJob("job show", rest)
	if err != nil {
		return err
	}
	ctx, cancel := soon(ctx, f, *dir)
	defer cancel()
	store, err := openForReading(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := cli.CheckKnown(ctx, store, *dir, name); err != nil {
		return err
	}
	var d details
	if d.JobState, _, err = store.Job(ctx, name); err != nil {
		return err
	}
	if d.Runs, err = store.Runs(ctx, cronce.RunQuery{Job: name, Limit: *n}); err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	d.JobState, d.shared = d.JobState.AsOf(now), store.Shared()
	for i, r := range d.Runs {
		d.Runs[i] = r.AsOf(now)
	}
	if d.Requests, err = store.Requests(ctx, name, *n); err != nil {
		return err
	}
	if job, err := cli.JobOf(name, cronce.Definition{Schedule: d.Definition.Schedule, Zone: d.Definition.Zone}); err == nil {
		if s, err := job.Parse(); err == nil {
			for t := s.Next(time.Now()); !t.IsZero() && len(d.Next) < showNext; t = s.Next(t) {
				d.Next = append(d.Next, t.UTC())
			}
		}
	}
	// Only the store's own user can look, and for others that is no news.
	if !cli.IsURL(*dir) {
		d.locks, _ = localstore.Locks(ctx, localstore.Options{Dir: *dir}, name)
	}
	out := bufio.NewWriter(stdout)
	if *asJSON {
		err = cli.WriteJSON(out, []details{d})
	} else {
		d.write(out, time.Now())
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

func (d details) write(w io.Writer, now time.Time) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(tw, "%s\t%s\n", name, value) }
	row("job", d.Job)
	row("definition", d.Definition.String())
	row("since", cronce.Stamp(d.Since))
	if d.Paused != nil {
		row("paused", cli.PausedBy(*d.Paused))
	}
	state := d.JobState
	state.Paused = nil // it has a line of its own
	row("now", cli.Doing(state, now))
	for _, l := range d.locks {
		row("held by", l.String())
	}
	for i, t := range d.Next {
		row([]string{"next", ""}[min(i, 1)], cronce.Stamp(t))
	}
	tw.Flush()
	if len(d.Runs) > 0 {
		fmt.Fprintln(w)
		cli.WriteRuns(w, d.Runs, now, d.shared)
	}
	if len(d.Requests) == 0 {
		return
	}
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "ASKED\tFOR\tBY\tWHY\tABOUT")
	for _, r := range d.Requests {
		about := "-"
		switch {
		case r.Kind == cronce.Define:
			about = r.Definition.String()
		case len(r.Runs) > 0:
			about = "run " + strings.Join(r.Runs, ", run ")
		}
		why := "-"
		if r.Why != "" {
			why = r.Why
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", cronce.Stamp(r.At), r.Kind, cli.Readable([]byte(r.By)), cli.Readable([]byte(why)), about)
	}
	tw.Flush()
}

// jobUpdate records another definition of a job by hand.
func jobUpdate(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("job")
	dir := cli.StoreFlag(f)
	why := whyFlag(f)
	var changes []func(*cronce.Job) error
	flag := func(name string, set func(*cronce.Job, string) error) {
		f.Func(name, "", func(v string) error {
			var job cronce.Job // what is wrong with a value is wrong for every job
			if err := set(&job, v); err != nil {
				return err
			}
			changes = append(changes, func(j *cronce.Job) error { return set(j, v) })
			return nil
		})
	}
	flag("schedule", func(j *cronce.Job, v string) error {
		if j.Schedule = v; strings.TrimSpace(v) == "" {
			return errors.New("it is empty")
		}
		return nil
	})
	for _, s := range cronce.Settings() {
		if s.Key != "name" && s.Key != "seconds" {
			flag(s.Key, func(j *cronce.Job, v string) error { return setOrReset(j, s.Key, v) })
		}
	}
	rest, err := f.Parse(args)
	if err != nil {
		return err
	}
	name, err := oneJob("job update", rest)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return cli.Misuse("job", "what of job %q is to change? For instance: cronce job update --schedule '30 2 * * *' %[1]s", name)
	}
	ctx, cancel := soon(ctx, f, *dir)
	defer cancel()
	store, err := openThere(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := cli.CheckKnown(ctx, store, *dir, name); err != nil {
		return err
	}
	state, _, err := store.Job(ctx, name)
	if err != nil {
		return err
	}
	job, err := cli.JobOf(name, state.Definition)
	if err != nil {
		return err
	}
	for _, change := range changes {
		if err := change(&job); err != nil {
			return cli.Misuse("job", "%w", err)
		}
	}
	if err := job.Check(); err != nil {
		return cli.Misuse("job", "job %q: %w", name, err)
	}
	if job.Schedule != "" {
		if _, err := job.Parse(); err != nil {
			return cli.Misuse("job", "--schedule: %w", err)
		}
	} else if job.Zone != "" {
		return cli.Misuse("job", "--zone: job %q has no schedule", name)
	}
	def := job.Definition()
	if def == state.Definition {
		_, err := fmt.Fprintf(stdout, "%s: it is defined so already: %s\n", name, def)
		return err
	}
	if err := store.Request(ctx, cronce.Request{Kind: cronce.Define, Job: name, Definition: def, By: requester(), Why: *why}); err != nil {
		return err
	}
	if store.Shared() {
		_, err = fmt.Fprintf(stdout, "%s: defined as %s\n%[1]s: it was %[3]s\n%[1]s: a serve that says otherwise stops offering it; one that is started anew changes it back: change its crontab too\n",
			name, def, state.Definition)
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: defined as %s\n%[1]s: it was %[3]s\n%[1]s: a serve or run that says otherwise changes it back at its next tick: change its crontab too\n",
		name, def, state.Definition)
	return err
}

// setOrReset sets a property; "default" takes it back.
func setOrReset(job *cronce.Job, key, value string) error {
	if value != "default" || key == "zone" {
		err := job.Set(key, value)
		var bad *cronce.SettingError
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return err
	}
	// All but this one, as its definition has them.
	kept, err := cli.JobOf(job.Name, cronce.Definition{})
	if err != nil {
		return err
	}
	kept.Schedule, kept.Zone, kept.Seconds = job.Schedule, job.Zone, job.Seconds
	for _, policy := range strings.Fields(job.Definition().Policies) {
		if k, v, _ := strings.Cut(policy, "="); k != key {
			if err := kept.Set(k, v); err != nil {
				return err
			}
		}
	}
	*job = kept
	return nil
}
