package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/schedule"
	"github.com/cronce/cronce/store/localstore"
)

// invocation is `cronce run` as it was typed.
type invocation struct {
	job      cronce.Job
	schedule *schedule.Schedule // nil: none was given
	command  []string

	store      string
	tick       time.Time // zero: from the schedule, or none
	manual     bool
	skipExit   int // -1: the default
	statusFile string
	dryRun     bool
	level      slog.Level
	format     string
	terminal   bool // somebody sits at it
}

// runJob is `cronce run`: it returns the exit code.
func runJob(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	in, err := readRun(args)
	if errors.Is(err, flag.ErrHelp) {
		return cli.Fail(stderr, help([]string{"run"}, stdout))
	} else if err != nil {
		return cli.Fail(stderr, err)
	}
	claim := in.claim(time.Now())
	if in.dryRun {
		return cli.Fail(stderr, in.explain(ctx, claim, stdout))
	}
	s := in.decideAndRun(ctx, claim, stderr)
	if in.statusFile != "" {
		if err := writeStatus(in.statusFile, s); err != nil {
			fmt.Fprintf(stderr, "cronce: --status-file: %v\n", err)
		}
	}
	return s.Exit
}

// readRun reads the command line.
func readRun(args []string) (*invocation, error) {
	in := &invocation{skipExit: -1, level: slog.LevelWarn, terminal: isTerminal(os.Stdin)}
	f := cli.NewFlags("run")
	store := cli.StoreFlag(f)
	f.StringVar(&in.job.Schedule, "schedule", "", "")
	for _, s := range cronce.Settings() {
		if s.Key != "name" && s.Key != "seconds" {
			f.Func(s.Key, "", func(v string) error {
				err := in.job.Set(s.Key, v)
				var bad *cronce.SettingError
				if errors.As(err, &bad) {
					err = bad.Err
				}
				return err
			})
		}
	}
	f.Func("tick", "", func(v string) (err error) {
		in.tick, err = parseTime(v)
		if err == nil && in.tick.Nanosecond() != 0 {
			err = errors.New("a tick is a whole second")
		}
		return err
	})
	f.BoolVar(&in.manual, "manual", false, "")
	f.Func("skip-exit", "", func(v string) error {
		n, err := fmt.Sscanf(v, "%d", &in.skipExit)
		if n != 1 || err != nil || in.skipExit < 0 || in.skipExit > 255 {
			return errors.New("an exit code from 0 to 255 is expected")
		}
		return nil
	})
	f.StringVar(&in.statusFile, "status-file", "", "")
	f.BoolVar(&in.dryRun, "dry-run", false, "")
	f.Func("log-level", "", func(v string) error { return in.level.UnmarshalText([]byte(v)) })
	f.Func("log-format", "", func(v string) error {
		if in.format = v; v != "text" && v != "json" {
			return errors.New("text or json is expected")
		}
		return nil
	})
	verbose := f.Bool("v", false, "")
	rest, err := f.ParseFirst(args)
	if err != nil {
		return nil, err
	}
	if *verbose {
		in.level = min(in.level, slog.LevelInfo)
	}
	in.store = *store
	if len(rest) == 0 {
		return nil, cli.Misuse("run", "a job's name is needed, as in: cronce run backup -- /usr/local/bin/backup")
	}
	in.job.Name, in.command = rest[0], rest[1:]
	if err := cronce.CheckName(in.job.Name); err != nil {
		return nil, cli.Misuse("run", "%w", err)
	}
	switch {
	case len(in.command) > 0 && in.command[0] == "--":
		in.command = in.command[1:]
	case len(in.command) > 0:
		return nil, cli.Misuse("run", "job %q: '--' is expected between the job's name and its command, not %q", in.job.Name, in.command[0])
	}
	if len(in.command) == 0 || in.command[0] == "" {
		return nil, cli.Misuse("run", "job %q: a command is needed behind '--'", in.job.Name)
	}
	return in, in.checkTick()
}

// checkTick reads the schedule and says what does not go with it.
func (in *invocation) checkTick() (err error) {
	switch {
	case in.manual && !in.tick.IsZero():
		return cli.Misuse("run", "--manual and --tick contradict each other: a run by hand has no tick")
	case in.job.Schedule == "" && in.job.Zone != "":
		return cli.Misuse("run", "--zone goes with --schedule")
	case in.job.Schedule == "":
		return nil
	}
	if in.schedule, err = in.job.Parse(); err != nil {
		return cli.Misuse("run", "--schedule: %w", err)
	}
	if t := in.tick; !t.IsZero() && !in.schedule.Prev(t.Add(time.Second)).Equal(t) {
		return cli.Misuse("run", "--tick %s is no tick of %s: the nearest are %s and %s", cronce.Stamp(t), in.schedule,
			cronce.Stamp(in.schedule.Prev(t)), cronce.Stamp(in.schedule.Next(t)))
	}
	return nil
}

