package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
)

const (
	holdLook  = time.Second // how often it is looked whether the place is free
	holdRest  = time.Second // before the command is started again, doubled each time
	holdRests = time.Minute // up to this; a run that lasts as long begins anew
)

// holding is `cronce hold`: a command that is to run all the time, once among all who
// hold it.
type holding struct {
	in      *invocation
	store   *cronce.Store
	signals *guard.Signals
	lock    machineLock
	say     *slog.Logger
	away    bool // that the store cannot be reached was said
	waits   bool // that another has it was said
	named   bool // no scheduled job has its name
}

// hold keeps one copy of a command running among all who call it. It returns the exit
// code.
func hold(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	signals, err := guard.Catch(forwarded...)
	if err != nil {
		return cli.Fail(stderr, err)
	}
	in, err := readHold(args)
	if errors.Is(err, flag.ErrHelp) {
		return cli.Fail(stderr, help([]string{"hold"}, stdout))
	} else if err != nil {
		return cli.Fail(stderr, err)
	}
	if cli.IsURL(in.store) && lent == nil {
		_, err := openElsewhere(in.store, in.storeTimeout)
		return cli.Fail(stderr, err)
	}
	store, err := in.open(false)
	if err != nil {
		return cli.Fail(stderr, err)
	}
	defer store.Close()
	lock, err := in.machineLock(newSay(stderr, in.format, in.level).With("job", in.job.Name))
	if err != nil {
		return cli.Fail(stderr, err)
	}
	h := &holding{lock: lock, in: in, store: store, signals: signals, say: newSay(stderr, in.format, in.level).With("job", in.job.Name)}
	return h.loop(ctx, stderr)
}

// readHold reads the command line: that of a run by hand, without what makes no sense for
// a command that is to run all the time.
func readHold(args []string) (*invocation, error) {
	in, err := readRun("hold", append([]string{"--manual"}, args...))
	if err != nil {
		return nil, err
	}
	j := in.job
	if j.Schedule != "" || j.Overlap != (cronce.Overlap{}) || j.Timeout != 0 || j.Retries != 0 || j.WarnAt != 0 || in.statusFile != "" || in.skipExit >= 0 || in.dryRun {
		return nil, cli.Misuse("hold", "job %q: a command that is held has no schedule, timeout, overlap, retries or end to report: see 'cronce help hold' for its flags", j.Name)
	}
	return in, nil
}

// loop waits for the place and runs the command in it, until a signal ends that.
func (h *holding) loop(ctx context.Context, stderr io.Writer) int {
	rest := holdRest
	for {
		l, err := h.claim(ctx)
		var held *cronce.HeldError
		switch {
		case err == nil:
		case errors.As(err, &held):
			h.tellWaits(held)
			if code, ended := h.pause(ctx, holdLook); ended {
				return code
			}
			continue
		case errors.Is(err, handover.ErrGone):
			h.say.Error(err.Error())
			return cli.LeaseLost
		case !h.named && cli.Code(err) == cli.Config:
			return cli.Fail(stderr, err)
		case !cronce.Answered(err):
			if !h.away {
				h.say.Warn(fmt.Sprintf("waits: %v", err))
			}
			h.away = true
			if code, ended := h.pause(ctx, holdLook); ended {
				return code
			}
			continue
		default:
			return cli.Fail(stderr, err)
		}
		h.away, h.waits = false, false
		began := cronce.SinceBoot()
		h.say.Info("run " + l.Run.ID + " starts")
		r, err := h.run(ctx, l)
		switch {
		case lenderGone():
			h.say.Error("the command was ended: " + r.Message)
			return cli.LeaseLost
		case r.Outcome == cronce.Cancelled && strings.HasPrefix(r.Message, "got "):
			return exitOf(r)
		}
		if cronce.SinceBoot()-began >= holdRests {
			rest = holdRest
		}
		what := string(r.Outcome)
		if r.Message != "" {
			what += " (" + r.Message + ")"
		}
		if err != nil {
			what += ", which is not on record: " + err.Error()
		}
		h.say.Warn(fmt.Sprintf("run %s %s after %s: it is started again in %s, here or elsewhere", l.Run.ID, what, brief(cronce.SinceBoot()-began), rest))
		if code, ended := h.pause(ctx, rest); ended {
			return code
		}
		rest = min(2*rest, holdRests)
	}
}

// claim asks for the place. Nothing is decided, or put on record, while another has it.
func (h *holding) claim(ctx context.Context) (cronce.Lease, error) {
	if err := h.checkName(ctx); err != nil {
		return cronce.Lease{}, err
	}
	c := cronce.Claim{RunID: cronce.NewRunID(), Job: h.in.job.Name, CatchUp: true, TTL: h.in.job.Lease, Holder: cronce.ThisProcess("hold")}
	return h.in.offer(ctx, h.store, c)
}

// checkName refuses the name of a job that has a schedule: its ticks would all be skipped.
func (h *holding) checkName(ctx context.Context) error {
	if h.named {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.in.storeTimeout)
	defer cancel()
	name := h.in.job.Name
	state, _, err := h.store.Job(ctx, name)
	if err == nil && state.Definition.Schedule != "" {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("job %q has a schedule, %s: what is held has its name to itself, as no tick is run while it is held", name, state.Definition)}
	}
	h.named = err == nil
	return err
}

// run runs the command once.
func (h *holding) run(ctx context.Context, l cronce.Lease) (cronce.Result, error) {
	path, notFound := h.in.lookPath()
	w := work{gone: goneLender(), lock: h.lock, job: h.in.job, say: newSay(os.Stderr, h.in.format, h.in.level), command: guard.Command{
		Path: path, Args: h.in.command, Env: cli.CommandEnvironment(os.Environ()), NotFound: notFound,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: h.in.terminal || isTerminal(os.Stdout) || isTerminal(os.Stderr),
	}}
	return w.underLease(ctx, h.store, l, h.signals)
}

// lenderGone reports whether nobody renews leases any more.
func lenderGone() bool {
	select {
	case <-goneLender():
		return true
	default:
		return false
	}
}

// tellWaits says once that another has the place.
func (h *holding) tellWaits(held *cronce.HeldError) {
	if !h.waits {
		h.say.Log(context.Background(), h.in.aloud(), fmt.Sprintf("waits: %v", held))
	}
	h.waits = true
}

// pause waits for about that long. A signal ends it, and gives the exit code.
func (h *holding) pause(ctx context.Context, d time.Duration) (code int, ended bool) {
	// Not all who wait ask at the same moments.
	if sig := h.signals.Wait(ctx, d/2+rand.N(d)); sig != 0 {
		return 128 + int(sig), true
	}
	return cli.OK, ctx.Err() != nil
}
