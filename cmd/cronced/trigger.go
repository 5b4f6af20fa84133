package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/request"
	"github.com/cronce/cronce/store/localstore"
)

// trigger runs a job now, by hand. For a command it becomes `cronce run --manual`,
// so that all that a run promises holds for this one too, exit codes and signals
// included.
func trigger(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t, err := readTrigger(args)
	if err != nil {
		return err
	}
	if t.system {
		return t.asItsUser(stderr)
	}
	if t.file != "" {
		if err := t.fromFile(); err != nil {
			return err
		}
	}
	return t.run(ctx, stdout, stderr)
}

// run runs it, or becomes what does.
func (t *triggered) run(ctx context.Context, stdout, stderr io.Writer) error {
	paused, err := t.prepare(ctx)
	if err != nil {
		return err
	}
	if paused != nil {
		fmt.Fprintf(stderr, "cronce: %s: paused %s; a run by hand starts all the same\n", t.job, cli.PausedBy(*paused))
	}
	if t.http != nil {
		return t.send(ctx, stdout, stderr)
	}
	if t.thin == nil {
		if t.thin, err = openThin(); err != nil {
			return err
		}
	}
	if cli.IsURL(t.store) { // not as an argument, as it may have a password
		t.env = once(append(t.env, "CRONCE_STORE="+t.store, cli.StoreTimeoutVariable+"="+t.flags.StoreTimeout.String()))
	}
	err = syscall.Exec(t.thin.path, t.arguments(), t.env)
	return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("cronce, beside this program, cannot be started: %w", err)}
}

// triggered is a run by hand to be.
type triggered struct {
	job, store string
	flags      *cli.Flags
	file       string // a crontab or, with isConfig, a YAML file
	isConfig   bool
	system     bool             // it is in the crontabs of the machine, or in that file among them
	user       string           // and of that user; empty: of the only one
	thin       *thin            // nil: not opened yet
	command    []string         // of the job or, with "--", of the command line
	http       *request.Request // of the job, in place of a command
	policies   cronce.Job
	warnAt     time.Duration
	env        []string
}

// readTrigger reads the command line.
func readTrigger(args []string) (*triggered, error) {
	t := &triggered{env: os.Environ()}
	if i := slices.Index(args, "--"); i >= 0 {
		args, t.command = args[:i], args[i+1:]
		if len(t.command) == 0 || t.command[0] == "" {
			return nil, cli.Misuse("trigger", "a command is needed behind '--'")
		}
	}
	f := cli.NewFlags("trigger")
	store := cli.StoreFlag(f)
	file := func(isConfig bool) func(string) error {
		return func(v string) error {
			if t.file != "" {
				return errors.New("one crontab or YAML file is expected")
			}
			if t.file, t.isConfig = v, isConfig; v == "" {
				return errors.New("it is empty")
			}
			return nil
		}
	}
	f.Func("crontab", "", file(false))
	f.Func("config", "", file(true))
	f.BoolVar(&t.system, "system", false, "")
	f.StringVar(&t.user, "user", "", "")
	rest, err := f.Parse(args)
	if err != nil {
		return nil, err
	}
	t.store, t.flags = *store, f
	named := false
	f.Visit(func(f *flag.Flag) { named = named || f.Name == "store" })
	if t.job, err = oneJob("trigger", rest); err != nil {
		return nil, err
	}
	switch {
	case t.system && (named || t.isConfig || t.command != nil):
		return nil, cli.Misuse("trigger", "--system finds the job in the crontabs of the machine, and runs it in its user's own store: --store, --config and '-- COMMAND' contradict it")
	case t.system:
	case t.user != "":
		return nil, cli.Misuse("trigger", "--user: a name is expected")
	case t.file == "" && t.command == nil:
		return nil, cli.Misuse("trigger", "what is job %q to do? A store keeps no commands: give --crontab FILE, --config FILE, -- COMMAND or, for the crontabs of the machine, --system", t.job)
	case t.file != "" && t.command != nil:
		return nil, cli.Misuse("trigger", "a file and a command contradict each other")
	}
	return t, nil
}

