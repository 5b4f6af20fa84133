package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/keys"
	"github.com/cronce/cronce/schedule"
)

// The keys of a file, in the order to show them.
var (
	topKeys = keys.Names(keys.Top)
	jobKeys = keys.Names(keys.Job) // and the settings
)

// storeSchemes are what the address of a store may begin with, in front of "://":
// beside file, those that package all opens.
var storeSchemes = []string{"file", "redis", "redis+cluster", "redis+sentinel", "rediss", "rediss+cluster", "rediss+sentinel",
	"valkey", "valkey+cluster", "valkey+sentinel", "valkeys", "valkeys+cluster", "valkeys+sentinel",
	"postgres", "postgresql", "mysql"}

// settingKeys are the settings that a job, or the defaults of jobs, can have: a
// job's name is its key.
func settingKeys() (names []string) {
	for _, s := range cronce.Settings() {
		if s.Key != "name" {
			names = append(names, s.Key)
		}
	}
	return names
}

// defaults are what holds for all jobs that do not say otherwise.
type defaults struct {
	job cronce.Job
	env []string
}

// top reads all but the jobs, and returns them. What is wrong here is wrong for
// all of them, so that none is used.
func (d *decoder) top(root *node) (jobs []pair) {
	d.fatal = true
	if !d.is(root, isMapping, "the file", "jobs: {…}") {
		return nil
	}
	found := false
	for _, p := range root.pairs {
		switch {
		case strings.HasPrefix(p.key, "x-"): // a place for anchors
		case p.key == "jobs":
			found = true
			if p.value.kind == isList && p.value.bad == "" {
				d.fail(p.value.place, nil, "jobs: each job stands under its name: write 'name:' and its keys below it, not '- name: …'")
			} else if d.is(p.value, isMapping, "jobs", "a mapping from names to jobs") {
				jobs = p.value.pairs
			}
		case p.key == "defaults":
			d.readDefaults(p.value)
		case p.key == "store":
			if text, ok := d.text(p.value, "store"); ok {
				d.file.Store = d.readStore(p.value, text)
				d.file.storeAt = p.value.place
			}
		default:
			d.unknown(p, "", topKeys)
		}
	}
	if !found && len(d.file.Errors) == 0 {
		d.fail(root.place, nil, "there are no jobs: 'jobs:' is expected")
	}
	return jobs
}

func (d *decoder) readStore(n *node, text string) string {
	switch {
	case text == "":
		d.fail(n.place, nil, "store: a folder is expected")
		return ""
	case strings.Contains(text, "://"):
		scheme, _, _ := strings.Cut(text, "://")
		if !slices.Contains(storeSchemes, strings.ToLower(scheme)) {
			d.failSecretly(n.place, "store: %s:// is the address of no store: a folder is expected, or one of %s", scheme, strings.Join(storeSchemes, ", "))
		}
		return text
	}
	return d.beside(text)
}

// beside is the path of a file that is named in this one.
func (d *decoder) beside(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}

func (d *decoder) readDefaults(n *node) {
	if !d.is(n, isMapping, "defaults", "settings of jobs") {
		return
	}
	known := append(settingKeys(), "env")
	for _, p := range n.pairs {
		switch {
		case p.key == "env":
			d.defaults.env = d.env(nil, p.value)
		case slices.Contains(settingKeys(), p.key):
			d.setting(&d.defaults.job, p)
		case slices.Contains(jobKeys, p.key):
			d.fail(p.at, nil, "%s is a job's own, and no default", p.key)
		default:
			d.unknown(p, "defaults", known)
		}
	}
}

