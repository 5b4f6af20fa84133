package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// freeing is a release of a job under way.
type freeing struct {
	store   *cronce.Store
	dir     string
	request cronce.Request
	out     io.Writer
	held    []localstore.Lock // when it began
	runs    []string          // whom it is for; "" for one that is not on record
}

// pollRelease is how often it is looked whether a job is free: the end of a
// lock is no event to wait for.
const pollRelease = 100 * time.Millisecond

// release asks whoever holds a job to end, or makes them.
func release(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("release")
	dir := cli.StoreFlag(f)
	force := f.Bool("force", false, "")
	wait, waits := time.Minute, false
	f.Func("wait", "", func(v string) (err error) {
		if wait, err = time.ParseDuration(v); err != nil || wait < 0 {
			return errors.New("a duration from 0 on is expected, as 30s")
		}
		waits = true
		return nil
	})
	why := whyFlag(f)
	rest, err := f.Parse(args)
	if err != nil {
		return err
	}
	job, err := oneJob("release", rest)
	if err != nil {
		return err
	}
	if *force && waits {
		return cli.Misuse("release", "--wait and --force contradict each other: --force does not wait for anybody's own end")
	}
	store, err := openThere(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	asked, done := soon(ctx, f, *dir)
	err = cli.CheckKnown(asked, store, *dir, job)
	done()
	if err != nil {
		return err
	}
	r := &freeing{store: store, dir: *dir, out: stdout,
		request: cronce.Request{Kind: cronce.Stop, Job: job, By: requester(), Why: *why}}
	if *force {
		r.request.Kind = cronce.Revoke
	}
	if cli.IsURL(*dir) {
		return (&asking{store: store, patience: 2 * f.StoreTimeout, request: r.request, out: stdout}).free(ctx, wait)
	}
	if r.held, err = localstore.Locks(ctx, localstore.Options{Dir: *dir}, job); err != nil {
		return err
	}
	if len(r.held) == 0 {
		return r.say("nothing holds it")
	}
	if *force {
		return r.revoke(ctx)
	}
	return r.ask(ctx, wait)
}

func (r *freeing) say(format string, args ...any) error {
	_, err := fmt.Fprintf(r.out, "%s: %s\n", r.request.Job, fmt.Sprintf(format, args...))
	return err
}

// ask asks the runs to stop and waits for their end.
func (r *freeing) ask(ctx context.Context, wait time.Duration) error {
	if err := r.send(ctx); err != nil {
		return err
	}
	for _, l := range r.held {
		text := "asked to stop: " + l.String()
		if !l.Guarded {
			text = fmt.Sprintf("nobody can be asked to stop it (--force ends it): %s", l)
		}
		if err := r.say("%s", text); err != nil {
			return err
		}
	}
	began := time.Now()
	for {
		left, err := r.left(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return r.ended(ctx)
		}
		if time.Since(began) >= wait {
			return r.stillHeld(left, fmt.Sprintf("%s after the request, which stands", wait), nil)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pollRelease, wait)):
		}
	}
}

// revoke takes the leases away; the store ends their holders.
func (r *freeing) revoke(ctx context.Context) error {
	failed := r.send(ctx)
	var unavailable *cronce.UnavailableError
	if failed != nil && !errors.As(failed, &unavailable) {
		return failed
	}
	left, err := r.left(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	for _, l := range r.held {
		text := "revoked: "
		if slices.ContainsFunc(left, func(o localstore.Lock) bool { return o.Run.ID == l.Run.ID }) {
			text = "revoked, but it goes on: "
		}
		if err := r.say("%s%s", text, l); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return r.stillHeld(left, "though its lease was revoked", failed)
	}
	if failed != nil {
		return failed
	}
	return r.ended(ctx)
}

// send makes the request and learns whom it was for.
func (r *freeing) send(ctx context.Context) error {
	failed := r.store.Request(ctx, r.request)
	asked, err := r.store.Requests(ctx, r.request.Job, 0)
	if err != nil {
		return errors.Join(failed, err)
	}
	for _, l := range r.held {
		r.runs = append(r.runs, l.Run.ID)
	}
	// Another request of the same text, a moment later, is for the same runs and more.
	for _, q := range slices.Backward(asked) {
		if q.Kind == r.request.Kind && q.By == r.request.By && q.Why == r.request.Why {
			r.runs = append(r.runs, q.Runs...)
			break
		}
	}
	slices.Sort(r.runs)
	r.runs = slices.Compact(r.runs)
	return failed
}

// left are the locks that are still held by whom the request was for.
func (r *freeing) left(ctx context.Context) ([]localstore.Lock, error) {
	state, _, err := r.store.Job(ctx, r.request.Job)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(state.Live, func(l cronce.Run) bool { return slices.Contains(r.runs, l.ID) }) {
		// Not by looking through all processes each time.
		var left []localstore.Lock
		for _, l := range state.Live {
			if slices.Contains(r.runs, l.ID) {
				left = append(left, r.lock(l))
			}
		}
		return left, nil
	}
	locks, err := localstore.Locks(ctx, localstore.Options{Dir: r.dir}, r.request.Job)
	return slices.DeleteFunc(locks, func(l localstore.Lock) bool { return !slices.Contains(r.runs, l.Run.ID) }), err
}

// lock is what is known of a run's lock without another look.
func (r *freeing) lock(run cronce.Run) localstore.Lock {
	for _, l := range r.held {
		if l.Run.ID == run.ID {
			l.Processes = slices.DeleteFunc(slices.Clone(l.Processes), func(p localstore.Process) bool { return !lives(p.PID) })
			return l
		}
	}
	return localstore.Lock{Run: run, Guarded: true, Processes: []localstore.Process{{PID: run.Holder.PID, Name: run.Holder.Via}}}
}

// lives tells whether there is a process of that id.
func lives(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

func (r *freeing) stillHeld(left []localstore.Lock, when string, why error) error {
	names := make([]string, len(left))
	for i, l := range left {
		names[i] = l.String()
	}
	text := fmt.Sprintf("job %q is still held %s: %s", r.request.Job, when, strings.Join(names, "; "))
	if why != nil {
		text += ": " + why.Error()
	} else if r.request.Kind == cronce.Stop {
		text += "; --force ends it"
	}
	return &cli.ExitError{Code: cli.TempFail, Err: errors.New(text)}
}

// ended says how the runs ended.
func (r *freeing) ended(ctx context.Context) error {
	for _, id := range r.runs {
		run, ok, err := r.store.Run(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			continue // it was never on record, or is forgotten
		}
		text := fmt.Sprintf("run %s: %s after %s", id, cli.Outcome(run), cli.Brief(run.End.Sub(run.Start)))
		if note := cli.Note(run, nil); note != "" {
			text += ": " + note
		}
		if err := r.say("%s", text); err != nil {
			return err
		}
	}
	return r.say("what held it has ended")
}
