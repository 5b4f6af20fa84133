package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/keys"
	"github.com/cronce/cronce/request"
	"github.com/cronce/cronce/rows"
)

// drainOptions are what the command line of drain says.
type drainOptions struct {
	db      string
	table   rows.Table
	options rows.Options

	command []string
	lines   bool
	post    *request.Request // nil: a command
	doubt   []request.Statuses

	meter    rows.MeterOptions // Target and Content are set with the columns
	target   string
	content  []string
	repeats  bool // the report is of duplicates
	logTable string
	logTime  string

	follow         bool
	progress       string // bar, lines, none; "": as it fits
	dryRun         bool
	check          bool
	printMigration bool

	given        []string // the flags that say which table this is, as they were given
	runID        string   // of the run around this
	store        string   // of the job's runs
	storeTimeout time.Duration
}

// drainFlags reads the flags of drain and of its report: all of keys.Table and keys.Drain.
func (o *drainOptions) flags() *cli.Flags {
	f := cli.NewFlags("drain")
	for _, k := range keys.Table() {
		f.Func(keys.Flag(k.Name), "", func(v string) error {
			o.given = append(o.given, "--"+keys.Flag(k.Name), v)
			return unnamed(o.table.Set(k.Name, v), k.Name)
		})
	}
	ints := map[string]*int{"workers": &o.options.Workers, "batch": &o.options.Batch, "attempts": &o.options.Attempts, "crashes": &o.options.Crashes}
	durations := map[string]*time.Duration{
		"timeout": &o.options.Timeout, "lease": &o.options.Lease, "grace": &o.options.Grace,
		"backoff": &o.options.Backoff, "max-backoff": &o.options.MaxBackoff, "window": &o.meter.Window,
	}
	switches := map[string]*bool{
		"idempotent": &o.options.Idempotent, "until-empty": new(bool), "follow": &o.follow, "lines": &o.lines,
		"dry-run": &o.dryRun, "check": &o.check, "print-migration": &o.printMigration,
		"block-duplicates": &o.meter.Block, "duplicates": &o.repeats,
	}
	o.post = &request.Request{}
	others := map[string]func(string) error{
		"db": o.setDB(f),
		"job": func(v string) error {
			o.options.Job = v
			o.given = append(o.given, "--job", v)
			return expected(v != "", "a name")
		},
		"rate":        func(v string) (err error) { o.options.Rate, err = parseRate(v); return err },
		"post":        o.setPost(f),
		"post-file":   func(v string) error { o.post.URLFile = v; return request.CheckFile(v) },
		"header":      o.header(f),
		"header-file": o.headerFile,
		"doubt":       o.setDoubt,
		"target":      func(v string) error { o.target = v; return expected(v != "", "a column") },
		"content": func(v string) error {
			o.content = strings.Split(v, ",")
			return expected(!slices.Contains(o.content, ""), "a column, or more of them with commas between,")
		},
		"log-table": func(v string) error { o.logTable = v; return expected(v != "", "a table") },
		"log-time":  func(v string) error { o.logTime = v; return expected(v != "", "a column") },
		"progress": func(v string) error {
			o.progress = v
			return expected(slices.Contains([]string{"bar", "lines", "none"}, v), "bar, lines or none")
		},
	}
	for _, k := range keys.Drain {
		switch n, d, s := ints[k.Name], durations[k.Name], switches[k.Name]; {
		case n != nil:
			f.Func(k.Name, "", func(v string) (err error) {
				*n, err = strconv.Atoi(v)
				return expected(err == nil && *n > 0, "a number from 1 on")
			})
		case d != nil:
			f.Func(k.Name, "", func(v string) (err error) {
				*d, err = time.ParseDuration(v)
				return expected(err == nil && *d > 0, "a duration as 30s")
			})
		case s != nil:
			f.BoolVar(s, k.Name, false, "")
		case others[k.Name] != nil:
			f.Func(k.Name, "", others[k.Name])
		}
	}
	return f
}

