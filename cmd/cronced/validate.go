package main

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/config"
	"github.com/cronce/cronce/internal/cli"
)

// validate reads crontabs and YAML files and says what serve would do with them. It runs
// nothing and opens no store.
func validate(args []string, stdout, stderr io.Writer) error {
	f := cli.NewFlags("validate")
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
	case len(paths) == 0:
		return cli.Misuse("validate", "a crontab is needed, or a YAML file, as in: cronce validate FILE")
	}
	read, err := readFiles(paths, config.IsPath)
	if err != nil {
		return err
	}
	for _, p := range read.problems {
		fmt.Fprintf(stderr, "cronce: %v\n", p)
	}
	now := time.Now()
	out := bufio.NewWriter(stdout)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(read.jobs) > 0 {
		fmt.Fprintln(tw, "JOB\tNEXT\tDEFINITION")
	}
	for _, job := range read.jobs {
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
	if len(read.problems) > 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s in all", count(len(read.problems), "problem"))}
	}
	return nil
}
