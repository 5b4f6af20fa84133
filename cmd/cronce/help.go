package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/keys"
)

const helpMain = `cronce - cron, once: no job runs twice for one scheduled time, or overlaps itself

  cronce serve --crontab FILE    run the jobs of a crontab
  cronce serve --system          run those of the whole machine, in place of cron
  cronce serve --config FILE     run the jobs of a YAML file, HTTP requests among them
  cronce run JOB -- COMMAND      the same for one command, in front of a line of cron
  cronce hold JOB -- COMMAND     keeps one copy of a command running, here or elsewhere
  cronce drain -- COMMAND        works off a table row by row, each row once
  cronce flock FILE COMMAND      flock(1), with a record of what ran and what did not
  cronce validate FILE           what serve would do with a crontab; runs nothing
  cronce status [JOB]            what each job does now, did last and does next
  cronce runs [JOB]              what ran, what was skipped, and why
  cronce next EXPR               when a schedule is due
  cronce trigger JOB             run a job now, by hand
  cronce release JOB             free a job that is held: end its run
  cronce pause JOB, resume JOB   skip its ticks for a while
  cronce job list|show|update    what the store knows of jobs
  cronce store init|check|prune  look after the store itself
  cronce demo crons|notices      what goes wrong without it, and does not with it
  cronce completion SHELL        what Tab needs to complete all of this
  cronce help COMMAND            more on a command; also: help crontab, help config
  cronce version

Try it:  printf '@every 2s echo hello\n' >try.cron && cronce serve --crontab try.cron --store /tmp/try
`

const helpServe = `usage: cronce serve [--crontab FILE]... [--config FILE]... [--store PLACE] [--strict]
                    [--max-running N] [--no-catchup] [--log-format text|json]
       cronce serve --system [--crontab FILE]... [--strict] [--max-running N]
                    [--no-catchup] [--log-format text|json] [--beside-cron]

Runs the jobs of crontabs and YAML files, in place of cron. Every tick (scheduled time) of a
job is claimed in the store before it is run, so that any number of serves on
one store run it once; a tick that is due while a run of its job still goes on
is skipped, and both are on record ('cronce runs').

  --crontab FILE   a crontab; may be given more than once
  --config FILE    a YAML file (docs/config.md); may be given more than once
  --store PLACE    where ticks are claimed and runs recorded (also CRONCE_STORE;
                   default: what the YAML files say, else a folder of this user's
                   own, see docs/local-store.md): a folder, or a URL for a store
                   that hosts share, see docs/several-hosts.md
  --store-timeout DURATION
                   how long to try to reach such a store (default 5s)
  --strict         refuse to start when a line or a job is wrong; otherwise the
                   good ones are served and the bad ones are named
  --max-running N  at most N runs at once (default: any number); ticks beyond
                   wait, oldest first
  --no-catchup     what was due before this start has been run by another, as
                   cron: it is put on record as skipped, and not caught up
  --log-format text|json
                   for people (default), or an object a line, for log collectors
  --system         in place of cron for the whole machine, as root: /etc/crontab,
                   /etc/cron.d and all users' crontabs (or the --crontab FILEs,
                   with a user in each line), each line as its user, in that
                   user's own store; not beside a cron daemon
  --beside-cron    --system although a cron daemon runs, which has other crontabs

Commands run as 'SHELL -c COMMAND' with the environment of serve, changed by the
crontab's own NAME=value lines; SHELL is /bin/sh unless the crontab says so.
A file that changes is loaded anew within two seconds, also on HUP; one that
cannot be used is named, and what was served goes on.
When more is due than can be started, it says how far behind it is.
TERM or INT: starts no more runs and waits for those that go on; a second one
ends them. Exit 0 after an orderly stop, 64 wrong usage, 66 a file that
cannot be read, 69 the store cannot be reached, 78 wrong configuration.
`

