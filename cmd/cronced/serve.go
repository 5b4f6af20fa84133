package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// server is a serve at work.
type server struct {
	crontabs  watcher
	strict    bool
	dir       string // of the store, as --store gave it
	store     *cronce.Store
	thin      *thin
	reap      *reaper
	out       *lines
	scheduler *cronce.Scheduler
	backlog   backlog
}

// serve runs the jobs of crontabs until it is told to stop.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := cli.NewFlags("serve")
	dir := cli.StoreFlag(f)
	s := &server{}
	f.BoolVar(&s.strict, "strict", false, "")
	maxRunning := 0
	f.Func("max-running", "", func(v string) (err error) {
		if maxRunning, err = strconv.Atoi(v); err != nil || maxRunning < 1 {
			return errors.New("a number from 1 on is expected")
		}
		return nil
	})
	asJSON := false
	f.Func("log-format", "", func(v string) error {
		if asJSON = v == "json"; !asJSON && v != "text" {
			return errors.New("text or json is expected")
		}
		return nil
	})
	f.Func("crontab", "", func(path string) error { s.crontabs.paths = append(s.crontabs.paths, path); return nil })
	rest, err := f.Parse(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return cli.Misuse("serve", "unexpected %q: crontabs are given as --crontab FILE", rest[0])
	case len(s.crontabs.paths) == 0:
		return cli.Misuse("serve", "a crontab is needed, as in: cronce serve --crontab FILE")
	}
	jobs, problems, err := s.crontabs.read()
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "cronce: %v\n", p)
	}
	switch {
	case len(problems) > 0 && s.strict:
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s (--strict): nothing is served", count(len(problems), "problem"))}
	case len(jobs) == 0:
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("there is no job to serve in %s", strings.Join(s.crontabs.paths, ", "))}
	case len(problems) > 0:
		fmt.Fprintf(stderr, "cronce: %s: serving the other %s all the same\n", count(len(problems), "problem"), count(len(jobs), "job"))
	}
	s.dir = *dir
	if s.store, err = localstore.Open(localstore.Options{Dir: *dir}); err != nil {
		return err
	}
	defer s.store.Close()
	if s.thin, err = openThin(); err != nil {
		return err
	}
	defer s.thin.file.Close()
	s.reap = newReaper(os.Getpid())
	s.out = newLines(stdout, asJSON)
	defer s.out.close()
	return s.run(ctx, jobs, maxRunning)
}

// sameSignal is how soon after the first signal a second one is no second
// request: timeout(1) and some supervisors signal the process and its group.
const sameSignal = 250 * time.Millisecond

// run serves the jobs. HUP, or a change of the crontabs, loads them anew within
// two seconds; the first TERM, INT or QUIT lets the runs end, the second ends them.
func (s *server) run(ctx context.Context, jobs []*crontab.Job, maxRunning int) error {
	signals := make(chan os.Signal, 2)
	// PIPE too: a reader of the output that goes away must not end the runs.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE)
	// Caught to the very end: a second TERM must not kill us over the last lines.
	offering, stopOffering := context.WithCancel(ctx)
	defer stopOffering()
	running, stopRuns := context.WithCancelCause(ctx)
	defer stopRuns(nil)

	s.scheduler = &cronce.Scheduler{Store: s.store, Report: s.out.report, Via: "serve", BaseContext: running, MaxRunning: maxRunning}
	if err := s.scheduler.Set(s.plans(jobs)); err != nil {
		return &cli.ExitError{Code: cli.Config, Err: err}
	}
	for _, job := range jobs {
		if job.Reboot() {
			tick, id, err := bootOf(job.Name)
			if err == nil {
				err = s.scheduler.Offer(job.Name, tick, id)
			}
			if err != nil {
				s.out.say(job.Name, "NOT RUN    @reboot: %v", err)
			}
		}
	}
	s.out.say("serve", "cronce %s serves %s of %s, pid %d", build.Version(), count(len(jobs), "job"), strings.Join(s.crontabs.paths, ", "), os.Getpid())
	notify("READY=1")

	done := make(chan error, 1)
	go func() { done <- s.scheduler.Run(offering) }()
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	terminal := hasTerminal()
	var asked time.Time
	for {
		select {
		case err := <-done:
			if ctx.Err() == nil && errors.Is(err, context.Canceled) {
				err = nil // as asked
			}
			s.out.say("serve", "stopped")
			return err
		case <-look.C:
			if offering.Err() == nil && s.crontabs.changed() {
				s.reload()
			}
			s.backlog.look(s.scheduler, s.out)
		case sig := <-signals:
			switch {
			case sig == syscall.SIGPIPE:
			case sig == syscall.SIGHUP && !(terminal && !hasTerminal()): // not a terminal that hung up
				s.crontabs.served = nil // at the next look, if they are not being written then
			case offering.Err() == nil:
				asked = time.Now()
				s.out.say("serve", "%s: stopping", sig)
				notify("STOPPING=1")
				stopOffering()
			case time.Since(asked) < sameSignal:
			default:
				s.out.say("serve", "%s again: the runs are ended", sig)
				stopRuns(fmt.Errorf("serve got %s twice", sig))
			}
		}
	}
}

// hasTerminal reports whether this process has a controlling terminal now.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// reload loads the crontabs anew. Where that cannot be, what was served goes on.
func (s *server) reload() {
	keep := func(format string, args ...any) {
		s.out.say("serve", "NOT LOADED "+format+"; what was served goes on", args...)
	}
	jobs, problems, err := s.crontabs.read()
	if err != nil {
		keep("%v", err)
		return
	}
	for _, p := range problems {
		s.out.say("serve", "PROBLEM    %v", p)
	}
	switch path := s.crontabs.empty(); {
	case path != "":
		keep("%s is empty (a comment in it, and no job is served)", path)
		return
	case len(problems) > 0 && s.strict:
		keep("%s (--strict)", count(len(problems), "problem"))
		return
	}
	if err := s.scheduler.Set(s.plans(jobs)); err != nil {
		keep("%v", err)
		return
	}
	s.out.say("serve", "loaded     %s of %s", count(len(jobs), "job"), strings.Join(s.crontabs.paths, ", "))
}

// plans are the jobs with their guards.
func (s *server) plans(jobs []*crontab.Job) []cronce.Plan {
	var plans []cronce.Plan
	for _, job := range jobs {
		g := &guards{thin: s.thin, reap: s.reap, store: s.store, dir: s.dir, job: job, out: s.out}
		plan := cronce.Plan{Job: job.Job, Work: g.work}
		if job.Schedule != "" {
			plan.Slots = job.Slots
		}
		plans = append(plans, plan)
	}
	return plans
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
