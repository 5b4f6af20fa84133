package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
)

// forwarded are the signals that a guard passes on to its command.
var forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// work is a command with the policies of its job.
type work struct {
	job     cronce.Job
	warning time.Duration // when to say that it goes on for long; 0: never
	say     *slog.Logger
	command guard.Command
}

// underLease guards the command while it holds the lease, tries it again
// where the job asks for that, and finishes the lease.
func (w work) underLease(ctx context.Context, store *cronce.Store, l cronce.Lease, signals <-chan os.Signal) (cronce.Result, error) {
	w.command.Lock, w.command.Signals = l.Lock, signals
	w.command.Timeout, w.command.Grace, w.command.Orphans = w.job.Timeout, w.job.Grace, w.job.Orphans
	w.command.Orphaned = func() {
		orphaned := l
		orphaned.Orphaned = true
		store.Renew(ctx, orphaned) // only the reason given for a skip depends on it
	}
	l.FreeLock = w.job.Orphans == cronce.OrphansLeave
	if w.warning > 0 {
		warn := time.AfterFunc(w.warning, func() {
			w.say.Warn(fmt.Sprintf("it has been running for %s: another tick may come before it ends", w.warning), "job", l.Run.Job, "run", l.Run.ID)
		})
		defer warn.Stop()
	}
	return store.Hold(ctx, l, 0, func(ctx context.Context) cronce.Result { return w.tries(ctx, l, signals) })
}

// tries runs the command until it does not fail, or has failed often enough.
func (w work) tries(ctx context.Context, l cronce.Lease, signals <-chan os.Signal) cronce.Result {
	delay := w.job.RetryDelay
	if delay == 0 {
		delay = cronce.DefaultRetryDelay
	}
	env := w.command.Env
	for n := 1; ; n++ {
		w.command.Env = append(slices.Clip(env), guard.Environment(l, n, w.job.Timeout)...)
		r := guard.Run(ctx, w.command)
		if n > 1 {
			r.Attempts = n
		}
		if r.Outcome != cronce.Failed || n > w.job.Retries {
			return r
		}
		w.say.Warn(fmt.Sprintf("attempt %d of %d failed (%s): the next one is in %s", n, w.job.Retries+1, r.Message, delay), "job", l.Run.Job, "run", l.Run.ID)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			r.Message = context.Cause(ctx).Error()
		case sig := <-signals:
			r.Message = "got " + sig.String()
		}
		timer.Stop()
		r.Outcome = cronce.Cancelled
		return r
	}
}

// newSay returns what a guard says in its own name: text as people read it in
// cron's mail, or JSON.
func newSay(w io.Writer, format string, level slog.Level) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(&textHandler{w, level})
}

// textHandler writes "cronce: job: message". What else a record has is in the
// message or in the store.
type textHandler struct {
	w     io.Writer
	level slog.Level
}

func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h *textHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *textHandler) WithGroup(string) slog.Handler                { return h }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	line := "cronce: "
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "job" {
			line += a.Value.String() + ": "
		}
		return true
	})
	_, err := io.WriteString(h.w, line+strings.ReplaceAll(r.Message, "\n", " ")+"\n")
	return err
}
