package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// server is a serve at work.
type server struct {
	crontabs  watcher
	strict    bool
	dir       string // of the store, as --store or a YAML file gave it
	store     *cronce.Store
	thin      *thin
	reap      *reaper
	out       *lines
	scheduler *cronce.Scheduler
	backlog   backlog
	note      *localstore.Note // for 'cronce status'; nil: none could be made

	// Where serve --system says what to do, in place of crontabs.
	orders <-chan userOrder
	gate   cronce.Gate
	atBoot func(job string) bool // nil: the @reboot lines of all jobs

	resting bool // there is no job any more: it ends when no run goes on

	notBefore  time.Time // what was due by then is nobody's to catch up
	configured bool      // dir is as the YAML files say
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
	f.BoolFunc("no-catchup", "", func(string) error { s.notBefore = time.Now(); return nil })
	asJSON := false
	f.Func("log-format", "", func(v string) error {
		if asJSON = v == "json"; !asJSON && v != "text" {
			return errors.New("text or json is expected")
		}
		return nil
	})
	f.Func("crontab", "", func(path string) error { s.crontabs.paths = append(s.crontabs.paths, path); return nil })
	named := false
	whole := f.Bool("system", false, "")
	besideCron := f.Bool("beside-cron", false, "")
	f.Func("config", "", func(path string) error {
		s.crontabs.paths, s.crontabs.config = append(s.crontabs.paths, path), append(s.crontabs.config, path)
		return nil
	})
	rest, err := f.Parse(args)
	f.Visit(func(f *flag.Flag) { named = named || f.Name == "store" })
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return cli.Misuse("serve", "unexpected %q: crontabs are given as --crontab FILE, YAML files as --config FILE", rest[0])
	case *besideCron && !*whole:
		return cli.Misuse("serve", "--beside-cron goes with --system")
	case *whole && named:
		return cli.Misuse("serve", "--system and --store contradict each other: each user's jobs are in that user's own store")
	case *whole && len(s.crontabs.config) > 0:
		return cli.Misuse("serve", "--system and --config contradict each other: --system is for crontabs, whose lines name users")
	case *whole && cli.IsURL(*dir):
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"serve --system knows no store that hosts share, and CRONCE_STORE names one (%s): each host would run every job; for jobs of a fleet use cronce serve --crontab FILE, for those of this machine alone unset CRONCE_STORE",
			cli.WithoutSecrets(*dir))}
	case *whole:
		return (&system{crontabs: systemCrontabs{explicit: s.crontabs.paths}, strict: s.strict, besideCron: *besideCron, notBefore: s.notBefore, json: asJSON}).serve(ctx, maxRunning, stdout, stderr)
	case len(s.crontabs.paths) == 0:
		return cli.Misuse("serve", "a crontab is needed, as in: cronce serve --crontab FILE, or a YAML file: --config FILE")
	}
	read, _, _, err := s.crontabs.read()
	if err != nil {
		return err
	}
	jobs, problems := read.jobs, read.problems
	for _, p := range slices.Concat(problems, read.warnings) {
		cli.Tell(stderr, p)
	}
	switch {
	case len(problems) > 0 && s.strict:
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s (--strict): nothing is served", count(len(problems), "problem"))}
	case len(jobs) == 0:
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("there is no job to serve in %s", strings.Join(s.crontabs.paths, ", "))}
	case len(problems) > 0:
		fmt.Fprintf(stderr, "cronce: %s: serving the other %s all the same\n", count(len(problems), "problem"), count(len(jobs), "job"))
	}
	if s.dir = *dir; s.dir == "" {
		s.dir, s.configured = read.store, true
	}
	if s.store, err = openToServe(ctx, f, s.dir); err != nil {
		return err
	}
	defer s.store.Close()
	if s.thin, err = openThin(); err != nil {
		return err
	}
	var unlocked error
	if s.store.Shared() {
		if unlocked, err = openMachine(); err != nil {
			return err
		}
	}
	defer s.thin.file.Close()
	s.reap = newReaper(os.Getpid())
	s.out = newLines(stdout, asJSON)
	defer s.out.close()
	if unlocked != nil {
		s.out.say("serve", "warning    %v", unlocked)
	}
	return s.run(ctx, jobs, maxRunning)
}

