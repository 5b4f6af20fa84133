package crontab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// blanks are what stands between the parts of a job line. Other white space is
// part of a field or of the command.
const blanks = " \t"

// parser reads one file, line by line.
type parser struct {
	file  *File
	zone  string // of lines to which nothing gives one
	zones zones

	number  int             // of the line being read
	env     []string        // in effect; never changed in place, lines share it
	broken  map[string]bool // variables whose last assignment could not be read
	pending *directives     // from the comments right above, nil if there are none
}

// errorf records what is wrong at a column (from 0) of the line being read.
func (p *parser) errorf(column int, err error, format string, args ...any) {
	p.errorAt(p.number, column, err, format, args...)
}

func (p *parser) errorAt(line, column int, err error, format string, args ...any) {
	p.file.Errors = append(p.file.Errors, &Error{Path: p.file.Path, Line: line, Column: column + 1,
		Msg: fmt.Sprintf(format, args...), Err: err})
}

// read reads the whole text. The error is an *Error that condemns the file.
func (p *parser) read(text string) error {
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		p.number++
		p.readLine(line)
		if n := len(p.file.Variables); n > MaxVariables {
			return &Error{Path: p.file.Path, Line: p.number, Column: 1,
				Msg: fmt.Sprintf("the file has more than %d assignments, and nothing of it is read", MaxVariables)}
		}
	}
	p.dropDirectives("the end of the file")
	p.join()
	slices.SortStableFunc(p.file.Errors, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return nil
}

func (p *parser) readLine(raw string) {
	line := strings.TrimSuffix(raw, "\r")
	start := len(line) - len(strings.TrimLeft(line, blanks))
	switch {
	case len(line) > MaxLineBytes:
		p.dropDirectives("a line that is too long")
		p.errorf(MaxLineBytes, nil, "the line has %d bytes: at most %d are read", len(line), MaxLineBytes)
	case start == len(line):
		p.dropDirectives("an empty line")
	case line[start] == '#':
		if at := directiveAt(line, start); at > 0 {
			p.directive(line, at)
		} else {
			p.dropDirectives("another comment")
		}
	default:
		v, err := readVariable(line, start)
		if err == errNoAssignment {
			d := p.pending
			p.pending = nil
			p.jobLine(line, raw, start, d)
			return
		}
		p.dropDirectives("an assignment")
		p.assign(v, err)
	}
}

// assign puts a variable, or the failure to read it, into effect.
func (p *parser) assign(v Variable, err error) {
	v.Line = p.number
	if err != nil && v.Name == "" { // nothing can depend on it
		p.errorf(v.Column-1, nil, "%v", err)
		return
	}
	if err != nil {
		p.broken[v.Name] = true
		p.errorf(v.Column-1, nil, "%v; the jobs below are left out, because their environment is not known", err)
		return
	}
	delete(p.broken, v.Name)
	if v.Name == "CRON_TZ" {
		if _, err := p.zones.load(v.Value); err != nil {
			p.broken[v.Name] = true
			p.errorf(v.Column-1, nil, "CRON_TZ: %v; the jobs below are left out, unless they have a zone of their own", err)
		}
	}
	p.file.Variables = append(p.file.Variables, v)
	p.env = setenv(p.env, v)
}

// zones are the time zones loaded so far: most lines of a file share one.
type zones map[string]*time.Location

func (z zones) load(name string) (*time.Location, error) {
	if zone := z[name]; zone != nil {
		return zone, nil
	}
	zone, err := cronce.LoadZone(name)
	if err == nil {
		z[name] = zone
	}
	return zone, err
}
