package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/request"
)

// gotSignal is why a request by hand is ended.
type gotSignal struct{ syscall.Signal }

func (s gotSignal) Error() string { return "got " + guard.SignalName(s.Signal) }

// send sends the job's request now, in this process, and prints the answer. The
// exit codes are those of `cronce run`.
func (t *triggered) send(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case s := <-signals:
			cancel(gotSignal{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	store, err := openToServe(ctx, t.flags, t.store)
	if err != nil {
		return err
	}
	defer store.Close()
	holder := cronce.ThisProcess("trigger")
	holder.Guard = true
	holder.User = requester()
	l, err := store.Decide(ctx, cronce.Claim{RunID: cronce.NewRunID(), Job: t.job, TTL: t.policies.Lease, Holder: holder})
	var skipped *cronce.SkippedError
	var got gotSignal
	switch {
	case errors.As(err, &skipped):
		return &cli.ExitError{Code: cli.TempFail, Err: fmt.Errorf("%s: a run by hand is skipped: %s", t.job, skipped.Why())}
	case errors.As(context.Cause(ctx), &got):
		return &cli.ExitError{Code: 128 + int(got.Signal), Err: fmt.Errorf("%s: %w", t.job, got)}
	case err != nil:
		return err
	}
	say := func(text string) { fmt.Fprintf(stderr, "cronce: %s: %s\n", t.job, text) }
	if t.warnAt > 0 {
		warn := time.AfterFunc(t.warnAt, func() {
			say(fmt.Sprintf("it has been running for %s: another tick may come before it ends", t.warnAt))
		})
		defer warn.Stop()
	}
	r, err := store.Hold(ctx, l, t.policies.Timeout, func(ctx context.Context) cronce.Result {
		return request.Task{
			Request: *t.http, Job: t.policies, Run: l.Run, Say: say,
			Output: func(text []byte) { stdout.Write(text) },
		}.Do(ctx)
	})
	code := cli.Failure
	switch {
	case errors.Is(err, cronce.ErrLost):
		code = cli.LeaseLost
	case err != nil:
		return fmt.Errorf("%s: run %s %s (%s), but its end is not on record: %w", t.job, l.Run.ID, r.Outcome, r.Message, err)
	case r.Outcome == cronce.Succeeded:
		return nil
	case r.Outcome == cronce.TimedOut:
		code = 124
	case errors.As(context.Cause(ctx), &got):
		code = 128 + int(got.Signal)
	}
	return &cli.ExitError{Code: code, Err: fmt.Errorf("%s: run %s: %s", t.job, l.Run.ID, r.Message)}
}
