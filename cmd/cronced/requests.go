package main

import (
	"context"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/config"
	"github.com/cronce/cronce/request"
)

// requests send the HTTP request of every run of a job. No process of its own
// watches over one: when serve is killed the request ends with it, and the run
// is lost.
type requests struct {
	store *cronce.Store
	job   *config.Job
	out   *lines
}

// work sees one run through.
func (r *requests) work(ctx context.Context, l cronce.Lease, begun func()) (cronce.Result, error) {
	begun() // there is no process to start
	say := func(text string) { r.out.say(r.job.Name, "%-9s  %s", "request", text) }
	if after := warning(r.job.Job, l); after > 0 {
		warn := time.AfterFunc(after, func() {
			say("it has been running for " + after.String() + ": another tick may come before it ends")
		})
		defer warn.Stop()
	}
	show := func(text []byte) {
		o := &output{lines: r.out, job: r.job.Name}
		o.Write(text)
		o.end()
	}
	return r.store.Hold(ctx, l, r.job.Timeout, func(ctx context.Context) cronce.Result {
		return request.Task{Request: *r.job.HTTP, Job: r.job.Job, Run: l.Run, Say: say, Output: show}.Do(ctx)
	})
}
