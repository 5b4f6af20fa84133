package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"os/user"
	"slices"
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

// serve runs the jobs of crontabs until it is told to stop.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := cli.NewFlags("serve")
	dir := cli.StoreFlag(f)
	strict := f.Bool("strict", false, "")
	var paths []string
	f.Func("crontab", "", func(path string) error { paths = append(paths, path); return nil })
	rest, err := f.Parse(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return cli.Misuse("serve", "unexpected %q: crontabs are given as --crontab FILE", rest[0])
	case len(paths) == 0:
		return cli.Misuse("serve", "a crontab is needed, as in: cronce serve --crontab FILE")
	}
	jobs, problems, err := readCrontabs(paths)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "cronce: %v\n", p)
	}
	switch {
	case len(problems) > 0 && *strict:
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s (--strict): nothing is served", count(len(problems), "problem"))}
	case len(jobs) == 0:
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("there is no job to serve in %s", strings.Join(paths, ", "))}
	case len(problems) > 0:
		fmt.Fprintf(stderr, "cronce: %s: serving the other %s all the same\n", count(len(problems), "problem"), count(len(jobs), "job"))
	}
	store, err := localstore.Open(localstore.Options{Dir: *dir})
	if err != nil {
		return err
	}
	defer store.Close()
	return serveJobs(ctx, store, *dir, jobs, paths, stdout)
}

// readCrontabs reads the jobs of all crontabs, and what is wrong in them. The
// error is for a crontab that cannot be read at all.
func readCrontabs(paths []string) (jobs []*crontab.Job, problems []error, err error) {
	me := account()
	places := map[string]string{} // job -> where it is
	for _, path := range paths {
		file, err := crontab.ParseFile(path, crontab.Options{})
		if err != nil {
			return nil, nil, cannotRead(path, err)
		}
		for _, e := range file.Errors {
			problems = append(problems, e)
		}
		for _, job := range file.Jobs {
			place := fmt.Sprintf("%s:%d", path, job.Lines[0].Number)
			switch {
			case places[job.Name] != "":
				problems = append(problems, fmt.Errorf("%s: job %q is at %s already, so neither is served: give one of them another name", place, job.Name, places[job.Name]))
				jobs = slices.DeleteFunc(jobs, func(j *crontab.Job) bool { return j.Name == job.Name })
			case job.Schedule == "":
				problems = append(problems, fmt.Errorf("%s: job %q: @reboot lines are not run by serve", place, job.Name))
			case job.Lines[0].User != "" && job.Lines[0].User != me.Username:
				problems = append(problems, fmt.Errorf("%s: job %q is to run as user %q, and this serve runs jobs only as %s", place, job.Name, job.Lines[0].User, me.Username))
			default:
				places[job.Name] = place
				jobs = append(jobs, job)
			}
		}
	}
	return jobs, problems, nil
}

// cannotRead gives a crontab that cannot be read its exit code.
func cannotRead(path string, err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return &cli.ExitError{Code: cli.NoInput, Err: fmt.Errorf("crontab %s: %w", path, err)}
	}
	return &cli.ExitError{Code: cli.Config, Err: err}
}

// sameSignal is how soon after the first signal a second one is no second
// request: timeout(1) and some supervisors signal the process and its group.
const sameSignal = 250 * time.Millisecond

// serveJobs runs the jobs on the store. The first signal lets the runs end,
// the second ends them.
func serveJobs(ctx context.Context, store *cronce.Store, dir string, jobs []*crontab.Job, paths []string, stdout io.Writer) error {
	signals := make(chan os.Signal, 2)
	// PIPE too: a reader of the output that goes away must not end the runs.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	defer signal.Stop(signals)
	offering, stopOffering := context.WithCancel(ctx)
	defer stopOffering()
	running, stopRuns := context.WithCancelCause(ctx)
	defer stopRuns(nil)

	out := newLines(stdout)
	defer out.close()
	s := &cronce.Scheduler{Store: store, Report: out.report, Via: "serve", BaseContext: running}
	thin, err := openThin()
	if err != nil {
		return err
	}
	defer thin.file.Close()
	for _, job := range jobs {
		g := &guards{thin: thin, store: store, dir: dir, job: job, out: out}
		if g.schedule, err = job.Parse(); err == nil {
			err = s.AddWork(job.Job, job.Slots, g.work)
		}
		if err != nil {
			return &cli.ExitError{Code: cli.Config, Err: err}
		}
	}
	out.say("serve", "cronce %s serves %s of %s, pid %d", build.Version(), count(len(jobs), "job"), strings.Join(paths, ", "), os.Getpid())

	done := make(chan error, 1)
	go func() { done <- s.Run(offering) }()
	var asked time.Time
	for {
		select {
		case err := <-done:
			if ctx.Err() == nil && errors.Is(err, context.Canceled) {
				err = nil // as asked
			}
			out.say("serve", "stopped")
			return err
		case sig := <-signals:
			switch {
			case sig == syscall.SIGPIPE:
			case offering.Err() == nil:
				asked = time.Now()
				out.say("serve", "%s: no more runs are started; waiting for those that go on (again: they are ended): %s", sig, out.running())
				stopOffering()
			case time.Since(asked) < sameSignal:
			default:
				out.say("serve", "%s again: the runs are ended", sig)
				stopRuns(fmt.Errorf("serve got %s twice", sig))
			}
		}
	}
}

// lookup returns the variable's value; the last of two counts, as for a process.
func lookup(env []string, name string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// account is who this process runs as.
func account() user.User {
	u, err := user.Current()
	if err != nil {
		return user.User{Username: strconv.Itoa(os.Getuid()), HomeDir: "/"}
	}
	return *u
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
