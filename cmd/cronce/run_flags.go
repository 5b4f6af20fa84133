package main

import (
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// readRun reads the command line of run, or of a command that has some of its flags.
func readRun(command string, args []string) (*invocation, error) {
	in := &invocation{skipExit: -1, level: slog.LevelWarn, terminal: isTerminal(os.Stdin)}
	f := cli.NewFlags(command)
	store := cli.StoreFlag(f)
	// An empty value is a shell variable that was not set, and without its
	// schedule a line has no ticks that could be taken.
	text := func(name string, to *string) {
		f.Func(name, "", func(v string) error {
			if *to = v; v == "" {
				return errors.New("it is empty")
			}
			return nil
		})
	}
	text("schedule", &in.job.Schedule)
	for _, s := range cronce.Settings() {
		if s.Key != "name" && s.Key != "seconds" && !s.Serve {
			f.Func(s.Key, "", func(v string) error {
				err := in.job.Set(s.Key, v)
				var bad *cronce.SettingError
				if errors.As(err, &bad) {
					err = bad.Err
				}
				return err
			})
		}
	}
	f.Func("tick", "", func(v string) (err error) {
		in.tick, err = parseTime(v)
		switch year := in.tick.UTC().Year(); {
		case err != nil:
		case in.tick.Nanosecond() != 0:
			err = errors.New("a tick is a whole second")
		case year < 1970 || year > 2199:
			err = errors.New("a tick is from 1970 through 2199")
		}
		return err
	})
	f.BoolVar(&in.manual, "manual", false, "")
	f.Func("skip-exit", "", func(v string) (err error) {
		if in.skipExit, err = strconv.Atoi(v); err != nil || in.skipExit < 0 || in.skipExit > 255 {
			return errors.New("an exit code from 0 to 255 is expected")
		}
		return nil
	})
	text("by", &in.by) // from trigger, for the records
	text("status-file", &in.statusFile)
	f.BoolVar(&in.dryRun, "dry-run", false, "")
	f.Func("log-level", "", func(v string) error {
		if in.level.UnmarshalText([]byte(v)) != nil {
			return errors.New("debug, info, warn or error is expected")
		}
		return nil
	})
	f.Func("log-format", "", func(v string) error {
		if in.format = v; v != "text" && v != "json" {
			return errors.New("text or json is expected")
		}
		return nil
	})
	verbose := f.Bool("v", false, "")
	rest, err := f.ParseFirst(args)
	if err != nil {
		return nil, err
	}
	if *verbose {
		in.level = min(in.level, slog.LevelInfo)
	}
	in.store, in.storeTimeout = *store, f.StoreTimeout
	if len(rest) == 0 {
		return nil, cli.Misuse(command, "a job's name is needed, as in: cronce %s backup -- /usr/local/bin/backup", command)
	}
	in.job.Name, in.command = rest[0], rest[1:]
	if err := cronce.CheckName(in.job.Name); err != nil {
		return nil, cli.Misuse(command, "%w", err)
	}
	switch {
	case len(in.command) > 0 && in.command[0] == "--":
		in.command = in.command[1:]
	case len(in.command) > 0 && strings.HasPrefix(in.command[0], "-"):
		return nil, cli.Misuse(command, "job %q: flags as %s stand in front of the job's name", in.job.Name, in.command[0])
	case len(in.command) > 0:
		return nil, cli.Misuse(command, "job %q: '--' is expected between the job's name and its command, not %q", in.job.Name, in.command[0])
	}
	if len(in.command) == 0 || in.command[0] == "" {
		return nil, cli.Misuse(command, "job %q: a command is needed behind '--'", in.job.Name)
	}
	return in, in.checkTick()
}

// checkTick reads the schedule and says what does not go with it.
func (in *invocation) checkTick() (err error) {
	switch {
	case (lent != nil || cli.IsURL(in.store)) && in.job.Schedule == "" && in.tick.IsZero() && !in.manual:
		return cli.Misuse("run", "job %q: on a store that hosts share, --schedule is needed (or --tick, or --manual for a run by hand): without a tick, each host would run it, one after the other", in.job.Name)
	case in.manual && !in.tick.IsZero():
		return cli.Misuse("run", "--manual and --tick contradict each other: a run by hand has no tick")
	case in.job.Schedule == "" && in.job.Zone != "":
		return cli.Misuse("run", "--zone goes with --schedule")
	case in.job.Schedule == "":
		return nil
	}
	if in.schedule, err = in.job.Parse(); err != nil {
		return cli.Misuse("run", "--schedule: %w", err)
	}
	if t := in.tick; !t.IsZero() && !in.schedule.Prev(t.Add(time.Second)).Equal(t) {
		return cli.Misuse("run", "--tick %s is no tick of %s: the nearest are %s and %s", cronce.Stamp(t), in.schedule,
			cronce.Stamp(in.schedule.Prev(t)), cronce.Stamp(in.schedule.Next(t)))
	}
	return nil
}
