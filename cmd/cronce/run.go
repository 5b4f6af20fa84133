package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
	"github.com/cronce/cronce/schedule"
	"github.com/cronce/cronce/store/localstore"
)

// invocation is `cronce run` as it was typed.
type invocation struct {
	job      cronce.Job
	schedule *schedule.Schedule // nil: none was given
	command  []string

	store        string
	storeTimeout time.Duration
	tick         time.Time // zero: from the schedule, or none
	manual       bool
	by           string // who triggered it; empty: nobody did
	skipExit     int    // -1: the default
	statusFile   string
	dryRun       bool
	level        slog.Level
	format       string
	terminal     bool // somebody sits at it
}

// runJob is `cronce run`: it returns the exit code.
func runJob(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	// Before anything is decided: after that, a signal must not end us unheard.
	signals, err := guard.Catch(forwarded...)
	if err != nil {
		return cli.Fail(stderr, err)
	}
	in, err := readRun("run", args)
	if errors.Is(err, flag.ErrHelp) {
		return cli.Fail(stderr, help([]string{"run"}, stdout))
	} else if err != nil {
		return cli.Fail(stderr, err)
	}
	if cli.IsURL(in.store) && lent == nil {
		_, err := openElsewhere(in.store, in.storeTimeout)
		return cli.Fail(stderr, err)
	}
	claim := in.claim(time.Now())
	if in.dryRun {
		return cli.Fail(stderr, in.explain(ctx, claim, stdout))
	}
	s := in.decideAndRun(ctx, claim, signals, stderr)
	if in.statusFile != "" {
		if err := writeStatus(in.statusFile, s); err != nil {
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err // the path is a temporary one
			}
			newSay(stderr, in.format, in.level).Error(fmt.Sprintf("--status-file %s: %v", in.statusFile, err), "job", in.job.Name)
		}
	}
	return s.Exit
}