// readDrain reads the command line.
func readDrain(args []string) (*drainOptions, error) {
	o := &drainOptions{db: os.Getenv(databaseVariable), doubt: []request.Statuses{{First: 504, Last: 504}}}
	f := o.flags()
	store := cli.StoreFlag(f)
	front, command, found := args, []string(nil), false
	if i := slices.Index(args, "--"); i >= 0 {
		front, command, found = args[:i], args[i+1:], true
	}
	rest, err := f.Parse(front)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, cli.Misuse("drain", "%q is no flag: the command stands behind --", rest[0])
	}
	o.command, o.store, o.storeTimeout = command, *store, f.StoreTimeout
	given := map[string]bool{}
	for _, k := range keys.Drain {
		given[k.Name] = f.Given(k.Name)
	}
	if err := o.fits(given, found); err != nil {
		return nil, err
	}
	if err := o.inRun(); err != nil {
		return nil, err
	}
	if err := o.table.Check(); err != nil {
		return nil, &cli.UsageError{Command: "drain", Err: asFlags(err)}
	}
	return o, nil
}

// fits refuses flags that say nothing together.
func (o *drainOptions) fits(given map[string]bool, command bool) error {
	only := o.check || o.printMigration || o.dryRun
	posts := given["post"] || given["post-file"]
	switch {
	case o.db == "":
		return cli.Misuse("drain", "--db: the URL of the database is missing; it may be in %s too", databaseVariable)
	case given["follow"] && given["until-empty"]:
		return cli.Misuse("drain", "--follow goes on when --until-empty ends: one of them")
	case given["post"] && given["post-file"]:
		return cli.Misuse("drain", "--post and --post-file both name the URL: one of them")
	case !posts && (given["header"] || given["header-file"] || given["doubt"]):
		return cli.Misuse("drain", "--header, --header-file and --doubt are about the request of --post, and there is none")
	case posts && (command || o.lines):
		return cli.Misuse("drain", "--post sends each row itself: there is no command beside it")
	case (o.target == "") != (len(o.content) == 0):
		return cli.Misuse("drain", "--target and --content say together what a duplicate is: both are needed")
	case o.target == "" && (given["window"] || given["block-duplicates"]):
		return cli.Misuse("drain", "--window and --block-duplicates are about duplicates: --target and --content say what one is")
	case given["duplicates"] || given["log-table"] || given["log-time"]:
		return cli.Misuse("drain", "--duplicates, --log-table and --log-time are flags of 'cronce drain report'")
	case !only && !posts && len(o.command) == 0:
		return cli.Misuse("drain", "nothing does the work: a command behind --, or --post URL")
	}
	if !posts {
		o.post = nil
	}
	return nil
}

// inRun takes what cronce run says of the run around this drain.
func (o *drainOptions) inRun() error {
	o.runID = os.Getenv("CRONCE_RUN_ID")
	job := os.Getenv("CRONCE_JOB")
	if o.options.Job == "" {
		o.options.Job = job
	} else if job != "" && o.options.Job != job {
		return cli.Misuse("drain", "--job %s: the run around it is of job %s, and so is its fence: leave --job out", o.options.Job, job)
	}
	if text := os.Getenv("CRONCE_FENCE"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return cli.Misuse("drain", "CRONCE_FENCE=%s: it is set by cronce run, to a number", text)
		}
		o.options.Fence = n
	}
	if o.options.Grace == 0 && o.runID != "" {
		o.options.Grace = insideGrace
	}
	return nil
}

// insideGrace is less than the grace of a run, so that what became of the last rows can be recorded in it.
const insideGrace = 5 * time.Second

// patience is how long rows may go on after a stop.
func (o *drainOptions) patience() time.Duration {
	switch {
	case o.options.Grace > 0:
		return o.options.Grace
	case o.options.Timeout > 0:
		return o.options.Timeout
	}
	return time.Minute
}

// name is what messages call the work.
func (o *drainOptions) name() string {
	if o.options.Job != "" {
		return o.options.Job
	}
	return o.table.Name
}

