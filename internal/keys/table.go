package keys

import (
	"slices"
	"strings"
)

// Table are the settings of a table that is worked off row by row: flags of 'cronce drain', and what
// rows.Table.Set reads. See Flag for how flags are named.
func Table() []Key {
	return slices.Concat([]Key{
		{"table", "NAME", "the table to work off, as notices or app.notices"},
		{"key", "COLUMN[,COLUMN]", "the primary key, or the columns of another unique index without NULLs"},
		{"order", "COLUMN", "the column by which rows are claimed, smallest first (default: the key's first)"},
		{"state", "COLUMN", "the column that says what has become of a row"},
		{"read", "COLUMN[,COLUMN]", "further columns that the handler gets"},
		{"where", "SQL", "what a row must fulfil as well, as kind = 'mail'"},
		{"side", "TABLE", "a table that keeps the facts, where the table itself may not change"},

		value("pending", "of rows that wait"),
		value("sending", "of rows that are claimed"),
		value("sent", "of rows that are done"),
		value("failed", "of rows that failed for good"),
		value("dead", "of rows that failed in their last attempt"),
		value("unknown", "of rows of which nobody knows whether they were sent"),
	}, facts())
}

// facts are columns that a table may have for what cronce keeps of a row.
func facts() []Key {
	return []Key{
		fact("token", "whose claim it is"),
		fact("lease-until", "until when the claim holds"),
		fact("started-at", "when the handler was about to be called"),
		fact("attempts", "how often it was called"),
		fact("crashes", "how many attempts ended with their process"),
		fact("next-attempt-at", "before when it is not tried again"),
		fact("last-error", "what went wrong last"),
		fact("fence", "the fence of the run that claimed it last"),
	}
}

// Drain are the flags of 'cronce drain' besides those of the table; without a value they are switches.
var Drain = []Key{
	{"db", "URL", "the table's database, as mysql://USER@HOST/DATABASE, postgres://USER@HOST/DATABASE, or the file of an SQLite one (also CRONCE_DB)"},
	{"job", "NAME", "the job that this is the work of: its fence is kept by this name (default: CRONCE_JOB, which cronce run sets, or the table's name)"},
	{"workers", "N", "how many rows are worked on at once (default 1)"},
	{"batch", "N", "how many rows a claim takes at most (default 200)"},
	{"rate", "N/s|m|h", "at most so many rows are started a second, minute or hour, by this drain"},
	{"timeout", "DURATION", "how long the work of one row may take (default 1m); then it is ended, and the row is in doubt"},
	{"lease", "DURATION", "how long a claim holds when this process dies (default twice the time-out and 10s)"},
	{"grace", "DURATION", "how long rows that are being worked on may go on after TERM or INT (default: the time-out; 5s inside cronce run)"},
	{"attempts", "N", "a row that failed so often is dead (default 5)"},
	{"crashes", "N", "with --idempotent: a row whose process died so often is dead (default 3)"},
	{"backoff", "DURATION", "the wait before the second attempt, twice as much before each further one (default 10s)"},
	{"max-backoff", "DURATION", "the longest of these waits, also of one that a Retry-After asks for (default 1h)"},
	{"idempotent", "", "to do the work of a row twice is as good as once: rows in doubt are tried again, not left as unknown"},
	{"until-empty", "", "end when nothing is due any more (the default)"},
	{"follow", "", "go on when nothing is due, and look for new rows each second"},
	{"lines", "", "one process for all rows: each is a line of JSON on its standard input, and it answers with a line"},
	{"post", "URL", "no command: each row is the JSON body of an HTTP request"},
	{"post-file", "FILE", "the same, with the URL in a file, for one that is secret itself"},
	{"header", "NAME:VALUE", "a header of that request; may be given more than once"},
	{"header-file", "NAME=FILE", "a header whose value is a secret, read from a file for each request"},
	{"doubt", "STATUS[,STATUS]", "statuses of an answer after which nobody knows whether the work was done (default 504)"},
	{"target", "COLUMN", "have duplicates counted: the column that says to whom a row is sent"},
	{"content", "COLUMN[,COLUMN]", "the columns that say what is sent there"},
	{"window", "DURATION", "how long an earlier send counts (default 1h)"},
	{"block-duplicates", "", "a duplicate is not sent, and its row is failed"},
	{"progress", "bar|lines|none", "how it is told how far it is (default: a bar on a terminal, else a line now and then)"},
	{"dry-run", "", "say what would be done, and do nothing"},
	{"check", "", "look at database, table and rights for what is missing or would make this wrong or slow, and at what waits for what; do nothing"},
	{"print-migration", "", "print the SQL of what is missing in the database, and do nothing"},
	{"duplicates", "", "for report: what was sent more than once within the window, by --target and --content"},
	{"log-table", "NAME", "for report --duplicates: a table with a row for each send, of whatever program, instead of this one"},
	{"log-time", "COLUMN", "its column that says when"},
	{"store", "PLACE", "for report: where the job's runs are on record, as for serve"},
	{"store-timeout", "DURATION", "as for serve"},
}

func value(name, of string) Key {
	return Key{name, "VALUE", "the state " + of + " (default " + name + ")"}
}

func fact(name, what string) Key {
	return Key{name, "COLUMN", "the table's own column for " + what + " (default cronce_" + strings.ReplaceAll(name, "-", "_") + ")"}
}

// Flag is the flag of a table's setting: that of a fact has -column behind it, as some are named like other flags.
func Flag(name string) string {
	if slices.ContainsFunc(facts(), func(k Key) bool { return k.Name == name }) {
		return name + "-column"
	}
	return name
}
