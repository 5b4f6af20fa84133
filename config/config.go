// Package config reads the YAML files of cronce: a store, defaults, and jobs
// that are commands or HTTP requests. It is strict, says for each mistake where
// it is, and keeps the jobs that are right. The format is described in
// docs/config.md.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/request"
)

// MaxFileBytes is the largest file that is read.
const MaxFileBytes = 1 << 20

// File is what a YAML file says.
type File struct {
	Path  string
	Store string // where ticks are claimed; empty: the file does not say
	Jobs  []*Job // those that could be read, in the file's order
	// Errors are what is wrong with the others, in the file's order.
	Errors []*Error

	storeAt place
	named   []named
}

// Job is a job of a file. Either Command or HTTP is set.
type Job struct {
	cronce.Job
	Line    int              // where its name is, from 1
	Command []string         // the program and its arguments
	Env     []string         // NAME=value for the command, each name once
	HTTP    *request.Request // to be sent instead of a command
}

// Error is something in a file that cannot be read, or cannot be meant.
type Error struct {
	Path    string
	Line    int // from 1
	Column  int // in characters, from 1
	Msg     string
	Snippet string // the line, with a mark below; empty where it may show a secret
	Err     error  // the reason, if it has a type: *schedule.ParseError, *cronce.SettingError
}

// Error is "file:line:column: what is wrong", and the snippet on lines of its own.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Column, e.Msg)
	if e.Snippet != "" {
		text += "\n" + e.Snippet
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// IsPath reports whether a file of that name is YAML.
func IsPath(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".yaml" || ext == ".yml"
}

// ParseFile reads the file at that path.
func ParseFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f, path)
}

// Parse reads a file that is, or would be, at that path: other files named in it
// are looked for in its folder. A job that cannot be read is in File.Errors, and
// the others stand. The error is for a file of which nothing can be used: r's
// own, or *Errors, joined, for one that is no YAML, or where something is wrong
// with what all its jobs depend on.
func Parse(r io.Reader, path string) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > MaxFileBytes {
		return nil, &Error{Path: path, Line: 1, Column: 1, Msg: fmt.Sprintf("the file is larger than %d bytes, and nothing of it is read", MaxFileBytes)}
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	// All that YAML takes for the end of a line.
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	d := &decoder{file: &File{Path: path}, dir: dir, lines: strings.Split(lines, "\n")}
	if err := d.checkText(lines); err != nil {
		return nil, err
	}
	root, err := d.parse([]byte(lines))
	if err != nil {
		return nil, err
	}
	jobs := d.top(root)
	if len(d.file.Errors) > 0 && d.fatal {
		errs := make([]error, len(d.file.Errors))
		for i, e := range d.file.Errors {
			errs[i] = e
		}
		return nil, errors.Join(errs...)
	}
	for _, p := range jobs {
		d.job(p)
	}
	slices.SortStableFunc(d.file.Errors, func(a, b *Error) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return d.file, nil
}

// decoder reads one file.
type decoder struct {
	file     *File
	dir      string // absolute
	lines    []string
	defaults defaults
	fatal    bool // nothing of the file can be used
}

// place is where something is in the file.
type place struct{ line, column int }

// fail notes a mistake.
func (d *decoder) fail(at place, err error, format string, args ...any) {
	e := d.errorAt(at, format, args...)
	e.Err = err
	d.file.Errors = append(d.file.Errors, e)
}

// failSecretly is fail for a line that may have a secret in it.
func (d *decoder) failSecretly(at place, format string, args ...any) {
	d.fail(at, nil, format, args...)
	d.file.Errors[len(d.file.Errors)-1].Snippet = ""
}

func (d *decoder) errorAt(at place, format string, args ...any) *Error {
	return &Error{Path: d.file.Path, Line: at.line, Column: at.column,
		Msg: fmt.Sprintf(format, args...), Snippet: d.snippet(at)}
}

// detailed is of how many mistakes more is said than what they are: to say it
// of all could take minutes.
const detailed = 100

// snippetWidth is how much of a line is shown.
const snippetWidth = 100

// secretive is what a line with a secret in it may look like.
var secretive = regexp.MustCompile(`(?i)://[^/\s]*@|\b(bearer|basic)\s+\S{8}`)

// snippet shows the line of a place, with a mark below it.
func (d *decoder) snippet(at place) string {
	if len(d.file.Errors) >= detailed || at.line < 1 || at.line > len(d.lines) || secretive.MatchString(d.lines[at.line-1]) {
		return ""
	}
	line := []rune(d.lines[at.line-1])
	column := min(max(at.column, 1), len(line)+1)
	first := 0
	if column > snippetWidth {
		first = column - snippetWidth/2
	}
	shown := line[first:min(len(line), first+snippetWidth)]
	for i, r := range shown {
		if !unicode.IsPrint(r) {
			shown[i] = '�'
			if r == '\t' {
				shown[i] = '→'
			}
		}
	}
	margin := fmt.Sprintf(" %4d | ", at.line)
	return margin + string(shown) + "\n" + strings.Repeat(" ", len(margin)-2) + "| " + strings.Repeat(" ", column-1-first) + "^"
}

// checkText refuses what no one can have meant as YAML, and what would take a
// parser too long.
func (d *decoder) checkText(text string) error {
	at := func(offset int) place {
		before := text[:offset]
		start := strings.LastIndexByte(before, '\n') + 1
		return place{strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1}
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return d.errorAt(at(i), "a NUL byte: this is no text file, and nothing of it is read")
	}
	if !utf8.ValidString(text) {
		i := strings.IndexRune(text, utf8.RuneError)
		return d.errorAt(at(max(i, 0)), "this is not UTF-8, and nothing of it is read")
	}
	const deepest, marksOfALine = 200, 2000
	open := 0
	for i, c := range text {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open > deepest {
			return d.errorAt(at(i), "this is nested too deeply for a configuration, and nothing of the file is read")
		}
	}
	for n, line := range d.lines {
		marks := 0
		for word := range strings.FieldsSeq(line) {
			if strings.ContainsRune("-?:&*!", rune(word[0])) || strings.HasSuffix(word, ":") {
				marks++
			}
		}
		if marks > marksOfALine {
			return d.errorAt(place{n + 1, 1}, "there is too much on one line for a configuration, and nothing of the file is read")
		}
	}
	return nil
}