// sameSignal is how soon after the first signal a second one is no second
// request: timeout(1) and some supervisors signal the process and its group.
const sameSignal = 250 * time.Millisecond

// run serves the jobs. HUP, or a change of the files, loads them anew within
// two seconds; the first TERM, INT or QUIT lets the runs end, the second ends them.
func (s *server) run(ctx context.Context, jobs []fileJob, maxRunning int) error {
	signals := make(chan os.Signal, 2)
	// PIPE too: a reader of the output that goes away must not end the runs.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE)
	// Caught to the very end: a second TERM must not kill us over the last lines.
	offering, stopOffering := context.WithCancel(ctx)
	defer stopOffering()
	running, stopRuns := context.WithCancelCause(ctx)
	defer stopRuns(nil)

	if maxRunning > 0 {
		s.gate = cronce.NewTurnstile(maxRunning)
	}
	fleet, own := s.split(jobs)
	s.scheduler = &cronce.Scheduler{Store: s.store, Via: "serve", BaseContext: running, Gate: s.gate, NotBefore: s.notBefore}
	if err := s.scheduler.Set(s.plans(fleet)); err != nil {
		return &cli.ExitError{Code: cli.Config, Err: err}
	}
	schedulers := []*cronce.Scheduler{s.scheduler}
	var err error
	if s.store.Shared() {
		// 'cronce status' cannot tell of other hosts
	} else if s.note, err = localstore.NoteServe(s.dir); err == nil {
		defer s.note.Close()
	} else {
		s.out.say("serve", "PROBLEM    'cronce status' will not know of this serve: %v", err)
	}
	s.noteJobs(jobs)
	s.offerBoot(s.scheduler, fleet)
	if len(own) > 0 {
		b, err := s.openBoot(own)
		if err != nil {
			s.out.say("serve", "PROBLEM    not run is %s: @reboot lines are on record in this host's own store (%s names a folder for it): %v", strings.Join(names(own), ", "), cli.LocalStoreVariable, err)
		} else {
			defer b.close()
			boot := &cronce.Scheduler{Store: b.store, Via: "serve", BaseContext: running, Gate: s.gate}
			if err := boot.Set(s.plansOn(b.store, b.dir, own)); err != nil {
				return &cli.ExitError{Code: cli.Config, Err: err}
			}
			s.offerBoot(boot, own)
			schedulers = append(schedulers, boot)
			s.out.say("serve", "@reboot    %s: once a boot of this host, on record in %s", strings.Join(names(own), ", "), b.dir)
		}
	}
	s.out.say("serve", "cronce %s serves %s%s, pid %d", build.Version(), count(len(jobs), "job"), s.of(), os.Getpid())
	notify("READY=1")

	if s.store.Shared() {
		var pruning sync.WaitGroup
		pruning.Go(func() { (&retention{store: s.store, every: pruneEvery, out: s.out}).run(offering) })
		defer pruning.Wait()
		defer stopOffering()
	}
	done := make(chan error, 1)
	go func() { done <- together(offering, s.out.report, schedulers...) }()
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	var loading bool // so that nothing else is done to the crontabs
	var again bool   // asked for meanwhile
	news := make(chan loaded, 1)
	terminal := hasTerminal()
	var asked time.Time
	drain := func(why string) {
		asked = time.Now()
		s.out.say("serve", "%s: stopping", why)
		notify("STOPPING=1")
		stopOffering()
	}
	for {
		select {
		case err := <-done:
			if ctx.Err() == nil && errors.Is(err, context.Canceled) {
				err = nil // as asked
			}
			s.out.say("serve", "stopped")
			return err
		case <-look.C:
			if offering.Err() == nil && !loading && s.crontabs.look() {
				loading = true
				go func() { news <- s.load() }() // not here: a disk may keep it waiting, and signals are not to wait
			}
			if s.resting && offering.Err() == nil && !s.out.busy() {
				drain("no job any more")
			}
			s.backlog.look(s.scheduler, s.out)
		case l := <-news:
			loading = false
			if offering.Err() == nil {
				s.reload(l)
			}
			if again {
				s.crontabs.again()
				again = false
			}
		case o, ok := <-s.orders:
			if !ok {
				s.orders = nil
			}
			if (!ok || o.Drain) && offering.Err() == nil {
				drain("asked to stop")
			}
			if o.End {
				stopRuns(errors.New("serve was asked twice to stop"))
			}
			if offering.Err() == nil {
				s.take(o)
			}
		case sig := <-signals:
			switch {
			case sig == syscall.SIGPIPE:
			case sig == syscall.SIGHUP && !(terminal && !hasTerminal()): // not a terminal that hung up
				if again = loading; !again {
					s.crontabs.again() // at the next look, if they are not being written then
				}
			case offering.Err() == nil:
				drain(sig.String())
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

// loaded is what came of reading the files anew.
type loaded struct {
	contents
	fresh bool    // they say something else
	kept  []error // why some stay as they were
	err   error
}

// load reads the files that have changed.
func (s *server) load() (l loaded) {
	l.contents, l.fresh, l.kept, l.err = s.crontabs.read()
	return l
}

// reload serves what was loaded anew. Where that cannot be, what was served goes on.
func (s *server) reload(read loaded) {
	keep := func(format string, args ...any) {
		s.out.say("serve", "NOT LOADED "+format+"; what was served goes on", args...)
	}
	for _, why := range read.kept {
		keep("%s", firstLine(why))
	}
	if read.err != nil {
		keep("%s", firstLine(read.err))
	}
	if read.err != nil || !read.fresh {
		return
	}
	jobs, problems := read.jobs, read.problems
	for _, p := range problems {
		s.out.say("serve", "PROBLEM    %s", firstLine(p))
	}
	for _, w := range read.warnings {
		s.out.say("serve", "warning    %v", w)
	}
	switch {
	case len(problems) > 0 && s.strict:
		keep("%s (--strict)", count(len(problems), "problem"))
		return
	case s.configured && read.store != s.dir:
		keep("the store is another than before: start serve anew for that")
		return
	}
	fleet, _ := s.split(jobs) // an @reboot line that comes later is for the next boot
	if err := s.scheduler.Set(s.plans(fleet)); err != nil {
		keep("%v", err)
		return
	}
	s.noteJobs(jobs)
	s.out.say("serve", "loaded     %s%s", count(len(jobs), "job"), s.of())
}

// noteJobs notes which jobs are served now.
func (s *server) noteJobs(jobs []fileJob) {
	if s.note == nil {
		return
	}
	if err := s.note.Set(names(jobs)); err != nil {
		s.out.say("serve", "PROBLEM    'cronce status' does not know which jobs are served: %v", err)
	}
}

func names(jobs []fileJob) []string {
	names := make([]string, len(jobs))
	for i, job := range jobs {
		names[i] = job.Name
	}
	return names
}

// of says where the jobs are from.
func (s *server) of() string {
	if len(s.crontabs.paths) == 0 {
		return ""
	}
	return " of " + strings.Join(s.crontabs.paths, ", ")
}

// firstLine is an error without the snippet below it.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// plans are the jobs with their guards, or their requests.
func (s *server) plans(jobs []fileJob) []cronce.Plan { return s.plansOn(s.store, s.dir, jobs) }

// plansOn are those of a store.
func (s *server) plansOn(store *cronce.Store, dir string, jobs []fileJob) []cronce.Plan {
	var plans []cronce.Plan
	for _, job := range jobs {
		g := &guards{thin: s.thin, reap: s.reap, store: store, dir: dir, job: job.Job, out: s.out, anywhere: s.orders != nil}
		plan := cronce.Plan{Job: job.Job.Job, Work: g.work}
		switch {
		case job.config != nil && job.config.HTTP != nil:
			plan.Work = (&requests{store: store, job: job.config, out: s.out}).work
		case job.config != nil:
			g.argv = job.config.Command
		case job.Schedule != "":
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
