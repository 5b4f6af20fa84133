package main

import (
	"bytes"
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
	unlisted error // of a place that cannot be read

	// Of the last reading, and as they were last seen.
	accounts, accountsSeen []fileState
	accountsRestless       time.Time // since when they change at each look; zero: they rest
	day                    int64     // accounts expire at the end of one
}

// userJobs are the jobs of one user, from all crontabs.
type userJobs struct {
	account systemAccount
	jobs    []*crontab.Job
	places  map[string]string // job -> where it is
}

// list gives the crontabs that there are now. An error is for a place that
// cannot be read.
func (c *systemCrontabs) list() (paths []string, err error) {
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
			// crontab(1) writes a file whose name begins with tmp., and then renames it.
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

// changed reports whether there is something to load, or to say.
func (c *systemCrontabs) changed() bool {
	c.paths, c.unlisted = c.list()
	states := statesOf(accountFiles)
	switch {
	case c.files == nil:
	case slices.Equal(states, c.accountsSeen):
		c.accountsRestless = time.Time{}
	case c.accountsRestless.IsZero():
		c.accountsRestless = time.Now()
	}
	c.accountsSeen = states
	if !c.accountsRestless.IsZero() && time.Since(c.accountsRestless) < restlessFor {
		return false // half of them could be missing
	}
	if !slices.Equal(states, c.accounts) || today(time.Now()) != c.day {
		c.again()
	}
	return c.look()
}

func today(now time.Time) int64 { return now.Unix() / (24 * 60 * 60) }

// read reads the crontabs that are to be read, and sorts the jobs of all by
// user. What cannot be served is a problem, and the rest stands. What could not
// be read is kept as it was; fresh is whether anything is another.
func (c *systemCrontabs) read() (users map[string]*userJobs, problems []error, fresh bool, kept []error) {
	first := c.files == nil
	if first {
		c.changed()
	}
	now := time.Now()
	c.accounts, c.day = statesOf(accountFiles), today(now)
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
	fresh, kept = c.load(func(path string) (contents, fileState, error) {
		owner := spooledFor(path)
		if owner == "" {
			return readSystemFile(path, nil)
		}
		u, err := find(owner)
		if err != nil {
			return contents{}, stateOf(path), nil // which is said below
		}
		return readSystemFile(path, u)
	})
	if c.unlisted != nil {
		problems = append(problems, c.unlisted)
	}
	for _, path := range c.order {
		if f := c.files[path]; f != nil {
			problems = append(problems, f.sort(path, find)...)
		}
	}
	for name, u := range users {
		if len(u.jobs) == 0 {
			delete(users, name)
		}
	}
	if first {
		problems, kept = append(problems, kept...), nil
	}
	return users, problems, fresh, kept
}

// spooledFor is whose crontab that is, by its place; empty: it names users itself.
func spooledFor(path string) string {
	if filepath.Dir(path) == cronSpool {
		return filepath.Base(path)
	}
	return ""
}

// sort gives the jobs of a file to their users.
func (f *watched) sort(path string, find func(user string) (*userJobs, error)) (problems []error) {
	owner := spooledFor(path)
	if owner != "" {
		u, err := find(owner)
		if err == nil && len(f.jobs) > 0 && u.account.uid != f.owner {
			err = fmt.Errorf("user %s is another than the one it was read for, and it does not rest", owner)
		}
		if err != nil {
			return []error{fmt.Errorf("%s: %w, so nothing of it is served", path, err)}
		}
	}
	problems = slices.Clone(f.problems)
	for _, job := range f.jobs {
		name := owner
		if owner == "" {
			name = job.Lines[0].User
		}
		place := fmt.Sprintf("%s:%d", path, job.Lines[0].Number)
		u, err := find(name)
		if err == nil {
			err = u.add(job.Job, place)
		} else {
			err = fmt.Errorf("%s: job %q is not served: %w", place, job.Name, err)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// add adds a job of the user. Two of one name are none.
func (u *userJobs) add(job *crontab.Job, place string) error {
	if first := u.places[job.Name]; first != "" {
		u.jobs = slices.DeleteFunc(u.jobs, func(j *crontab.Job) bool { return j.Name == job.Name })
		return fmt.Errorf("%s: job %q of user %s is at %s already, so neither is served: give one of them another name", place, job.Name, u.account.name, first)
	}
	u.places[job.Name] = place
	u.jobs = append(u.jobs, job)
	return nil
}

// readSystemFile reads a crontab that others than root cannot have written: in
// the spool one of its user, elsewhere one of root's, with a user in each line.
// The rules are those of Debian's cron. One that is refused, or gone, has a
// problem and nothing else.
func readSystemFile(path string, owner *userJobs) (c contents, state fileState, err error) {
	before := stateOf(path)
	refuse := func(format string, args ...any) (contents, fileState, error) {
		return contents{problems: []error{fmt.Errorf("%s: %s, so nothing of it is served", path, fmt.Sprintf(format, args...))}}, before, nil
	}
	// Not to wait for the writer of a pipe.
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if owner != nil {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, syscall.ELOOP) {
		return refuse("it is a symbolic link")
	}
	if errors.Is(err, os.ErrNotExist) {
		return contents{problems: []error{fmt.Errorf("crontab %w", err)}}, fileState{}, nil
	}
	if err != nil {
		return c, state, fmt.Errorf("crontab %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return c, state, err
	}
	if !info.Mode().IsRegular() {
		return refuse("it is not a regular file")
	}
	form, st := crontab.UserForm, info.Sys().(*syscall.Stat_t)
	switch mode := st.Mode & 0o7777; {
	case owner == nil:
		form = crontab.SystemForm
		if what, cure := notRoots(path, info); what != "" {
			return refuse("%s: %s", what, cure)
		}
	case st.Uid != 0 && st.Uid != owner.account.uid:
		return refuse("it belongs to user %s", userName(st.Uid))
	case mode != 0o600:
		return refuse("its mode is %04o, and not 0600", mode)
	case st.Nlink != 1:
		return refuse("it has %d hard links", st.Nlink)
	}
	text, state, err := readWhole(f, crontab.MaxFileBytes)
	if err != nil {
		return c, state, fmt.Errorf("%s: %w", path, err)
	}
	file, err := crontab.Parse(bytes.NewReader(text), crontab.Options{Path: path, Form: form})
	if err != nil {
		return c, state, err
	}
	c.ofCrontab(file)
	c.blank = c.saysNothing(text)
	if owner != nil {
		c.owner = owner.account.uid
	}
	for _, job := range file.Jobs {
		for _, line := range job.Lines {
			name := line.User
			if owner != nil {
				name = owner.account.name
			}
			// Not for the crontab to say, as cron has it.
			env := slices.DeleteFunc(slices.Clone(line.Env), func(kv string) bool { return strings.HasPrefix(kv, "LOGNAME=") })
			line.Env = append(env, "LOGNAME="+name)
		}
	}
	return c, state, nil
}