// prepare finds out with what settings a command is run, and who has paused the
// job, if somebody has.
func (t *triggered) prepare(ctx context.Context) (*cronce.Request, error) {
	store, err := openForReading(ctx, t.flags, t.store)
	fromLine := t.file != "" || t.system
	if err != nil && fromLine {
		return nil, nil // the run makes the store, or says what is wrong with it
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	ctx, cancel := soon(ctx, t.flags, t.store)
	defer cancel()
	state, known, err := store.Job(ctx, t.job)
	if err != nil {
		return nil, err
	}
	if fromLine {
		return state.Paused, nil
	}
	if !known {
		return nil, fmt.Errorf("there is no job %q in this store: 'cronce status%s' lists them; 'cronce run%[2]s %[1]s -- …' begins a new one", t.job, cli.StoreOption(t.store))
	}
	if t.policies, err = cli.JobOf(t.job, state.Definition); err != nil {
		return nil, err
	}
	t.warnAt = warningNow(t.policies)
	return state.Paused, nil
}

// warningNow is when a run that starts now gets into the way of the next tick.
func warningNow(job cronce.Job) time.Duration {
	if s, err := job.Parse(); err == nil {
		return job.Warning(s, time.Now())
	}
	return job.WarnAt
}

// fromFile takes the job from its file: what serve would do with it.
func (t *triggered) fromFile() error {
	read, _, err := readFile(t.file, t.isConfig, true)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(read.jobs, func(j fileJob) bool { return j.Name == t.job })
	if i < 0 {
		errs := append(read.problems, fmt.Errorf("there is no job %q in %s: 'cronce validate %[2]s' lists them", t.job, t.file))
		return &cli.ExitError{Code: cli.Failure, Err: errors.Join(errs...)}
	}
	job, line := read.jobs[i], read.jobs[i].Lines[0]
	if t.store == "" {
		t.store = read.store
	}
	if me := account(); line.User != "" && line.User != me.Username {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s:%d: job %q is to run as user %q, and this is %s: as root: cronce trigger %[3]s --system --user %[4]s%[6]s",
			t.file, line.Number, t.job, line.User, me.Username, t.amongOthers())}
	}
	return t.take(job, false)
}

// amongOthers names the file to trigger --system where it does not read that anyway.
func (t *triggered) amongOthers() string {
	if (&systemCrontabs{explicit: []string{t.file}}).ofCron() {
		return ""
	}
	return " --crontab " + t.file
}

// take has that job run, in its working directory; anywhere: in / where there is
// none.
func (t *triggered) take(job fileJob, anywhere bool) (err error) {
	line := job.Lines[0]
	t.policies, t.warnAt = job.Job.Job, warningNow(job.Job.Job)
	t.command = []string{line.Shell(), "-c", line.Command}
	if job.config != nil {
		t.command, t.http = job.config.Command, job.config.HTTP
	}
	if t.http != nil {
		return nil
	}
	t.env = once(environment(line))
	if _, ok := line.Getenv("CRONCE_STORE"); ok && t.store == "" {
		// It is for the command, and not for who claims its runs.
		if t.store, err = localstore.Place(); err != nil {
			return err
		}
	}
	home, _ := lookup(t.env, "HOME")
	err = os.Chdir(home)
	if err != nil && anywhere {
		err = os.Chdir("/")
	}
	if err != nil {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("job %q: its working directory: %w: nothing was run", t.job, err)}
	}
	return stdin(line.Stdin)
}

// once leaves the last of several variables of one name.
func once(env []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, kv := range slices.Backward(env) {
		if name, _, _ := strings.Cut(kv, "="); !seen[name] {
			seen[name] = true
			out = append(out, kv)
		}
	}
	slices.Reverse(out)
	return out
}

// stdin gives this process, and so what it becomes, that text as its input.
func stdin(text string) error {
	f, err := os.Open(os.DevNull)
	if text != "" {
		f.Close()
		// A file and not a pipe: whoever would write into it is gone by then.
		if f, err = os.CreateTemp("", "cronce-input-"); err == nil {
			os.Remove(f.Name())
			if _, err = f.WriteString(text); err == nil {
				_, err = f.Seek(0, io.SeekStart)
			}
		}
	}
	if err == nil {
		err = syscall.Dup3(int(f.Fd()), 0, 0)
	}
	if err != nil {
		return fmt.Errorf("the input of the command: %w", err)
	}
	return f.Close()
}

// arguments are those of the run. Whatever the job says, it neither waits for
// another run nor ends or overlaps it: a person who triggers a job wants to
// be told.
func (t *triggered) arguments() []string {
	args := []string{"cronce", "run", "--manual", "--overlap=skip", "--by", requester()}
	if t.store != "" && !cli.IsURL(t.store) {
		args = append(args, "--store", t.store)
	}
	t.policies.Overlap, t.policies.WarnAt = cronce.Overlap{}, t.warnAt
	for _, policy := range strings.Fields(t.policies.Definition().Policies) {
		key, _, _ := strings.Cut(policy, "=")
		if slices.ContainsFunc(cronce.Settings(), func(s cronce.Setting) bool { return s.Key == key && !s.Serve }) {
			args = append(args, "--"+policy)
		}
	}
	return append(append(args, "--", t.job, "--"), t.command...)
}
