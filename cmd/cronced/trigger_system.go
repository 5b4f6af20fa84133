package main

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// asItsUser finds the job as serve --system does, and becomes a process of its
// user that runs it, in that user's store.
func (t *triggered) asItsUser(stderr io.Writer) error {
	if os.Geteuid() != 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("trigger --system runs a job as its user, which only root can: sudo cronce trigger %s --system; or trigger your own: cronce trigger %[1]s --crontab FILE", t.job)}
	}
	if t.user != "" {
		a, err := findAccount(t.user)
		if err != nil {
			return cli.Misuse("trigger", "--user: %w", err)
		}
		t.user = a.name
	}
	crontabs := &systemCrontabs{}
	if t.file != "" {
		crontabs.explicit = []string{t.file}
	}
	users, problems, _, _ := crontabs.read()
	var found []fileJob
	var names []string
	for _, name := range slices.Sorted(maps.Keys(users)) {
		for _, job := range users[name].jobs {
			if job.Name == t.job && (t.user == "" || t.user == name) {
				found, names = append(found, fileJob{Job: job}), append(names, name)
			}
		}
	}
	switch len(found) {
	case 1:
		return t.hand(users[names[0]].account, found[0])
	case 0:
		for _, p := range problems {
			cli.Tell(stderr, p)
		}
		of := ""
		if t.user != "" {
			of = " of user " + t.user
		}
		return fmt.Errorf("there is no job %q%s in the crontabs of this machine: 'cronce validate --system' lists them", t.job, of)
	}
	return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("there is a job %q of each of the users %s: say whose: --user NAME", t.job, strings.Join(names, " and "))}
}

// triggerOrder is what a process that has become a user is to run.
type triggerOrder struct {
	Job  string
	Jobs []userJob // the one
}

// hand makes this process one of that user, which runs the job. What root has
// read goes with it through an open file, and so does the thin program.
func (t *triggered) hand(account systemAccount, job fileJob) error {
	if account.uid != 0 { // root's is made at its first use
		if err := localstore.Provide(int(account.uid), int(account.gid)); err != nil {
			return fmt.Errorf("no store for user %s: %w", account.name, err)
		}
	}
	thin, err := openThin()
	if err != nil {
		return err
	}
	order, err := os.CreateTemp("", "cronce-order-")
	if err == nil {
		os.Remove(order.Name())
		err = gob.NewEncoder(order).Encode(triggerOrder{t.job, []userJob{{Lines: job.Lines}}})
	}
	if err == nil {
		_, err = order.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("job %q cannot be handed to user %s: %w", t.job, account.name, err)
	}
	args := []string{"cronced", "trigger-user"}
	for _, f := range []*os.File{order, thin.file} {
		if err := closeOnExec(int(f.Fd()), false); err != nil {
			return fmt.Errorf("job %q cannot be handed to user %s: %w", t.job, account.name, err)
		}
		args = append(args, strconv.Itoa(int(f.Fd())))
	}
	return become(account, "/proc/self/exe", args...)
}

// closeOnExec has a descriptor closed when this process becomes another program,
// or not.
func closeOnExec(fd int, closed bool) error {
	flag := 0
	if closed {
		flag = syscall.FD_CLOEXEC
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, uintptr(flag)); errno != 0 {
		return errno
	}
	return nil
}

// triggerUser runs the job that trigger --system has found, as its user. The
// arguments are the descriptors of the order and of the thin program. It is no
// command for people.
func triggerUser(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var files []*os.File
	for _, arg := range args {
		fd, err := strconv.Atoi(arg)
		if err != nil || closeOnExec(fd, true) != nil {
			break
		}
		files = append(files, os.NewFile(uintptr(fd), "fd "+arg))
	}
	if len(files) != 2 {
		return cli.Misuse("", "'trigger-user' is started by trigger --system only")
	}
	order, program := files[0], files[1]
	var o triggerOrder
	if err := gob.NewDecoder(order).Decode(&o); err != nil {
		return fmt.Errorf("the order of trigger --system: %w", err)
	}
	order.Close()
	jobs, err := rejoin(o.Jobs)
	if err != nil {
		return err
	}
	t := &triggered{job: o.Job, system: true, thin: &thin{program, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd())}}
	if err := t.take(jobs[0], true); err != nil {
		return err
	}
	return t.run(ctx, stdout, stderr)
}
