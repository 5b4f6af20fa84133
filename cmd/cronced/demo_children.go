package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// policyJob is what every policy server has to do each second.
var policyJob = cronce.Job{
	Name: "policy-update", Schedule: "@every 1s", Zone: "UTC",
	StartDeadline: time.Minute, // by default half the interval: too soon for a busy machine
}

// demoServer is one policy server of the night of N crons: it has a cron inside
// that sends the update. Given a store, it claims each tick there first. It
// says a line a tick, what became of it here, and ends with its input.
func demoServer(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) < 1 || len(args) > 2 {
		return cli.Misuse("", "'demo-server' is started by demo only")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	})
	say := func(tick time.Time, format string, args ...any) {
		fmt.Fprintf(stdout, "%d %s\n", tick.Unix(), fmt.Sprintf(format, args...))
	}
	send := func(ctx context.Context, tick time.Time) error {
		return post(ctx, fmt.Sprintf("%s/update?tick=%d", args[0], tick.Unix()))
	}
	if len(args) == 1 {
		return plainCron(ctx, &background, send, say)
	}
	return onceCron(ctx, args[1], send, say)
}

// plainCron is a cron inside a program as everybody writes it.
func plainCron(ctx context.Context, background *sync.WaitGroup, send func(context.Context, time.Time) error, say func(time.Time, string, ...any)) error {
	schedule, err := policyJob.Parse()
	if err != nil {
		return err
	}
	var cron cronce.Timetable
	cron.Missed = func(_ *cronce.Entry, first, last time.Time) { sayMissed(say, first, last) }
	cron.Add(schedule, func(tick time.Time) {
		background.Go(func() {
			if err := send(ctx, tick); err != nil {
				say(tick, "failed: %v", err)
				return
			}
			say(tick, "ran")
		})
	})
	say(time.Now(), "up")
	cron.Run(ctx)
	return nil
}

// onceCron is the same with cronce: what is different is the store.
func onceCron(ctx context.Context, dir string, send func(context.Context, time.Time) error, say func(time.Time, string, ...any)) error {
	store, err := localstore.Open(localstore.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer store.Close()
	cron := cronce.Scheduler{Store: store, Via: "demo"}
	cron.Report = func(e cronce.Event) {
		switch e.Kind {
		case cronce.EventEnded:
			if err := e.Err; err != nil || e.Run.Outcome != cronce.Succeeded {
				say(e.Tick, "%s: %s %v", e.Run.Outcome, e.Run.Message, err)
				return
			}
			say(e.Tick, "ran")
		case cronce.EventTaken:
			say(e.Tick, "taken")
		case cronce.EventSkipped:
			say(e.Tick, "skipped: %s", e.Run.Skip)
		case cronce.EventMissed:
			sayMissed(say, e.Tick, e.Until)
		case cronce.EventRefused:
			say(e.Tick, "refused: %v", e.Err)
		}
	}
	err = cron.Add(policyJob, func(ctx context.Context, run cronce.Run) error { return send(ctx, run.Tick) })
	if err != nil {
		return err
	}
	say(time.Now(), "up")
	if err = cron.Run(ctx); errors.Is(err, context.Canceled) {
		err = nil // as asked
	}
	return err
}

// sayMissed says of each second that the clock was looked at too late.
func sayMissed(say func(time.Time, string, ...any), first, last time.Time) {
	for tick := first; !tick.After(last); tick = tick.Add(time.Second) {
		say(tick, "missed")
	}
}

// demoBatch is the batch of the night of three notices: it reads the pending
// rows, calls the outside for each of them, and marks it as sent.
func demoBatch(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return cli.Misuse("", "'demo-batch' is started by demo only")
	}
	reply, err := get(ctx, args[0]+"/pending")
	if err != nil {
		return err
	}
	var rows []int
	if err := json.Unmarshal(reply, &rows); err != nil {
		return err
	}
	for _, row := range rows {
		for _, step := range []string{"send", "mark"} {
			if err := post(ctx, args[0]+"/"+step+"?row="+strconv.Itoa(row)); err != nil {
				return err
			}
		}
	}
	return post(ctx, args[0]+"/end")
}

// loopback goes to the demo itself, whatever proxy the environment names.
var loopback = http.Client{Transport: &http.Transport{}}

func post(ctx context.Context, url string) error {
	_, err := call(ctx, http.MethodPost, url)
	return err
}

func get(ctx context.Context, url string) ([]byte, error) { return call(ctx, http.MethodGet, url) }

func call(ctx context.Context, method, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := loopback.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, url, reply.Status)
	}
	return body, err
}
