package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/cronce/cronce/config"
	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/cli"
)

// fileJob is a job of a crontab or of a YAML file.
type fileJob struct {
	*crontab.Job
	config *config.Job // of a YAML file; Lines then has only its place and environment
}

// contents are what files say together.
type contents struct {
	jobs     []fileJob
	problems []error
	warnings []error // which keep no job from being served
	store    string  // as a YAML file names it; empty: none does
	badStore error   // what is wrong with that
}

// readFiles reads crontabs and YAML files. The error is for a file that cannot
// be read at all, or that is not for this user to run.
func readFiles(paths []string, isConfig func(path string) bool, forRun bool) (c contents, err error) {
	me := account()
	places := map[string]string{} // job -> where it is
	storeOf := ""
	for _, path := range paths {
		one, err := readFile(path, isConfig(path), forRun)
		store := one.store
		switch {
		case err != nil:
			return c, err
		case store != "" && c.store != "" && store != c.store:
			return c, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s has the store %s, and %s has %s: one serve has one store", storeOf, c.store, path, store)}
		case store != "":
			c.store, storeOf, c.badStore = store, path, one.badStore
		}
		c.problems = append(c.problems, one.problems...)
		c.warnings = append(c.warnings, one.warnings...)
		for _, job := range one.jobs {
			if !forRun && job.config == nil {
				c.warnings = append(c.warnings, userInCommand(path, job.Job)...)
			}
			place := fmt.Sprintf("%s:%d", path, job.Lines[0].Number)
			switch {
			case places[job.Name] != "":
				c.problems = append(c.problems, fmt.Errorf("%s: job %q is at %s already, so neither is served: give one of them another name", place, job.Name, places[job.Name]))
				c.jobs = slices.DeleteFunc(c.jobs, func(j fileJob) bool { return j.Name == job.Name })
			case job.Lines[0].User != "" && job.Lines[0].User != me.Username:
				c.problems = append(c.problems, fmt.Errorf("%s: job %q is to run as user %q, and this serve runs jobs only as %s", place, job.Name, job.Lines[0].User, me.Username))
			default:
				places[job.Name] = place
				c.jobs = append(c.jobs, job)
			}
		}
	}
	return c, nil
}

// readFile reads one file; forRun: of whom this process may run it.
func readFile(path string, isConfig, forRun bool) (c contents, err error) {
	what := "crontab"
	if isConfig {
		what = "config"
	}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		if forRun {
			err = mayRun(path, f)
		}
	}
	if err != nil {
		return c, cannotRead(what, path, err)
	}
	if isConfig {
		file, err := config.Parse(f, path)
		if err != nil {
			if looksLikeCrontab(path) {
				err = fmt.Errorf("%w\n%s looks like a crontab: --crontab %[2]s", err, path)
			}
			return c, cannotRead(what, path, err)
		}
		for _, e := range file.Errors {
			c.problems = append(c.problems, e)
		}
		for _, e := range file.Missing() {
			c.warnings = append(c.warnings, e)
		}
		for _, j := range file.Jobs {
			line := &crontab.Line{Number: j.Line, Env: j.Env}
			c.jobs = append(c.jobs, fileJob{&crontab.Job{Job: j.Job, Lines: []*crontab.Line{line}}, j})
		}
		c.store, c.badStore = file.Store, file.CheckStore()
		return c, nil
	}
	file, err := crontab.Parse(f, crontab.Options{Path: path})
	if err != nil {
		return c, cannotRead(what, path, err)
	}
	if len(file.Errors) > 0 && config.Looks(path) {
		return c, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s: this looks like a YAML file: --config %[1]s", path)}
	}
	for _, e := range file.Errors {
		c.problems = append(c.problems, e)
	}
	for _, job := range file.Jobs {
		c.jobs = append(c.jobs, fileJob{Job: job})
	}
	return c, nil
}

// looksLikeCrontab reports whether most of a file can be read as a crontab.
func looksLikeCrontab(path string) bool {
	file, err := crontab.ParseFile(path, crontab.Options{})
	return err == nil && len(file.Jobs) > len(file.Errors)
}

// cannotRead gives a file that cannot be read its exit code.
func cannotRead(what, path string, err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return &cli.ExitError{Code: cli.NoInput, Err: fmt.Errorf("%s %s: %w", what, path, err)}
	}
	return &cli.ExitError{Code: cli.Config, Err: err}
}

// fileState is what tells that a file is another than before.
type fileState struct {
	dev, ino      uint64
	size          int64
	mtime, change syscall.Timespec
}

// statesOf are the states of files; a file that is not there has the zero one.
func statesOf(paths []string) []fileState {
	states := make([]fileState, len(paths))
	for i, path := range paths {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) != nil {
			continue
		}
		states[i] = fileState{dev: st.Dev, ino: st.Ino}
		if st.Mode&syscall.S_IFMT == syscall.S_IFREG { // a pipe that is written to is no other
			states[i] = fileState{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
		}
	}
	return states
}

// watchEvery is how often crontabs are looked at. A file that changed since the
// last look is still being written, as far as we can know: it is taken when it
// has been left alone from one look to the next.
const watchEvery = time.Second

// watcher knows which version of the files is served.
type watcher struct {
	paths        []string
	config       []string // those of paths that are YAML
	served, seen []fileState
}

// changed looks at the files and reports whether there is a version to load
// that is not being written.
func (w *watcher) changed() bool {
	now := statesOf(w.paths)
	settled := slices.Equal(now, w.seen)
	w.seen = now
	return settled && !slices.Equal(now, w.served)
}

// read reads the files, whole: again where one was changed meanwhile.
func (w *watcher) read() (c contents, err error) {
	for range 100 {
		before := statesOf(w.paths)
		c, err = readFiles(w.paths, func(path string) bool { return slices.Contains(w.config, path) }, true)
		if slices.Equal(before, statesOf(w.paths)) {
			w.served, w.seen = before, before
			return c, err
		}
	}
	return contents{}, errors.New("the crontabs are being rewritten all the time")
}

// empty returns the first crontab without a byte: one that is being rewritten
// in place, more likely than one that is meant so.
func (w *watcher) empty() string {
	for i, state := range w.served {
		if state.size == 0 && state.ino != 0 {
			return w.paths[i]
		}
	}
	return ""
}

// account is who this process runs as.
func account() user.User {
	u, err := user.Current()
	if err != nil {
		return user.User{Username: strconv.Itoa(os.Getuid()), HomeDir: "/"}
	}
	return *u
}