// claim is what to ask of the store at that time.
func (in *invocation) claim(now time.Time) cronce.Claim {
	c := cronce.Claim{
		RunID: cronce.NewRunID(), Job: in.job.Name, Definition: in.job.Definition(),
		Overlap: in.job.Overlap, Tick: in.tick.UTC(), TTL: in.job.Lease, Holder: cronce.ThisProcess("run"),
	}
	c.Holder.Guard = true
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
	if in.by != "" {
		c.Holder.User, c.Holder.Via = in.by, "trigger"
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

// decideAndRun takes the job through a claim and, if it is won, its run.
func (in *invocation) decideAndRun(ctx context.Context, c cronce.Claim, signals *guard.Signals, stderr io.Writer) report {
	say := newSay(stderr, in.format, in.level).With("job", c.Job)
	refuse := func(err error) report {
		say.Error(strings.TrimPrefix(err.Error(), fmt.Sprintf("job %q: ", c.Job))) // the line begins with it
		return report{Job: c.Job, Decision: "none", Error: err.Error(), Exit: cli.Code(err)}
	}
	store, err := in.open(false)
	if err != nil {
		return refuse(err)
	}
	defer store.Close()
	lock, err := in.machineLock(say)
	if err != nil {
		return refuse(err)
	}
	if in.typed() {
		say.Warn("typed at a terminal, so this is a run by hand and takes no tick (--tick names one)")
	}

	began := time.Now()
	l, sig, err := in.decide(ctx, store, c, signals, say)
	var taken *cronce.TakenError
	var skipped *cronce.SkippedError
	switch {
	case errors.As(err, &taken):
		return in.taken(taken, say)
	case errors.As(err, &skipped):
		return in.skipped(skipped, time.Since(began), say)
	case sig != 0 && err != nil:
		say.Warn(fmt.Sprintf("got %s while it waited: not run", guard.SignalName(sig)))
		return report{Job: c.Job, Decision: "none", Error: "got " + guard.SignalName(sig), Exit: 128 + int(sig)}
	case err != nil:
		return refuse(in.withCure(err))
	}
	if sig != 0 {
		// Decided in the same moment: it is ours, and so is its end.
		r := cronce.Result{Outcome: cronce.Cancelled, ExitCode: 128 + int(sig), Message: "got " + guard.SignalName(sig) + " before it started"}
		return in.ended(l, r, store.Finish(ctx, l, r), say)
	}
	say.Info("run " + l.Run.ID + " starts, " + tickText(l.Run.Tick))
	path, lookErr := in.lookPath()
	w := work{gone: goneLender(), lock: lock, job: in.job, say: newSay(stderr, in.format, in.level), command: guard.Command{
		Path: path, Args: in.command, Env: cli.CommandEnvironment(os.Environ()), NotFound: lookErr,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: in.terminal || isTerminal(os.Stdout) || isTerminal(os.Stderr),
	}}
	switch {
	case in.schedule != nil && !l.Run.Tick.IsZero():
		w.warning = in.job.Warning(in.schedule, l.Run.Tick)
	default:
		w.warning = in.job.WarnAt
	}
	r, err := w.underLease(ctx, store, l, signals)
	return in.ended(l, r, err, say)
}

// open opens the store.
func (in *invocation) open(readOnly bool) (*cronce.Store, error) {
	if lent != nil {
		return lentStore(in.storeTimeout), nil
	}
	return localstore.Open(localstore.Options{Dir: in.store, ReadOnly: readOnly})
}

// machineLock is where the run has its lock of this machine, if it needs one.
func (in *invocation) machineLock(say *slog.Logger) (machineLock, error) {
	if lent == nil {
		return machineLock{}, nil
	}
	k, missing, err := openMachineLock(in.store)
	if missing != nil {
		say.Info(missing.Error())
	}
	return k, err
}

// offer makes the claim. On a store that hosts share it is made again, as the same one,
// when no answer comes, for as long as the store may take to be reached.
func (in *invocation) offer(ctx context.Context, store *cronce.Store, c cronce.Claim) (l cronce.Lease, err error) {
	if lent == nil {
		return store.Claim(ctx, c)
	}
	ttl := cmp.Or(c.TTL, cronce.DefaultTTL)
	for until := cronce.SinceBoot() + in.storeTimeout; ; {
		patient, done := context.WithTimeout(ctx, min(in.storeTimeout, ttl/3))
		l, err = store.ClaimInTime(patient, c)
		done()
		if cronce.Answered(err) || cronce.SinceBoot() >= until {
			break
		}
		time.Sleep(min(askAgain, until-cronce.SinceBoot()))
	}
	if err != nil && !cronce.Answered(err) {
		var away *cronce.UnavailableError
		if !errors.As(err, &away) {
			err = &cronce.UnavailableError{Store: "that hosts share", Err: err}
		}
	}
	return l, err
}

// askAgain is how soon a claim is made again that got no answer.
const askAgain = 200 * time.Millisecond

// typed reports whether somebody typed a line with a schedule, as from a
// crontab: that must not use up a tick.
func (in *invocation) typed() bool {
	return in.terminal && in.schedule != nil && !in.manual && in.tick.IsZero()
}

// lookPath finds the command's file.
func (in *invocation) lookPath() (string, error) {
	list, ok := os.LookupEnv("PATH")
	if !ok {
		list = "/bin:/usr/bin" // as execvp(3)
	}
	path, err := guard.LookPath(in.command[0], list)
	if path == "" {
		path = in.command[0]
	}
	return path, err
}

// ended tells how a run went. What the command said for itself, by its output
// and an exit code, is not said again. err is why that is not on record.
func (in *invocation) ended(l cronce.Lease, r cronce.Result, err error, say *slog.Logger) report {
	l.Run.Result, l.Run.End = r, time.Now()
	out := report{Job: l.Run.Job, Decision: "run", Run: &l.Run, Exit: exitOf(r)}
	lost := errors.Is(err, cronce.ErrLost) && !withLease(r.Message) || r.Outcome == cronce.Cancelled && strings.HasPrefix(r.Message, cronce.ErrLost.Error())
	byItself := r.Signal == "" && r.Message == "exit "+strconv.Itoa(r.ExitCode)
	bySender := strings.HasPrefix(r.Message, "got ") // of the signal, who knows
	switch {
	case lost:
		out.Exit, out.Error = cli.LeaseLost, cronce.ErrLost.Error()
		_, by, _ := strings.Cut(r.Message, ": revoked")
		say.Error(fmt.Sprintf("run %s was ended, as its lease was taken away%s", l.Run.ID, by))
	case r.Outcome == cronce.Cancelled && withLease(r.Message):
		out.Exit, out.Error = cli.LeaseLost, r.Message
		say.Error(fmt.Sprintf("run %s was ended: %s", l.Run.ID, r.Message))
	case err != nil:
		out.Error = err.Error()
		say.Error(fmt.Sprintf("run %s %s, but its end is not on record: %v", l.Run.ID, r.Outcome, err))
	case r.Outcome != cronce.Succeeded && !byItself && !bySender:
		say.Warn(fmt.Sprintf("run %s: %s", l.Run.ID, r.Message))
	default:
		say.Info("run " + l.Run.ID + " " + string(r.Outcome) + " after " + brief(l.Run.End.Sub(l.Run.Start)))
	}
	return out
}

// withLease reports whether that is why a run ended: its lease could not be kept.
func withLease(message string) bool {
	return strings.HasPrefix(message, "the lease could not be renewed") || strings.HasPrefix(message, "skew:") ||
		strings.HasPrefix(message, handover.ErrGone.Error())
}

// decide waits for the decision, or for a signal that ends the waiting.
func (in *invocation) decide(ctx context.Context, store *cronce.Store, c cronce.Claim, signals *guard.Signals, say *slog.Logger) (l cronce.Lease, got syscall.Signal, err error) {
	l, err = in.offer(ctx, store, c)
	var conflict *cronce.ConflictError
	if errors.As(err, &conflict) && conflict.Kept.ForOneRun() == c.Definition {
		c.Definition = conflict.Kept // of which this program can follow all that is for it
		l, err = in.offer(ctx, store, c)
	}
	var held *cronce.HeldError
	var skew *cronce.SkewError
	if errors.As(err, &held) {
		c.Offered = held.Offered
		in.tellWait(c, held, say)
	}
	if held != nil || errors.As(err, &skew) {
		ctx, decided := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l, err = store.Decide(ctx, c)
			decided()
		}()
		got = signals.Wait(ctx, -1)
		decided()
		<-done
	}
	if sig := signals.Next(); sig != 0 {
		got = sig
	}
	return l, got, err
}

// tellWait says, to who wants to know, that and for what it waits.
func (in *invocation) tellWait(c cronce.Claim, held *cronce.HeldError, say *slog.Logger) {
	if held.Holder.ID == "" && held.Holder.Holder.PID == 0 {
		say.Warn(fmt.Sprintf("waits: %v (where that cannot be, 'cronce store init' says so)", held))
		return
	}
	if c.Overlap.Wait == 0 {
		return // a moment for what is just ending
	}
	say.Log(context.Background(), in.aloud(), fmt.Sprintf("waits up to %s: %v", c.Overlap.Wait, held))
}

// aloud is the level for what only a person who watches wants to know.
func (in *invocation) aloud() slog.Level {
	if in.terminal {
		return max(in.level, slog.LevelWarn)
	}
	return slog.LevelInfo
}

// exitOf is the exit code for how a run ended: the command's own, where it has
// one.
func exitOf(r cronce.Result) int {
	if r.Outcome == cronce.TimedOut {
		return 124 // as timeout(1)
	}
	return r.ExitCode
}