// job reads a job and keeps it if all of it is right.
func (d *decoder) job(p pair) {
	if p.copy {
		return // it was spoken of where its first one was
	}
	d.fatal = false
	before := len(d.file.Errors)
	if n := len(p.again); n > 0 {
		// None of them: which one is meant cannot be known.
		lines := strconv.Itoa(p.at.line)
		for _, at := range p.again[:n-1] {
			lines += fmt.Sprintf(", %d", at.line)
		}
		times, none := "twice", "neither"
		if n > 1 {
			times, none = fmt.Sprintf("%d times", n+1), "none of them"
		}
		d.fail(p.again[0], nil, "%s is there %s, on lines %s and %d: %s is served", p.key, times, lines, p.again[n-1].line, none)
	}
	j := &Job{Job: d.defaults.job, Line: p.at.line, Env: d.defaults.env}
	j.Name = p.key
	if err := cronce.CheckName(p.key); err != nil {
		d.fail(p.at, nil, "%v", err)
	}
	if !d.is(p.value, isMapping, fmt.Sprintf("job %q", p.key), "schedule: and command: or http: below it") {
		return
	}
	where := fmt.Sprintf("job %q", p.key)
	known := append(slices.Clone(jobKeys), settingKeys()...)
	has := map[string]pair{}
	for _, q := range p.value.pairs {
		has[q.key] = q
		switch {
		case q.key == "schedule":
			j.Schedule, _ = d.text(q.value, q.key)
		case q.key == "command":
			j.Command = d.command(q.value)
		case q.key == "http":
			j.HTTP = d.http(q.value, p.key)
		case q.key == "env":
			j.Env = d.env(j.Env, q.value)
		case q.key == "name":
			d.fail(q.at, nil, "%s: a job's name is its key, here %q", where, p.key)
		case slices.Contains(settingKeys(), q.key):
			d.setting(&j.Job, q)
		default:
			d.unknown(q, where, known)
		}
	}
	if len(d.file.Errors) == before {
		d.whole(j, p, has)
	}
	if len(d.file.Errors) == before {
		d.file.Jobs = append(d.file.Jobs, j)
	}
}

// whole looks at a job whose parts are right.
func (d *decoder) whole(j *Job, p pair, has map[string]pair) {
	_, command := has["command"]
	_, http := has["http"]
	switch {
	case command && http:
		d.fail(has["http"].at, nil, "job %q has a command and http: one of them is expected", j.Name)
	case command && has["command"].value.kind != isList:
		for _, kv := range j.Env {
			if shell, ok := strings.CutPrefix(kv, "SHELL="); ok && shell != "" {
				j.Command[0] = shell
			}
		}
	case !command && !http:
		d.fail(p.at, nil, "job %q does nothing: 'command:' or 'http:' is expected", j.Name)
	}
	if http {
		for _, key := range []string{"env", "grace", "orphans"} {
			if q, ok := has[key]; ok {
				d.fail(q.at, nil, "job %q: %s is for commands, and this is an HTTP request", j.Name, key)
			}
		}
		j.Env, j.Grace, j.Orphans = nil, 0, cronce.OrphansWait // from the defaults
	}
	var unfit *cronce.SettingError
	if errors.As(j.Check(), &unfit) {
		at := p.at // where the defaults have it
		if q, ok := has[unfit.Key]; ok {
			at = q.at
		}
		d.fail(at, unfit, "job %q: %v", j.Name, unfit)
		return
	}
	q, scheduled := has["schedule"]
	if !scheduled {
		d.fail(p.at, nil, "job %q has no schedule: 'schedule:' is expected, as schedule: '0 3 * * *'", j.Name)
		return
	}
	_, err := j.Parse()
	var bad *schedule.ParseError
	switch {
	case err == nil:
	case errors.Is(err, schedule.ErrReboot):
		d.fail(q.value.place, err, "job %q: @reboot is for crontabs: it is no time", j.Name)
	case errors.As(err, &bad):
		at := q.value.place
		if !q.value.block {
			at.column += utf8.RuneCountInString(bad.Expr[:min(bad.Offset, len(bad.Expr))])
		}
		text := bad.Problem
		if bad.Field != "" {
			text = bad.Field + " field: " + text
		}
		if bad.Hint != "" {
			text += "; " + bad.Hint
		}
		d.fail(at, bad, "job %q: %s", j.Name, text)
	default:
		d.fail(q.value.place, err, "%v", err)
	}
}

