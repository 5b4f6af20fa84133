package main

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// validate reads crontabs and says what serve would do with them. It runs
// nothing and opens no store.
func validate(args []string, stdout, stderr io.Writer) error {
	paths, err := cli.NewFlags("validate").Parse(args)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return cli.Misuse("validate", "a crontab is needed, as in: cronce validate FILE")
	}
	jobs, problems, err := readCrontabs(paths)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "cronce: %v\n", p)
	}
	now := time.Now()
	out := bufio.NewWriter(stdout)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(jobs) > 0 {
		fmt.Fprintln(tw, "JOB\tNEXT\tDEFINITION")
	}
	for _, job := range jobs {
		next := "@reboot"
		if job.Schedule != "" {
			s, err := job.Parse()
			if err != nil {
				return err
			}
			next = cronce.Stamp(s.Next(now))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", job.Name, next, job.Definition())
	}
	tw.Flush()
	if err := out.Flush(); err != nil {
		return err
	}
	if len(problems) > 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s in all", count(len(problems), "problem"))}
	}
	return nil
}
