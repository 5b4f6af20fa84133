package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

const helpMain = `cronce - cron, once: no job runs twice for one scheduled time, or overlaps itself

  cronce serve --crontab FILE    run the jobs of a crontab
  cronce validate FILE           what serve would do with a crontab; runs nothing
  cronce status [JOB]            what each job does now, did last and does next
  cronce runs [JOB]              what ran, what was skipped, and why
  cronce next EXPR               when a schedule is due
  cronce help COMMAND            more on a command; also: help crontab
  cronce version

Try it:  printf '@every 2s echo hello\n' >try.cron && cronce serve --crontab try.cron --store /tmp/try
`

const helpServe = `usage: cronce serve --crontab FILE [--crontab FILE]... [--store DIR] [--strict]

Runs the jobs of crontabs, in place of cron. Every tick (scheduled time) of a
job is claimed in the store before it is run, so that any number of serves on
one store run it once; a tick that is due while a run of its job still goes on
is skipped, and both are on record ('cronce runs').

  --crontab FILE   a crontab; may be given more than once
  --store DIR      where ticks are claimed and runs recorded (also CRONCE_STORE;
                   default: a folder of this user's own, see docs/local-store.md)
  --strict         refuse to start when a line of a crontab is wrong; otherwise
                   the good lines are served and the bad ones are named

Commands run as 'SHELL -c COMMAND' with the environment of serve, changed by the
crontab's own NAME=value lines; SHELL is /bin/sh unless the crontab says so.
TERM, INT or HUP: starts no more runs and waits for those that go on; a second one
ends them. Exit 0 after an orderly stop, 64 wrong usage, 66 a crontab that
cannot be read, 69 the store cannot be reached, 78 wrong configuration.
`

const helpValidate = `usage: cronce validate FILE...

Reads crontabs as serve does and lists their jobs with the next tick of each;
what is wrong is named by file, line and column. It runs nothing, and opens no
store. Exit 0 when all is well, 78 when something is wrong.
`

const helpNext = `usage: cronce next [--zone ZONE] [--name JOB] [--after TIME] [--until TIME] [-n N] EXPR

Prints when a schedule is due, one RFC 3339 time in UTC a line.

  --zone ZONE    the time zone of the schedule, as Europe/Paris (default: the host's)
  --name JOB     the job's name, which H in a schedule is made from
  --after TIME   the times after this one (RFC 3339; default: now)
  --until TIME   no time after this one (default: none)
  -n N           at most N times (default: 1; with --until: all)

  cronce next '30 2 * * *'                     the next one
  cronce next -n 5 --zone America/New_York '0 9 * * MON-FRI'
  cronce next --name report 'H H(0-5) * * *'   spread by the job's name
`

const helpRuns = `usage: cronce runs [JOB] [--since TIME|DURATION] [-n N] [--json] [--store DIR]
       cronce runs --id RUN [--store DIR]

Lists what was decided, oldest first: runs with how they ended and how long they
took, skips with the reason. With --id: one run, with the end of its output.

  --since WHEN   since a time (RFC 3339), or that long ago (as 90m or 36h)
  -n N           the newest N (default 50; 0: all)
  --json         one JSON object a line
  --store DIR    as for serve
`

const helpStatus = `usage: cronce status [JOB] [--json] [--store DIR]

Shows each job of the store: whether it runs now and since when, what was
decided last and how it ended, and its next tick.
`

// helpCrontab teaches the format; the settings come from their one table.
func helpCrontab() string {
	var b strings.Builder
	b.WriteString(`A crontab as cron reads it: minute, hour, day of month, month and day of week,
then the command; or a macro (@hourly, @daily, ...), or @every 5m.

  # cronce: name=report overlap=skip timeout=50m
  0 * * * *  /usr/local/bin/report

A comment '# cronce: key=value ...' on the line above a job sets:

`)
	for _, s := range cronce.Settings() {
		fmt.Fprintf(&b, "  %s=%s\n      %s\n", s.Key, s.Value, s.Help)
	}
	return b.String()
}

// help prints the help on a subject.
func help(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		_, err := io.WriteString(stdout, helpMain)
		return err
	}
	texts := map[string]func() string{
		"serve":    func() string { return helpServe },
		"validate": func() string { return helpValidate },
		"next":     func() string { return helpNext },
		"runs":     func() string { return helpRuns },
		"status":   func() string { return helpStatus },
		"crontab":  helpCrontab,
	}
	text, ok := texts[args[0]]
	if !ok {
		return cli.Misuse("", "there is no help on %q: there is on serve, next, runs, status and crontab", args[0])
	}
	_, err := io.WriteString(stdout, text())
	return err
}
