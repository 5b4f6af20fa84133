package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"

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
	blank    bool    // of one file: it has neither a job nor a comment
	owner    uint32  // of one file, a user's crontab: as whom it was read
}

// readFiles reads crontabs and YAML files. The error is for a file that cannot
// be read at all.
func readFiles(paths []string, isConfig func(path string) bool, forRun bool) (contents, error) {
	read := map[string]contents{}
	for _, path := range paths {
		c, _, err := readFile(path, isConfig(path), forRun)
		if err != nil {
			return contents{}, err
		}
		read[path] = c
	}
	return join(paths, func(path string) contents { return read[path] })
}

// join puts together what files say, each by itself. The error is for files that
// contradict each other.
func join(paths []string, of func(path string) contents) (c contents, err error) {
	me := account()
	places := map[string]string{} // job -> where it is
	storeOf := ""
	for _, path := range paths {
		file := of(path)
		switch {
		case file.store != "" && c.store != "" && file.store != c.store:
			return c, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s has the store %s, and %s has %s: one serve has one store", storeOf, cli.WithoutSecrets(c.store), path, cli.WithoutSecrets(file.store))}
		case file.store != "":
			c.store, storeOf, c.badStore = file.store, path, file.badStore
		}
		c.problems = append(c.problems, file.problems...)
		c.warnings = append(c.warnings, file.warnings...)
		for _, job := range file.jobs {
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

// readFile reads one file; forRun: of whom this process may run it. The state is
// that of what was read; there is none with a file that could not be.
func readFile(path string, isConfig, forRun bool) (c contents, state fileState, err error) {
	what, most := "crontab", int64(crontab.MaxFileBytes)
	if isConfig {
		what, most = "config", config.MaxFileBytes
	}
	var text []byte
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		if forRun {
			err = mayRun(path, f)
		}
		if err == nil {
			text, state, err = readWhole(f, most)
		}
		if errors.Is(err, errRestless) {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return c, state, cannotRead(what, path, err)
	}
	if isConfig {
		file, err := config.Parse(bytes.NewReader(text), path)
		if err != nil {
			if looksLikeCrontab(path) {
				err = fmt.Errorf("%w\n%s looks like a crontab: --crontab %[2]s", err, path)
			}
			return c, state, cannotRead(what, path, err)
		}
		c.store, c.badStore = file.Store, file.CheckStore()
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
	} else {
		file, err := crontab.Parse(bytes.NewReader(text), crontab.Options{Path: path})
		if err != nil {
			return c, state, cannotRead(what, path, err)
		}
		if len(file.Errors) > 0 && config.Looks(path) {
			return c, state, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s: this looks like a YAML file: --config %[1]s", path)}
		}
		c.ofCrontab(file)
		if !forRun {
			for _, job := range file.Jobs {
				c.warnings = append(c.warnings, userInCommand(path, job)...)
			}
		}
	}
	c.blank = c.saysNothing(text)
	return c, state, nil
}

// ofCrontab takes what a crontab says.
func (c *contents) ofCrontab(file *crontab.File) {
	for _, e := range file.Errors {
		c.problems = append(c.problems, e)
	}
	for _, job := range file.Jobs {
		c.jobs = append(c.jobs, fileJob{Job: job})
	}
}

// saysNothing reports whether the text that the contents are of has no job and
// no comment: one that is being rewritten in place, more likely than one that
// is meant so.
func (c *contents) saysNothing(text []byte) bool {
	if len(c.jobs)+len(c.problems) > 0 {
		return false
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) {
			return false
		}
	}
	return true
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

// read reads the files that are to be read, and gives what all of them say now.
// The error is for one that cannot be used, at first, or all together.
func (w *watcher) read() (c contents, fresh bool, kept []error, err error) {
	first := w.files == nil
	if first {
		w.look()
	}
	fresh, kept = w.load(func(path string) (contents, fileState, error) {
		if state, err := onlyFile(path); err != nil && !first {
			return contents{}, state, err
		}
		return readFile(path, slices.Contains(w.config, path), true)
	})
	if first {
		for _, err := range kept {
			if !errors.Is(err, errRestless) {
				return c, true, nil, err
			}
		}
	}
	c, err = join(w.order, func(path string) contents { return w.files[path].contents })
	if first {
		c.problems, kept = append(c.problems, kept...), nil
	}
	return c, fresh, kept, err
}

// account is who this process runs as.
func account() user.User {
	u, err := user.Current()
	if err != nil {
		return user.User{Username: strconv.Itoa(os.Getuid()), HomeDir: "/"}
	}
	return *u
}
