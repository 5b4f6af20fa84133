package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/schedule"
)

// next prints when a schedule is due.
func next(args []string, stdout io.Writer) error {
	f := cli.NewFlags("next")
	zone := f.String("zone", "", "")
	name := f.String("name", "", "")
	after := f.String("after", "", "")
	until := f.String("until", "", "")
	n := f.Int("n", 0, "")
	rest, err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return help([]string{"next"}, stdout)
	} else if err != nil {
		return err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if len(rest) == 0 {
		return cli.Misuse("next", "a schedule is needed, as in: cronce next '30 2 * * *'")
	}
	if given["n"] && *n <= 0 {
		return cli.Misuse("next", "-n %d: a number above zero is needed", *n)
	}
	from, to := time.Now(), time.Time{}
	if given["after"] {
		if from, err = parseTime(*after); err != nil {
			return cli.Misuse("next", "--after: %w", err)
		}
	}
	if given["until"] {
		if to, err = parseTime(*until); err != nil {
			return cli.Misuse("next", "--until: %w", err)
		}
	} else if *n == 0 {
		*n = 1
	}
	if given["name"] {
		if err := cronce.CheckName(*name); err != nil {
			return cli.Misuse("next", "--name: %w", err)
		}
	}
	loc, err := cronce.LoadZone(*zone)
	if err != nil {
		return cli.Misuse("next", "--zone: %w", err)
	}
	s, err := schedule.Parse(strings.Join(rest, " "), schedule.Options{Zone: loc, Name: *name})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	for i := 0; *n == 0 || i < *n; i++ {
		from = s.Next(from)
		if from.IsZero() || given["until"] && from.After(to) {
			break
		}
		if _, err := fmt.Fprintln(out, cronce.Stamp(from)); err != nil {
			return err
		}
	}
	return out.Flush()
}
