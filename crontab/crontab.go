// Package crontab reads crontab files as Vixie cron does, in the version of
// Debian's cron 3.0pl1, and turns their lines into jobs. Comments of the form
//
//	# cronce: name=backup overlap=skip timeout=50m
//	0 2 * * * /usr/local/bin/backup
//
// set what cron has no word for; cron itself reads them as comments.
//
// The package has no opinions: it says what a file means and what in it
// cannot be read. The format is described in docs/crontab-format.md.
package crontab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/schedule"
)

// The bounds of what is read. Debian's cron stops at 999 bytes of a command,
// 998 of an assignment and 10,000 lines.
const (
	MaxLineBytes = 64 << 10 // a longer line is an error; half of what Linux takes as one argument
	MaxFileBytes = 16 << 20 // a larger file is not read at all
	MaxLines     = 200_000  // nor is one with more lines
	MaxVariables = 1000     // or with more assignments
)

// Form is where a crontab has its users.
type Form int

const (
	// FormByPath is SystemForm for /etc/crontab and the files in /etc/cron.d,
	// and UserForm for every other path.
	FormByPath Form = iota
	// UserForm has the command right after the schedule.
	UserForm
	// SystemForm has a user between the schedule and the command.
	SystemForm
)

// Options says how a file is to be read. The zero value reads a user's crontab.
type Options struct {
	Path string // shown in errors; decides the form if Form does not
	Form Form
	Zone string // of lines to which the file gives none; empty: the host's, see cronce.LocalZone
}

// File is what a crontab says.
type File struct {
	Path string
	Form Form // UserForm or SystemForm

	Variables []Variable // the assignments, in the file's order
	Lines     []*Line    // the job lines that could be read, in the file's order
	// Jobs are what the lines are together: lines with one name are one job.
	// Lines whose names or settings contradict each other are in no job.
	Jobs []*Job
	// Errors are what could not be read, in the file's order. The rest of the
	// file stands.
	Errors []*Error
}

// Variable is an assignment such as MAILTO=root. It holds for the lines below.
type Variable struct {
	Line        int // from 1
	Column      int // of the value, in bytes, from 1
	Name, Value string
}

// Line is a job line.
type Line struct {
	Number  int        // from 1
	Column  int        // where the command begins, in bytes, from 1
	Text    string     // the whole line, as it is in the file
	Job     cronce.Job // as this line and the directives above it have it; Name is never empty
	Named   bool       // a directive gave the name
	User    string     // who the command is run as, in a system crontab; empty in a user's
	Command string     // what the shell gets after -c, byte for byte as cron would hand it over
	Stdin   string     // what the command reads; empty: nothing
	Env     []string   // NAME=value of every assignment above, the later of two with one name. Do not change
	Reboot  bool       // once, when the machine or the daemon starts, instead of by a schedule

	input    string             // Stdin as it is written
	schedule *schedule.Schedule // nil if Reboot
}

// Getenv returns the variable's value at this line.
func (l *Line) Getenv(name string) (value string, ok bool) {
	for _, kv := range l.Env {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// Shell is what runs the command: SHELL, or /bin/sh.
func (l *Line) Shell() string {
	if s, ok := l.Getenv("SHELL"); ok && s != "" {
		return s
	}
	return "/bin/sh"
}

// Error is something in a crontab that cannot be read.
type Error struct {
	Path   string
	Line   int // from 1
	Column int // in bytes, from 1; one past the end of the line for something that is missing there
	Msg    string
	Err    error // the reason, if it has a type: *schedule.ParseError, *cronce.SettingError
}

func (e *Error) Error() string {
	path := e.Path
	if path == "" {
		path = "crontab"
	}
	return fmt.Sprintf("%s:%d:%d: %s", path, e.Line, e.Column, e.Msg)
}

func (e *Error) Unwrap() error { return e.Err }

// ParseFile reads the crontab at that path, which Options.Path need not repeat.
func ParseFile(path string, o Options) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if o.Path == "" {
		o.Path = path
	}
	return Parse(f, o)
}

// Parse reads a crontab. A line that cannot be read is in File.Errors, and the
// other lines stand. The error is for a file that cannot be read at all: r's
// own, or an *Error for one that is too large or no text.
func Parse(r io.Reader, o Options) (*File, error) {
	zone, err := cronce.LoadZone(o.Zone)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read crontab %s: %w", o.Path, err)
	}
	if err := checkText(text, o.Path); err != nil {
		return nil, err
	}
	p := &parser{
		file:   &File{Path: o.Path, Form: o.form()},
		zone:   o.Zone,
		zones:  zones{o.Zone: zone},
		broken: map[string]bool{},
	}
	if err := p.read(strings.TrimPrefix(string(text), "\ufeff")); err != nil {
		return nil, err
	}
	return p.file, nil
}

// IsCronDName reports whether cron reads a file of that name in /etc/cron.d: it
// leaves out names with other characters than letters, digits, _ and -.
func IsCronDName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return name != ""
}

func (o Options) form() Form {
	if o.Form != FormByPath {
		return o.Form
	}
	path := filepath.Clean(o.Path)
	if path == "/etc/crontab" || filepath.Dir(path) == "/etc/cron.d" {
		return SystemForm
	}
	return UserForm
}

// checkText refuses what no one can have meant as a crontab.
func checkText(text []byte, path string) error {
	at := func(offset int, msg string) error {
		before := text[:offset]
		return &Error{Path: path, Line: bytes.Count(before, []byte("\n")) + 1,
			Column: offset - (bytes.LastIndexByte(before, '\n') + 1) + 1, Msg: msg}
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return at(i, "a NUL byte: this is no text file, and nothing of it is read")
	}
	if len(text) > MaxFileBytes {
		return at(MaxFileBytes, fmt.Sprintf("the file is larger than %d bytes, and nothing of it is read", MaxFileBytes))
	}
	if bytes.Count(text, []byte("\n")) >= MaxLines {
		offset := 0
		for range MaxLines {
			offset += bytes.IndexByte(text[offset:], '\n') + 1
		}
		if offset < len(text) {
			return at(offset, fmt.Sprintf("the file has more than %d lines, and nothing of it is read", MaxLines))
		}
	}
	return nil
}
