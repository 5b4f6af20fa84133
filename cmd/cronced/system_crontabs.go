package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce/crontab"
)

// Where Debian's cron has the crontabs of a machine.
const (
	systemCrontab = "/etc/crontab"
	cronD         = "/etc/cron.d"
	cronSpool     = "/var/spool/cron/crontabs"
)

// systemCrontabs are the crontabs of a machine.
type systemCrontabs struct {
	explicit []string // as --crontab named them; none: where cron has them
	watcher
	day int64 // of the last reading: accounts expire at the end of one
}

// userJobs are the jobs of one user, from all crontabs.
type userJobs struct {
	account systemAccount
	jobs    []*crontab.Job
	places  map[string]string // job -> where it is
}

// files are the crontabs that there are now. An error is for a place that
// cannot be read.
func (c *systemCrontabs) files() (paths []string, err error) {
	if len(c.explicit) > 0 {
		return c.explicit, nil
	}
	if _, err := os.Lstat(systemCrontab); err == nil {
		paths = append(paths, systemCrontab)
	}
	for _, dir := range []string{cronD, cronSpool} {
		entries, e := os.ReadDir(dir)
		if e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
		for _, entry := range entries {
			name := entry.Name()
			// crontab(1) writes tmp.XXXXXX, which it then renames.
			spooled := dir == cronSpool && name[0] != '.' && !strings.HasPrefix(name, "tmp.")
			if spooled || dir == cronD && crontab.IsCronDName(name) {
				paths = append(paths, dir+"/"+name)
			}
		}
	}
	return paths, err
}

// ofCron reports whether cron reads one of the crontabs, too.
func (c *systemCrontabs) ofCron() bool {
	return len(c.explicit) == 0 || slices.ContainsFunc(c.explicit, func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		dir := filepath.Dir(real)
		return err == nil && (real == systemCrontab || dir == cronD || dir == cronSpool)
	})
}

// changed reports whether there is a version to load that is not being written.
func (c *systemCrontabs) changed() bool {
	paths, _ := c.files()
	c.paths = append(slices.Clip(paths), accountFiles...)
	if today := time.Now().Unix() / (24 * 60 * 60); today != c.day {
		c.day, c.served = today, nil
	}
	return c.watcher.changed()
}

// read reads the crontabs, whole: again where one was changed meanwhile.
func (c *systemCrontabs) read() (users map[string]*userJobs, problems []error, err error) {
	for range 100 {
		now := time.Now()
		paths, e := c.files()
		c.paths = append(slices.Clip(paths), accountFiles...)
		before := statesOf(c.paths)
		users, problems = readSystem(paths, now)
		if e != nil {
			problems = append(problems, e)
		}
		if slices.Equal(before, statesOf(c.paths)) {
			c.served, c.seen, c.day = before, before, now.Unix()/(24*60*60)
			return users, problems, nil
		}
	}
	return nil, nil, errors.New("the crontabs are being rewritten all the time")
}

// readSystem reads the crontabs and sorts their jobs by user. What cannot be
// served is a problem, and the rest stands.
func readSystem(paths []string, now time.Time) (users map[string]*userJobs, problems []error) {
	users = map[string]*userJobs{}
	reasons := map[string]error{} // user -> why not
	find := func(name string) (*userJobs, error) {
		if users[name] == nil && reasons[name] == nil {
			account, err := lookAccount(name, now)
			if err != nil {
				reasons[name] = err
			} else {
				users[name] = &userJobs{account: account, places: map[string]string{}}
			}
		}
		return users[name], reasons[name]
	}
	for _, path := range paths {
		owner := ""
		if filepath.Dir(path) == cronSpool {
			owner = filepath.Base(path)
			if _, err := find(owner); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w, so nothing of it is served", path, err))
				continue
			}
		}
		file, err := readSystemFile(path, users[owner])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, e := range file.Errors {
			problems = append(problems, e)
		}
		for _, job := range file.Jobs {
			name := owner
			if owner == "" {
				name = job.Lines[0].User
			}
			place := fmt.Sprintf("%s:%d", path, job.Lines[0].Number)
			u, err := find(name)
			if err == nil {
				err = u.add(job, place)
			} else {
				err = fmt.Errorf("%s: job %q is not served: %w", place, job.Name, err)
			}
			if err != nil {
				problems = append(problems, err)
			}
		}
	}
	for name, u := range users {
		if len(u.jobs) == 0 {
			delete(users, name)
		}
	}
	return users, problems
}

// add adds a job of the user. Two of one name are none.
func (u *userJobs) add(job *crontab.Job, place string) error {
	if first := u.places[job.Name]; first != "" {
		u.jobs = slices.DeleteFunc(u.jobs, func(j *crontab.Job) bool { return j.Name == job.Name })
		return fmt.Errorf("%s: job %q of user %s is at %s already, so neither is served: give one of them another name", place, job.Name, u.account.name, first)
	}
	u.places[job.Name] = place
	u.jobs = append(u.jobs, job)
	for _, line := range job.Lines {
		// Not for the crontab to say, as cron has it.
		env := slices.DeleteFunc(slices.Clone(line.Env), func(kv string) bool { return strings.HasPrefix(kv, "LOGNAME=") })
		line.Env = append(env, "LOGNAME="+u.account.name)
	}
	return nil
}

// readSystemFile reads a crontab that others than root cannot have written: in
// the spool one of its user, elsewhere one of root's, with a user in each line.
// The rules are those of Debian's cron.
func readSystemFile(path string, owner *userJobs) (*crontab.File, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s, so nothing of it is served", path, fmt.Sprintf(format, args...))
	}
	// Not to wait for the writer of a pipe.
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if owner != nil {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, refuse("it is a symbolic link")
	}
	if err != nil {
		return nil, fmt.Errorf("crontab %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refuse("it is not a regular file")
	}
	if owner == nil {
		if what, cure := notRoots(path, info); what != "" {
			return nil, refuse("%s: %s", what, cure)
		}
		return crontab.Parse(f, crontab.Options{Path: path, Form: crontab.SystemForm})
	}
	st := info.Sys().(*syscall.Stat_t)
	switch mode := st.Mode & 0o7777; {
	case st.Uid != 0 && st.Uid != owner.account.uid:
		return nil, refuse("it belongs to user %s", userName(st.Uid))
	case mode != 0o600:
		return nil, refuse("its mode is %04o, and not 0600", mode)
	case st.Nlink != 1:
		return nil, refuse("it has %d hard links", st.Nlink)
	}
	return crontab.Parse(f, crontab.Options{Path: path, Form: crontab.UserForm})
}