// claim is what to ask of the store at that time.
func (in *invocation) claim(now time.Time) cronce.Claim {
	c := cronce.Claim{
		RunID: cronce.NewRunID(), Job: in.job.Name, Definition: in.job.Definition(),
		Overlap: in.job.Overlap, Tick: in.tick.UTC(), Holder: cronce.ThisProcess("run"),
	}
	if in.tick.IsZero() {
		c.Tick = time.Time{}
		if in.schedule != nil && !in.manual && !in.terminal {
			c.Tick = dueTick(in.schedule, now).UTC()
		}
	}
	if in.schedule != nil && !c.Tick.IsZero() {
		c.StartDeadline = in.job.Deadline(in.schedule, c.Tick)
	} else if !c.Tick.IsZero() {
		c.StartDeadline = in.job.StartDeadline
	}
	if in.schedule == nil {
		// Not to take the schedule away that another program has told the store.
		c.Definition = cronce.Definition{}
	}
	return c
}

// dueTick is the tick for which cron has started us just now. A little slack,
// so that a clock that stepped back after cron looked at it does not name the
// tick before.
func dueTick(s *schedule.Schedule, now time.Time) time.Time {
	slack := min(5*time.Second, s.Interval(now)/10)
	// Prev is strictly before: a tick exactly at now+slack is due too.
	return s.Prev(now.Add(slack + time.Nanosecond))
}

// report is how a `cronce run` went; --status-file gets it.
type report struct {
	Job      string      `json:"job"`
	Decision string      `json:"decision"` // run, skip, taken, or none: nothing was decided
	Run      *cronce.Run `json:"run,omitempty"`
	Error    string      `json:"error,omitempty"`
	Exit     int         `json:"exit"`
}

// decideAndRun takes the job through a claim and, if it is won, its run.
func (in *invocation) decideAndRun(ctx context.Context, c cronce.Claim, stderr io.Writer) report {
	say := newSay(stderr, in.format, in.level).With("job", c.Job)
	refuse := func(err error) report {
		say.Error(err.Error())
		return report{Job: c.Job, Decision: "none", Error: err.Error(), Exit: cli.Code(err)}
	}
	path, lookErr := guard.LookPath(in.command[0], os.Getenv("PATH"))
	if path == "" {
		path = in.command[0]
	}
	store, err := localstore.Open(localstore.Options{Dir: in.store})
	if err != nil {
		return refuse(err)
	}
	defer store.Close()

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	l, sig, err := decide(ctx, store, c, signals)
	var taken *cronce.TakenError
	var skipped *cronce.SkippedError
	switch {
	case sig != 0:
		say.Warn(fmt.Sprintf("got %s while it waited: not run", sig))
		return report{Job: c.Job, Decision: "none", Error: "got " + sig.String(), Exit: 128 + int(sig)}
	case errors.As(err, &taken):
		return in.taken(taken, say)
	case errors.As(err, &skipped):
		return in.skipped(skipped, say)
	case err != nil:
		return refuse(err)
	}
	say.Info(fmt.Sprintf("run %s starts, %s", l.Run.ID, tickText(l.Run.Tick)))
	w := work{job: in.job, say: newSay(stderr, in.format, in.level), command: guard.Command{
		Path: path, Args: in.command, Env: os.Environ(), NotFound: lookErr,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Direct: in.terminal || isTerminal(os.Stdout) || isTerminal(os.Stderr),
	}}
	switch {
	case in.schedule != nil && !l.Run.Tick.IsZero():
		w.warning = in.job.Warning(in.schedule, l.Run.Tick)
	default:
		w.warning = in.job.WarnAt
	}
	r, err := w.underLease(ctx, store, l, signals)
	l.Run.Result, l.Run.End = r, time.Now()
	out := report{Job: c.Job, Decision: "run", Run: &l.Run, Exit: exitOf(r)}
	if errors.Is(err, cronce.ErrLost) {
		out.Exit = cli.LeaseLost
	}
	switch {
	case err != nil:
		out.Error = err.Error()
		say.Error(fmt.Sprintf("run %s %s, but its end is not on record: %v", l.Run.ID, r.Outcome, err))
	case r.Outcome == cronce.TimedOut, strings.HasPrefix(r.Message, "cannot start"):
		say.Warn(fmt.Sprintf("run %s: %s", l.Run.ID, r.Message))
	default:
		say.Info(fmt.Sprintf("run %s %s after %s", l.Run.ID, r.Outcome, brief(l.Run.End.Sub(l.Run.Start))))
	}
	return out
}