// errorColumn is where the reason for a failure is.
func (o *drainOptions) errorColumn() string {
	switch {
	case o.table.Side != "":
		return o.table.Side + ".last_error"
	case o.table.Columns.LastError != "":
		return o.table.Columns.LastError
	}
	return "cronce_last_error"
}

// setPost reads --post. What stands before an @ is not shown.
func (o *drainOptions) setPost(f *cli.Flags) func(string) error {
	return func(v string) error {
		o.post.URL = v
		err := request.CheckURL(v)
		if err == nil || !strings.Contains(v, "@") {
			return err
		}
		f.Refuse(errors.New("--post: a user or password in it can be read by everybody on this machine: put the header Authorization into a file, and give --header-file Authorization=FILE"))
		return nil
	}
}

func (o *drainOptions) header(f *cli.Flags) func(string) error {
	return func(v string) error {
		name, value, ok := strings.Cut(v, ":")
		if !ok {
			return errors.New("NAME:VALUE is expected")
		}
		if request.IsSecret(name) {
			f.Refuse(fmt.Errorf("--header %s: its value on a command line can be read by everybody on this machine: put it into a file, and give --header-file %[1]s=FILE", name))
		}
		value = strings.TrimSpace(value)
		o.post.Headers = append(o.post.Headers, request.Header{Name: name, Value: value})
		return errors.Join(request.CheckHeader(name), request.CheckValue(value))
	}
}

func (o *drainOptions) headerFile(v string) error {
	name, file, ok := strings.Cut(v, "=")
	if !ok {
		return errors.New("NAME=FILE is expected")
	}
	o.post.Headers = append(o.post.Headers, request.Header{Name: name, File: file})
	return errors.Join(request.CheckHeader(name), request.CheckFile(file))
}

func (o *drainOptions) setDoubt(v string) error {
	o.doubt = nil
	for text := range strings.SplitSeq(v, ",") {
		s, err := request.ParseStatuses(text)
		if err != nil {
			return err
		}
		o.doubt = append(o.doubt, s)
	}
	return nil
}

// parseRate reads 50/s, 100/m or 2/h.
func parseRate(text string) (rows.Rate, error) {
	number, unit, ok := strings.Cut(text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.Atoi(number)
	if !ok || per == 0 || err != nil || n < 1 || n > math.MaxInt32 {
		return rows.Rate{}, errors.New("a rate as 50/s, 100/m or 2/h is expected")
	}
	return rows.Rate{Rows: n, Per: per}, nil
}

// expected is an error about a value that is none of what was expected.
func expected(is bool, what string) error {
	if is {
		return nil
	}
	return fmt.Errorf("%s is expected", what)
}

// unnamed takes the setting's name off an error, where the flag names it.
func unnamed(err error, name string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), name+": "))
}

// reportCommand is the report of this table, to be typed.
func (o *drainOptions) reportCommand() string {
	words := []string{"cronce", "drain", "report"}
	for _, w := range o.given {
		words = append(words, cli.ShellWord(w))
	}
	return strings.Join(words, " ")
}

// settingNamed is how package rows names what a flag gives: "Where (where)".
var settingNamed = regexp.MustCompile(`(?:\b[A-Z]\w*|\ba side table) \(([a-z-]+)\)`)

// asFlags has errors of package rows name flags: "state: …" is about --state.
func asFlags(err error) error {
	var all []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		name, rest, ok := strings.Cut(line, ": ")
		if ok && slices.Contains(keys.Names(keys.Table()), name) {
			line = "--" + keys.Flag(name) + ": " + rest
		}
		line = settingNamed.ReplaceAllStringFunc(line, func(text string) string {
			if name := settingNamed.FindStringSubmatch(text)[1]; slices.Contains(keys.Names(keys.Table()), name) {
				return "--" + keys.Flag(name)
			}
			return text
		})
		all = append(all, line)
	}
	return errors.New(strings.Join(all, "\n"))
}
