package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/handover"
)

// forwarded are the signals that a guard passes on to its command.
var forwarded = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// work is a command with the policies of its job.
type work struct {
	job     cronce.Job
	warning time.Duration // when to say that it goes on for long; 0: never
	say     *slog.Logger
	command guard.Command
	lock    machineLock     // for a lease that expires
	gone    <-chan struct{} // closed when nobody renews the lease any more; nil: that does not happen
}

// underLease guards the command while it holds the lease, tries it again
// where the job asks for that, and finishes the lease.
func (w work) underLease(ctx context.Context, store *cronce.Store, l cronce.Lease, signals *guard.Signals) (cronce.Result, error) {
	w.command.Lock = l.Lock
	w.command.Timeout, w.command.Grace, w.command.Orphans = w.job.Timeout, w.job.Grace, w.job.Orphans
	l.FreeLock = w.job.Orphans == cronce.OrphansLeave
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.TTL > 0 {
		return w.underExpiring(work, cancel, store, l, signals)
	}
	var kept sync.WaitGroup
	began := guard.SinceBoot()
	// What looks after a run takes longer to begin than a short one to end.
	w.command.Lasts = sync.OnceFunc(func() {
		kept.Go(func() {
			if err := store.Keep(work, l); err != nil {
				cancel(err)
			}
		})
		w.warnLater(work, l, began)
	})
	if w.warning > 0 && w.warning < guard.Short {
		w.command.Lasts()
	}
	r := w.tries(work, store, l, signals)
	cancel(nil)
	kept.Wait()
	return r, store.Finish(context.WithoutCancel(ctx), l, r)
}

// underExpiring is underLease for a lease that expires: it is renewed from the start,
// also while the command's end takes its time.
func (w work) underExpiring(ctx context.Context, cancel context.CancelCauseFunc, store *cronce.Store, l cronce.Lease, signals *guard.Signals) (cronce.Result, error) {
	var latest atomic.Pointer[cronce.Lease]
	latest.Store(&l)
	w.command.Lease = func() (stop, end time.Duration) {
		l := latest.Load()
		return l.StopAt(), l.EndAt()
	}
	w.command.Lasts = func() {}
	tending, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	var tended sync.WaitGroup
	tended.Go(func() {
		store.Tend(tending, l, func(l cronce.Lease, why error) {
			latest.Store(&l)
			if why != nil {
				cancel(why)
			}
		})
	})
	tended.Go(func() {
		select {
		case <-w.gone:
			cancel(handover.ErrGone)
		case <-tending.Done():
		}
	})
	r, start := w.take(ctx, store, l, signals)
	if start {
		w.warnLater(tending, l, guard.SinceBoot())
		r = w.tries(ctx, store, l, signals)
	}
	if w.command.Lock != nil {
		// Before the lease is: who has that next is to find it free.
		w.lock.machine.Unlock(w.command.Lock, l.FreeLock)
	}
	done()
	tended.Wait()
	return r, store.Conclude(context.WithoutCancel(ctx), *latest.Load(), r)
}

// warnLater says that the run goes on for long, when it does.
func (w work) warnLater(ctx context.Context, l cronce.Lease, began time.Duration) {
	if w.warning <= 0 {
		return
	}
	warn := time.AfterFunc(began+w.warning-guard.SinceBoot(), func() {
		w.say.Warn(fmt.Sprintf("it has been running for %s: another tick may come before it ends", w.warning), "job", l.Run.Job, "run", l.Run.ID)
	})
	context.AfterFunc(ctx, func() { warn.Stop() })
}

