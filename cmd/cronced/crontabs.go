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

	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/cli"
)

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
		if syscall.Stat(path, &st) == nil {
			states[i] = fileState{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
		}
	}
	return states
}

// watchEvery is how often crontabs are looked at. A file that changed since the
// last look is still being written, as far as we can know: it is taken when it
// has been left alone from one look to the next.
const watchEvery = time.Second

// watcher knows which version of the crontabs is served.
type watcher struct {
	paths        []string
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

// read reads the crontabs, whole: again where a file was changed meanwhile.
func (w *watcher) read() (jobs []*crontab.Job, problems []error, err error) {
	for range 100 {
		before := statesOf(w.paths)
		jobs, problems, err = readCrontabs(w.paths)
		if slices.Equal(before, statesOf(w.paths)) {
			w.served, w.seen = before, before
			return jobs, problems, err
		}
	}
	return nil, nil, errors.New("the crontabs are being rewritten all the time")
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