const helpValidate = `usage: cronce validate FILE...
       cronce validate --system [FILE]...
       cronce validate --print-schema

Reads crontabs and YAML files (.yaml, .yml, or told by their first line) as serve
does and lists their jobs with the next tick of each; what is wrong is named by
file, line and column. It runs nothing, and opens no store. Exit 0 when all is
well, also where it warns, 78 when something is wrong.

  --system        the crontabs that serve --system reads, with their users (root)
  --print-schema  print a JSON Schema of the YAML files instead, for editors
`

// helpRun teaches the command; the policies come from their one table.
func helpRun() string {
	var b strings.Builder
	b.WriteString(`usage: cronce run [FLAG]... JOB -- COMMAND [ARG]...

Runs a command as a job, once for each tick (scheduled time) and never over
itself; else it says in one line why not. Put it in front of a command of cron,
by its whole path, as cron's PATH is only /usr/bin:/bin:

  */5 * * * *  /usr/local/bin/cronce run --schedule '*/5 * * * *' report -- /usr/local/bin/report

  --schedule EXPR   the job's schedule: the tick is its latest time. Without it the
                    job has no ticks and is only kept from overlapping itself
  --tick TIME       this tick (RFC 3339) and no other
  --manual          a run by hand, which takes no tick; so is one with --schedule
                    that is typed at a terminal
`)
	for _, s := range cronce.Settings() {
		if s.Key == "name" || s.Key == "seconds" || s.Serve {
			continue // an argument; seen by the number of fields; for what stays running
		}
		fmt.Fprintf(&b, "  --%s %s\n                    %s\n", s.Key, s.Value, wrap(s.Help, 60, "\n                    "))
	}
	b.WriteString(`  --skip-exit N     the exit code of every skip
  --status-file F   write what was decided and how it went into F, as JSON
  --dry-run         say what would be done now, and why; run nothing
  --store PLACE     where ticks are claimed and runs recorded (also CRONCE_STORE):
                    a folder or, shared with other hosts, a URL; a run then needs
                    --schedule, --tick or --manual
  --store-timeout DURATION
                    how long to try to reach such a store (default 5s)
  -v                say more
  --log-level debug|info|warn|error
                    how much is said (default warn; -v is info)
  --log-format text|json
                    for people (default) or programs

The exit code is the command's; 124 when it was ended at its timeout, 128+n when
signal n ended it, 126 or 127 when it could not be started, 74 when it succeeded
but a part of its output could not be written. Not run: 0 for a skip, and for a
tick that is taken by a run that goes on or succeeded; 75 for a skip of a run
without a tick, after a wait in vain or because of left-over processes, and for
a tick taken otherwise. 64 wrong usage, 69 the store cannot be reached, 70 the
lease was taken away or could not be kept, 78 wrong configuration or a tick ahead of the clock.
More: docs/run.md.
`)
	return b.String()
}

// wrap breaks a line between words, after at most width bytes.
func wrap(text string, width int, newline string) string {
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case used+1+len(word) > width:
			b.WriteString(newline)
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	return b.String()
}

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

const helpRuns = `usage: cronce runs [JOB] [--since TIME|DURATION] [--failed] [-n N] [--json]
                   [--store PLACE] [--user NAME]
       cronce runs [JOB] --system [--since TIME|DURATION] [--failed] [-n N] [--json]
       cronce runs --id RUN [--store PLACE] [--user NAME]

Lists what was decided, oldest first: runs with how they ended and how long they
took, skips with the reason. With --id: one run, with the end of its output.

  --id RUN       this run only, with the last 64 KiB of its output; the beginning
                 of its id is enough
  --since WHEN   since a time (RFC 3339), a day or a time of day of this machine's
                 zone (2026-03-08, 02:00, yesterday), or that long ago (as 90m or 36h)
  --failed       only those that failed, timed out or were lost
  -n N           the newest N (default 50; 0: all)
  --json         one JSON object a line
  --system       as root: those of all users of the machine
  --store PLACE  as for serve
  --store-timeout DURATION
                 as for serve
  --user NAME    as root: as that user, and so from that user's store
`