// tries runs the command until it does not fail, or has failed often enough.
// The timeout is that of all attempts together: it keeps the run out of the
// next tick.
func (w work) tries(ctx context.Context, store *cronce.Store, l cronce.Lease, signals *guard.Signals) cronce.Result {
	delay := w.job.RetryDelay
	if delay == 0 {
		delay = cronce.DefaultRetryDelay
	}
	var deadline time.Time
	if w.job.Timeout > 0 {
		deadline = time.Now().Add(w.job.Timeout)
	}
	w.command.Began = guard.SinceBoot()
	env := w.command.Env
	if w.job.Retries > 0 {
		w.command.Tail = &guard.Tail{} // one for all attempts
	}
	for n := 1; ; n++ {
		again := func(r cronce.Result) bool { return r.Outcome == cronce.Failed && n <= w.job.Retries }
		w.command.Env = guard.Environment(env, l, n, deadline)
		w.command.Orphaned = func(r cronce.Result) {
			if !again(r) { // else its own work goes on
				orphaned := l
				orphaned.Orphaned = true
				store.Renew(ctx, orphaned) // only the reason given for a skip depends on it
			}
		}
		r := guard.Run(ctx, w.command)
		if n > 1 {
			r.Attempts = n
			r.Output, r.OutputBytes = w.command.Tail.Bytes() // also where this one could not be started
		}
		if err := asked(ctx, store, l, r); err != nil {
			r.Outcome, r.Message = cronce.Cancelled, err.Error()
		}
		if !again(r) {
			return r
		}
		if w.job.Timeout > 0 && guard.SinceBoot()+delay >= w.command.Began+w.job.Timeout {
			r.Message += fmt.Sprintf("; no time is left for another attempt within its timeout of %s", w.job.Timeout)
			return r
		}
		failed := fmt.Sprintf("attempt %d of %d failed (%s)", n, w.job.Retries+1, r.Message)
		w.say.Warn(fmt.Sprintf("%s: the next one is in %s", failed, delay), "job", l.Run.Job, "run", l.Run.ID)
		if !w.command.Direct() {
			w.command.Tail.AddLine("cronce: " + failed)
		}
		w.command.Lasts()
		sig := signals.Wait(ctx, delay)
		switch {
		case sig != 0:
			r.Message, r.ExitCode = "got "+guard.SignalName(sig), 128+int(sig)
		case ctx.Err() != nil:
			r.Message = context.Cause(ctx).Error()
		default:
			continue
		}
		r.Outcome = cronce.Cancelled
		return r
	}
}

// asked says whether a run that failed did so because it was to end: whoever
// takes its lease away may end its processes before the lease is looked at.
func asked(ctx context.Context, store *cronce.Store, l cronce.Lease, r cronce.Result) error {
	if r.Outcome != cronce.Failed {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if l.TTL > 0 {
		var done func()
		ctx, done = context.WithTimeout(ctx, l.TTL/6)
		defer done()
	}
	renewed, err := store.Renew(ctx, l)
	switch {
	case errors.Is(err, cronce.ErrLost):
		return err
	case err == nil && renewed.Stop != nil:
		return &cronce.StopError{Request: *renewed.Stop}
	}
	return nil
}

// newSay returns what a guard says in its own name: text as people read it in
// cron's mail, or JSON.
func newSay(w io.Writer, format string, level slog.Level) *slog.Logger {
	w = bearing{w}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(&textHandler{w: w, level: level})
}

// bearing writes without dying of a reader that goes away.
type bearing struct{ to io.Writer }

func (b bearing) Write(p []byte) (int, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return b.to.Write(p)
}

// textHandler writes "cronce: job: message". What else a record has is in the
// message or in the store.
type textHandler struct {
	w     io.Writer
	level slog.Level
	job   string
}

func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h *textHandler) WithGroup(string) slog.Handler                { return h }

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		with.note(a)
	}
	return &with
}

func (h *textHandler) note(a slog.Attr) bool {
	if a.Key == "job" {
		h.job = a.Value.String() + ": "
	}
	return true
}

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	line := *h
	r.Attrs(line.note)
	_, err := io.WriteString(h.w, "cronce: "+line.job+strings.ReplaceAll(r.Message, "\n", " ")+"\n")
	return err
}
