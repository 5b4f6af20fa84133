package main

import (
	"fmt"
	"strings"

	"github.com/cronce/cronce"
)

const helpRelease = `usage: cronce release JOB [--wait DURATION | --force] [--why TEXT] [--store PLACE]
                      [--user NAME]

Frees a job that is held: asks its run to stop and waits for its end. The run
hears it within a second; then its command gets TERM, and KILL when its grace is
over. It is on record who asked, and why.

  --wait DURATION   how long to wait for the end (default 1m; 0: only ask)
  --force           do not ask: take the lease away and end every process that
                    keeps the job, TERM first and KILL ten seconds later. Also for
                    what nobody watches over any more
  --why TEXT        why, for the records
  --store PLACE     as for serve
  --store-timeout DURATION
                    as for serve
  --user NAME       as root: as that user, and so in that user's store

On a store that hosts share, a run hears it with its next renewal, within a third
of a minute at most; --force takes the lease away, and waits for the run's end or
the lease's: nobody can end processes on another host.

Exit 0 when the job is free, also where nothing held it; 75 when it is still held,
with who holds it; 1 no such job.
`

const helpHold = `usage: cronce hold [FLAG]... JOB -- COMMAND [ARG]...

Keeps one copy of a command running among all who hold it: on one host, or on all
that share a store. Start it on each; one of them runs the command, the others
wait. Where the command ends, or its host dies, it is started again, there or
elsewhere, after a pause that grows from a second to a minute.

  --grace DURATION  how long a command that is ended has between TERM and KILL
  --lease DURATION  on a shared store: how soon another host may have it when this
                    one dies, 5s to 1m (default 15s)
  --orphans wait|kill|leave
                    what to do with processes that the command leaves behind
  --store PLACE     as for run
  --store-timeout DURATION
                    as for run
  -v                say more
  --log-level debug|info|warn|error
                    as for run
  --log-format text|json
                    as for run

Each start is a run on record ('cronce runs JOB'). TERM, INT, HUP and QUIT go to
the command, and then end this too, with the command's exit code; while it waits,
128+n. 64 wrong usage, 69 and 78 as for run, 70 the process that keeps the lease
has ended.
`

const helpTrigger = `usage: cronce trigger JOB --crontab FILE|--config FILE [--store PLACE] [--user NAME]
       cronce trigger JOB [--store PLACE] [--user NAME] -- COMMAND [ARG]...
       cronce trigger JOB --system [--user NAME] [--crontab FILE]

Runs a job now, by hand, also while it is paused. It takes no tick: the next
scheduled run comes as it would have. While a run of the job goes on it is not
run, whatever the job's overlap setting says.

  --crontab FILE   the job's command, environment and settings are from there
  --config FILE    the same, from a YAML file; an HTTP request is sent, and its
                   answer printed: exit 0 for a success, 1 for a failure
  -- COMMAND       this command, with the settings that the store knows of the job
  --system         as root: the job of any user, from the crontabs of the machine
                   (or that one, with a user in each line), run as serve --system
                   runs it: as its user, in that user's store
  --user NAME      as root: of that user, as that user, in that user's store

The exit code is the command's, as for 'cronce run': 75 where a run of the job
goes on, with who holds it. 1 no such job.
`

const helpPause = `usage: cronce pause JOB [--why TEXT] [--store PLACE] [--user NAME]
       cronce resume JOB [--why TEXT] [--store PLACE] [--user NAME]

While a job is paused its ticks are skipped, each once, with the reason 'paused';
'cronce status' says who paused it, when and why. What is run by hand runs all
the same, and a run that has started goes on. Ticks that passed in a pause are not made
up for. To pause a paused job, or resume one that is not, changes nothing.

  --user NAME   as root: as that user, and so in that user's store
`

// helpJob teaches the command; the settings come from their one table.
func helpJob() string {
	var b strings.Builder
	b.WriteString(`usage: cronce job list [--json] [--store PLACE]
       cronce job show JOB [-n N] [--json] [--store PLACE]
       cronce job update JOB [--schedule EXPR] [SETTING]... [--why TEXT] [--store PLACE]

All of them take --user NAME, as root: as that user, and so in that user's store.

list: the jobs of the store, with what they are defined as.
show: a job's definition and since when, who paused it, who holds it, its next
ticks, the last N runs and the last N requests of people (default 5).
update: records another definition by hand. A serve or a run with a definition of
its own changes it back, on record too: change its crontab as well.

  --schedule EXPR   the schedule, as 'cronce next' reads it
`)
	for _, s := range cronce.Settings() {
		if s.Key != "name" && s.Key != "seconds" {
			fmt.Fprintf(&b, "  --%s %s\n", s.Key, s.Value)
		}
	}
	b.WriteString(`
What is not given stays as it is; 'default' as a value takes a setting back.
'cronce help crontab' says what the settings mean.
`)
	return b.String()
}

const helpStore = `usage: cronce store init [--user NAME | --store PLACE]
       cronce store check [--store PLACE]
       cronce store prune [--before TIME|DURATION] [--job JOB] [--store PLACE]
       cronce store reset-watermark [--store PLACE]
       cronce store migrate --print [--store PLACE]

init: makes this user's store before its first use, or the one at PLACE. As root,
with --user: /var/lib/cronce/UID for that user, whose programs find it there.
check: looks at the store's place, owner, disk and format, reads every journal,
and names who holds a job. Exit 78 when something is wrong, each thing named.
prune: forgets the runs decided before a time (RFC 3339), or that long ago
(default 2160h, 90 days), of all jobs or of one. Their ticks stay decided.
reset-watermark: for stores that keep one; a local store does not, and says so.
migrate --print: what a store's owner runs where its programs may not make tables.

With a URL, of a store that hosts share: init says that it is new, so that nothing
was decided before; check looks at the server's settings and the clocks.

  --print                   show it
  --store-timeout DURATION  how long to try to reach a store (default 5s)
`