// decide waits for the decision, or for a signal that ends the waiting.
func decide(ctx context.Context, store *cronce.Store, c cronce.Claim, signals <-chan os.Signal) (l cronce.Lease, got syscall.Signal, err error) {
	l, err = store.Claim(ctx, c)
	var held *cronce.HeldError
	var skew *cronce.SkewError
	if errors.As(err, &held) || errors.As(err, &skew) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		decided := make(chan struct{})
		go func() {
			defer close(decided)
			l, err = store.Decide(ctx, c)
		}()
		select {
		case <-decided:
		case sig := <-signals:
			got = sig.(syscall.Signal)
			cancel()
			<-decided
		}
	}
	select {
	case sig := <-signals:
		got = sig.(syscall.Signal)
	default:
	}
	if got != 0 && err == nil {
		// Decided in the same moment: it is ours, and so is its end.
		err = store.Finish(context.WithoutCancel(ctx), l, cronce.Result{Outcome: cronce.Cancelled, Message: "got " + got.String() + " before it started"})
	}
	return l, got, err
}

// taken is the answer to everyone but the winner. It is no news when the
// winner does its work.
func (in *invocation) taken(e *cronce.TakenError, say *slog.Logger) report {
	out := report{Job: e.Job, Decision: "taken", Run: &e.Run, Exit: cli.TempFail}
	if e.Run.Live() || e.Run.Outcome == cronce.Succeeded {
		out.Exit = cli.OK
	}
	level := slog.LevelInfo
	if in.terminal {
		level = in.level
	}
	say.Log(context.Background(), level, fmt.Sprintf("tick %s is taken by run %s on %s (%s)", cronce.Stamp(e.Tick), e.Run.ID, e.Run.Holder.Host, result(e.Run)))
	return out
}

// skipped says in one line why not, who holds the job, and what to do.
func (in *invocation) skipped(e *cronce.SkippedError, say *slog.Logger) report {
	out := report{Job: e.Run.Job, Decision: "skip", Run: &e.Run, Exit: cli.OK}
	switch {
	case in.skipExit >= 0:
		out.Exit = in.skipExit
	case e.Run.Skip == cronce.SkipOrphans, in.job.Overlap.Policy == cronce.OverlapWait, in.job.Overlap.Policy == cronce.OverlapReplace, e.Run.Tick.IsZero():
		out.Exit = cli.TempFail
	}
	line := fmt.Sprintf("%s is skipped: %s", tickText(e.Run.Tick), e.Why())
	if e.Holder != nil {
		line += fmt.Sprintf("; look: cronce status %s", shellWord(e.Run.Job))
	}
	say.Warn(line)
	return out
}

func tickText(tick time.Time) string {
	if tick.IsZero() {
		return "a run by hand"
	}
	return "tick " + cronce.Stamp(tick)
}

// shellWord writes a name so that it can be pasted into a shell.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@+,", r)
	}
	if strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// exitOf is the exit code for how a run ended: the command's own, where it has
// one.
func exitOf(r cronce.Result) int {
	switch {
	case r.Outcome == cronce.TimedOut:
		return 124 // as timeout(1)
	case r.Outcome == cronce.Cancelled && r.ExitCode == 0:
		return 0
	}
	return r.ExitCode
}

// writeStatus writes the report, whole or not at all.
func writeStatus(path string, r report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// explain is --dry-run: what would be done now, and why.
func (in *invocation) explain(ctx context.Context, c cronce.Claim, stdout io.Writer) error {
	store, err := localstore.Open(localstore.Options{Dir: in.store, ReadOnly: true})
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
	_, err = fmt.Fprintf(stdout, "job %q, %s\n%s\n%s\n", c.Job, tickText(c.Tick), seen, verdict)
	return err
}

// verdict is the sentence that --dry-run ends with.
func (in *invocation) verdict(ctx context.Context, store *cronce.Store, c cronce.Claim, state cronce.JobState) (string, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return "", err
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
	return "would run: " + strings.Join(in.command, " "), nil
}