const helpStatus = `usage: cronce status [JOB] [--json] [--store PLACE] [--user NAME]
       cronce status [JOB] --system [--json]

Shows each job of the store: whether it runs now and since when, what was
decided last and how it ended, and its next tick. A job that a serve ran last has
a next tick only while one serves it; any other has the one of its schedule, which
a line of cron is to start. A job that was taken out of its crontab stays listed,
with what it did.

  --system       as root: the jobs of all users of the machine
  --store PLACE  as for serve
  --store-timeout DURATION
                 as for serve
  --user NAME    as root: as that user, and so from that user's store
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

// helpConfig teaches the YAML files; their keys and the settings come from
// their tables.
func helpConfig() string {
	var b strings.Builder
	b.WriteString(`A YAML file for 'cronce serve --config FILE' has jobs that are commands, or HTTP
requests:

  defaults:
    zone: Europe/Paris
  jobs:
    report:
      schedule: "0 * * * *"
      command: /usr/local/bin/report --all
    nightly:
      schedule: "30 2 * * *"
      timeout: 2m
      http:
        url: https://app.example.com/tasks/nightly

The keys of the file:

`)
	list := func(all []keys.Key) {
		for _, k := range all {
			fmt.Fprintf(&b, "  %s: %s\n      %s\n", k.Name, k.Value, wrap(k.Help, 74, "\n      "))
		}
	}
	list(keys.Top)
	b.WriteString("\nThose of a job, which has a command or http:\n\n")
	list(keys.Job)
	for _, s := range cronce.Settings() {
		if s.Key != "name" {
			fmt.Fprintf(&b, "  %s: %s\n      %s\n", s.Key, s.Value, wrap(s.Help, 74, "\n      "))
		}
	}
	b.WriteString("\nThose of http:\n\n")
	list(keys.HTTP)
	b.WriteString(`
A schedule that begins with * or @ is quoted. A key that begins with x- is not
read: a place for anchors. Relative files are looked for in this file's folder.
More: docs/config.md.
`)
	return b.String()
}

const helpHelp = `usage: cronce help [COMMAND]
       cronce help crontab
       cronce help config

Prints the help on a command, or on what it reads: the settings in a crontab,
the keys of a YAML file. Without a word: all commands.
`

const helpVersion = `usage: cronce version

Prints the release. The two programs, cronce and cronced, must be of the same.
`

// help prints the help on a subject.
func help(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		_, err := io.WriteString(stdout, helpMain)
		return err
	}
	texts := subjects()
	text, ok := texts[args[0]]
	if !ok {
		return cli.Misuse("", "there is no help on %q: there is on %s", args[0], strings.Join(slices.Sorted(maps.Keys(texts)), ", "))
	}
	_, err := io.WriteString(stdout, text())
	return err
}

// subjects are what there is help on. Completion and the manual pages are made
// from these texts.
func subjects() map[string]func() string {
	return map[string]func() string{
		"hold":     func() string { return helpHold },
		"flock":    func() string { return helpFlock },
		"serve":    func() string { return helpServe },
		"validate": func() string { return helpValidate },
		"run":      helpRun,
		"next":     func() string { return helpNext },
		"runs":     func() string { return helpRuns },
		"status":   func() string { return helpStatus },
		"crontab":  helpCrontab,
		"config":   helpConfig,
		"help":     func() string { return helpHelp },
		"version":  func() string { return helpVersion },
		"demo":     func() string { return helpDemo },
		"drain":    helpDrain,
		"release":  func() string { return helpRelease },
		"trigger":  func() string { return helpTrigger },
		"pause":    func() string { return helpPause },
		"resume":   func() string { return helpPause },
		"job":      helpJob,
		"store":    func() string { return helpStore },

		"completion": func() string { return helpCompletion },
	}
}