// setting sets one of the settings that crontabs and flags have too.
func (d *decoder) setting(j *cronce.Job, p pair) {
	text, ok := d.text(p.value, p.key)
	if !ok {
		return
	}
	i := slices.IndexFunc(cronce.Settings(), func(s cronce.Setting) bool { return s.Key == p.key })
	s := cronce.Settings()[i]
	if s.Value == "DURATION" && p.value.kind == isNumber {
		d.fail(p.value.place, nil, "%s: %s has no unit: write %[2]ss for seconds, %[2]sm for minutes", p.key, text)
		return
	}
	if s.Value == "yes|no" && p.value.kind == isBool {
		text = map[bool]string{true: "yes", false: "no"}[strings.EqualFold(text, "true")]
	}
	if err := j.Set(p.key, text); err != nil {
		reason := err
		var bad *cronce.SettingError
		if errors.As(err, &bad) {
			reason = bad.Err
		}
		d.fail(p.value.place, err, "%s: %v", p.key, reason)
	}
}

// command reads a text for the shell (SHELL, if env has it), or a list of a program and its arguments.
func (d *decoder) command(n *node) []string {
	if n.kind != isList || n.bad != "" {
		text, ok := d.text(n, "command")
		if ok && strings.TrimSpace(text) == "" {
			d.fail(n.place, nil, "command: it is empty")
		}
		return []string{"/bin/sh", "-c", text}
	}
	var argv []string
	for _, item := range n.items {
		text, _ := d.text(item, "command")
		argv = append(argv, text)
	}
	if len(n.items) == 0 || n.items[0].bad == "" && argv[0] == "" {
		d.fail(n.place, nil, "command: the program is missing")
	}
	return argv
}

// env reads variables on top of others.
func (d *decoder) env(base []string, n *node) []string {
	if !d.is(n, isMapping, "env", "NAME: value") {
		return base
	}
	env := slices.Clone(base)
	at := map[string]int{} // by name
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		at[name] = i
	}
	for _, p := range n.pairs {
		if p.key == "" || strings.ContainsAny(p.key, "=\x00") {
			d.fail(p.at, nil, "env: %q is no name of a variable", p.key)
			continue
		}
		text, ok := d.text(p.value, p.key)
		if !ok {
			continue
		}
		i, there := at[p.key]
		if !there {
			i, at[p.key] = len(env), len(env)
			env = append(env, "")
		}
		env[i] = p.key + "=" + text
	}
	return env
}

// text reads a scalar as it is written.
func (d *decoder) text(n *node, what string) (string, bool) {
	switch {
	case n.bad != "":
		d.fail(n.place, nil, "%s", n.bad)
	case n.kind == isNull:
		d.fail(n.place, nil, "%s has no value ('' is an empty text)", what)
	case n.kind == isMapping || n.kind == isList:
		d.fail(n.place, nil, "%s: a single value is expected, and this is %s", what, n.kind)
	case strings.ContainsRune(n.text, 0):
		d.fail(n.place, nil, "%s: it has a NUL character in it", what)
	default:
		return n.text, true
	}
	return "", false
}

// is reports whether a value is of that kind; it says so if not.
func (d *decoder) is(n *node, k kind, what, example string) bool {
	switch {
	case n.bad != "":
		d.fail(n.place, nil, "%s", n.bad)
	case n.kind != k:
		d.fail(n.place, nil, "%s: %s is expected, as %s, and this is %s", what, k, example, n.kind)
	default:
		return true
	}
	return false
}

// unknown refuses a key.
func (d *decoder) unknown(p pair, where string, known []string) {
	if p.value.bad != "" && (p.key == "<<" || p.key == "?") {
		d.fail(p.value.place, nil, "%s", p.value.bad)
		return
	}
	if where != "" {
		where += ": "
	}
	hint := "the keys are " + strings.Join(known, ", ")
	if len(d.file.Errors) >= detailed {
		hint = "it is one of many mistakes"
	} else if k := suggest(p.key, known); k != "" {
		hint = "did you mean " + k + "?"
	} else if p.key == "suspend" || p.key == "disabled" || p.key == "enabled" {
		hint = "'cronce pause JOB' keeps a job from running for a while"
	}
	d.fail(p.at, nil, "%sunknown key %q: %s", where, p.key, hint)
}
