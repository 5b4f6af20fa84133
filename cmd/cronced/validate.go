package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/config"
	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/cli"
)

// validate reads crontabs and YAML files and says what serve would do with them. It runs
// nothing and opens no store.
func validate(args []string, stdout, stderr io.Writer) error {
	f := cli.NewFlags("validate")
	whole := f.Bool("system", false, "")
	printSchema := f.Bool("print-schema", false, "")
	paths, err := f.Parse(args)
	switch {
	case err != nil:
		return err
	case *printSchema && len(paths) > 0:
		return cli.Misuse("validate", "--print-schema takes no file")
	case *printSchema:
		_, err := stdout.Write(config.Schema())
		return err
	case *whole:
		return validateSystem(paths, stdout, stderr)
	case len(paths) == 0:
		return cli.Misuse("validate", "a crontab is needed, or a YAML file, as in: cronce validate FILE")
	}
	read, err := readFiles(paths, func(path string) bool { return config.IsPath(path) || config.Looks(path) }, false)
	if err != nil {
		return err
	}
	if read.badStore != nil && os.Getenv("CRONCE_STORE") == "" {
		read.problems = append(read.problems, read.badStore)
	}
	now := time.Now()
	out := bufio.NewWriter(stdout)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(read.jobs) > 0 {
		fmt.Fprintln(tw, "JOB\tNEXT\tDEFINITION")
	}
	for _, job := range read.jobs {
		next, err := nextOf(job.Job, now)
		if err != nil {
			return err
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", job.Name, next, job.Definition())
	}
	tw.Flush()
	return tellProblems(out, stderr, read.warnings, read.problems)
}

// validateSystem is validate for serve --system.
func validateSystem(paths []string, stdout, stderr io.Writer) error {
	if os.Geteuid() != 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("only root can read the crontabs of all users: sudo cronce validate --system")}
	}
	users, problems, _, _ := (&systemCrontabs{explicit: paths}).read()
	now := time.Now()
	out := bufio.NewWriter(stdout)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(users) > 0 {
		fmt.Fprintln(tw, "USER\tJOB\tWHERE\tNEXT\tDEFINITION")
	}
	var warnings []error
	for _, name := range slices.Sorted(maps.Keys(users)) {
		for _, job := range users[name].jobs {
			path, _, _ := strings.Cut(users[name].places[job.Name], ":")
			warnings = append(warnings, userInCommand(path, job)...)
			next, err := nextOf(job, now)
			if err != nil {
				return err
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", name, job.Name, users[name].places[job.Name], next, job.Definition())
		}
	}
	tw.Flush()
	return tellProblems(out, stderr, warnings, problems)
}

// nextOf is when a job is due next, for people.
func nextOf(job *crontab.Job, now time.Time) (string, error) {
	if job.Schedule == "" {
		return "@reboot", nil
	}
	s, err := job.Parse()
	if err != nil {
		return "", err
	}
	return cronce.Stamp(s.Next(now)), nil
}

// userInCommand warns of lines of a user's crontab that begin with a user, as those
// of a system crontab do: the shell would look for a program of that name.
func userInCommand(path string, job *crontab.Job) (warnings []error) {
	for _, line := range job.Lines {
		word, rest, _ := strings.Cut(strings.TrimSpace(line.Command), " ")
		if line.User != "" || strings.TrimSpace(rest) == "" {
			continue
		}
		if _, err := user.Lookup(word); err != nil {
			continue
		}
		if env := once(environment(line)); lookPath(word, env) == word {
			warnings = append(warnings, fmt.Errorf("warning: %s:%d: %q is a user of this machine, and here a part of the command: only system crontabs (/etc/crontab, /etc/cron.d) name a user in a line; take it out, or serve the file with --system --crontab", path, line.Number, word))
		}
	}
	return warnings
}

// tellProblems ends a validation: with warnings, and the problems, if there are any.
func tellProblems(out *bufio.Writer, stderr io.Writer, warnings, problems []error) error {
	for _, w := range warnings {
		cli.Tell(stderr, w)
	}
	for _, p := range problems {
		cli.Tell(stderr, p)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(problems) > 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s in all", count(len(problems), "problem"))}
	}
	return nil
}
