package main

import (
	"fmt"
	"strings"

	"github.com/cronce/cronce/internal/keys"
)

// helpDrain teaches the command; the flags come from their one table.
func helpDrain() string {
	var b strings.Builder
	b.WriteString(`usage: cronce drain --db URL --table NAME --key COLUMN --state COLUMN [FLAG]... -- COMMAND [ARG]...
       cronce drain --db URL --table NAME --key COLUMN --state COLUMN [FLAG]... --post URL
       cronce drain report --db URL --table NAME --key COLUMN --state COLUMN [--job NAME]
                    [--store PLACE] [--duplicates] [-n N] [--json]

Works off a table row by row, each row by one process, however many drains there
are on however many hosts: rows that wait (pending) are claimed in batches, a
command is run for each, and the row is marked with what came of it: sent,
failed, dead (failed too often), pending (to be tried again) or unknown (nobody
knows whether the command did its work).

  export CRONCE_DB=mysql://app:secret@db/app
  cronce drain --table notices --key id --state status --workers 8 -- ./send.sh

The command gets the row as a line of JSON on its standard input, its columns as
CRONCE_ROW_ and the column's name in upper case, and CRONCE_ROW_KEY, which is
the same in each attempt. It says by its exit code what came of the row:

  0          sent
  65, 100    failed for good
  76         nobody knows; so does a signal (also as a shell has it, 129 to 192),
             and the time-out (also that of timeout(1), 124)
  any other  to be tried again, as 75

It has ended when what it left in the background has.

With --post an answer of 2xx is sent; 408, 429 and 5xx are to be tried again,
not before Retry-After; what could not be sent, 401 and 407 too, and that was no
attempt; what got no answer, and 504, nobody knows; all else is failed. The
row's key is its Idempotency-Key. With --lines the command gets
{"key":…,"attempt":…,"row":{…}} a line, and answers
{"key":…,"result":"sent|retry|failed|unknown","error":…,"after":"30s"}, flushed
after each line.

Where ten rows one after the other meet the same refusal (no connection, no
answer, a redirect, 401, 403, 404, 405, 407, 429, 5xx; exit 126, 127, the
time-out) no more are started: the others stay pending, with their attempts.

The table:

`)
	list := func(name, value, help string) {
		fmt.Fprintf(&b, "  %s\n                    %s\n", strings.TrimRight("--"+name+" "+value, " "), wrap(help, 60, "\n                    "))
	}
	for _, k := range keys.Table() {
		list(keys.Flag(k.Name), k.Value, k.Help)
	}
	b.WriteString("\nThe work:\n\n")
	for _, k := range keys.Drain {
		list(k.Name, k.Value, k.Help)
	}
	b.WriteString(`
A password is not given in --db, where everybody can read it, but in CRONCE_DB,
or in a file that CRONCE_DB_PASSWORD_FILE names. The columns that cronce needs
are added by what --print-migration prints; without --read the command gets all
other columns.

report lists the rows that are unknown, and those that may have been sent twice,
with the runs that had them: how to tell is for a person. They are pending again
by an UPDATE of yours. It ends with 76 if there are some, else with 0. Rows that
are sending come back by themselves; one that is set back by hand is sent twice.

  --json            one JSON object a line
  -n N              the newest N (default 50)

TERM or INT: no more rows are started, those that are worked on come to their
end within the grace; a second one ends them. Exit 0 when what was due is done,
also where rows are to be tried again later; 65 rows failed for good; 76 of some
rows nobody knows whether they were sent; 75 rows are pending and none can be
claimed, as others have them locked, or none was sent; 1 nothing gets through;
70 a later run of the job has claimed rows;
69 the database cannot be reached; 66 there is no such file; 64 wrong usage; 78
the table cannot be worked off as it is; 126 or 127 the command cannot be
started; 128+n stopped by signal n. More: docs/drain.md.
`)
	return b.String()
}
