package crontab

import (
	"errors"
	"strings"
	"time"

	"github.com/cronce/cronce/schedule"
)

// jobLine reads a job line, with the directives above it if there are any.
func (p *parser) jobLine(line, raw string, start int, d *directives) {
	l := &Line{Number: p.number, Text: raw, Env: p.env}
	if d != nil {
		l.Job = d.job
		l.Named = d.has("name")
	}
	end := p.scheduleEnd(line, start, l.Job.Seconds == schedule.Always)
	if end < 0 {
		return
	}
	if !p.command(l, line, skip(line, end, blanks)) {
		return
	}
	if !l.Named {
		l.Job.Name = nameOf(l)
	}
	if p.schedule(l, line, start, end, d) && !d.failed() && !p.unknown(l, d) {
		p.file.Lines = append(p.file.Lines, l)
	}
}

// scheduleEnd returns where the schedule ends that begins at start, -1 if the
// line is over before.
func (p *parser) scheduleEnd(line string, start int, seconds bool) int {
	fields := 5
	if seconds {
		fields = 6
	}
	if line[start] == '@' {
		fields = 1
		if strings.EqualFold(line[start:wordEnd(line, start)], "@every") {
			fields = 2
		}
	}
	at := start
	for n := range fields {
		if at = skip(line, at, blanks); at == len(line) {
			switch {
			case line[start] == '@':
				p.errorf(at, nil, "a duration is missing after @every")
			case n == 1:
				p.errorf(start, nil, "neither NAME=value nor a job: %d time fields and a command are expected", fields)
			default:
				p.errorf(at, nil, "the line has %d time fields: %d and a command are expected", n, fields)
			}
			return -1
		}
		at = wordEnd(line, at)
	}
	return at
}

// command reads the user, where the file has them, and the command from at on.
func (p *parser) command(l *Line, line string, at int) bool {
	if p.file.Form == SystemForm {
		end := wordEnd(line, at)
		l.User = line[at:end]
		switch {
		case l.User == "":
			p.errorf(at, nil, "the user and the command are missing")
			return false
		case l.User[0] == '*':
			p.errorf(at, nil, "%q is no user: the line has too many time fields; where seconds come first, "+
				"\"# cronce: seconds=yes\" above it says so", l.User)
			return false
		}
		at = min(end+1, len(line)) // one blank; any others belong to the command, as cron has it
	}
	first := skip(line, at, blanks)
	l.Column = first + 1
	switch {
	case first == len(line) && l.User != "":
		p.errorf(first, nil, "the command is missing after the user %s", l.User)
		return false
	case first == len(line):
		p.errorf(first, nil, "the command is missing")
		return false
	case line[first] == '*' && l.User == "":
		p.errorf(first, nil, "a command cannot begin with *: the line has too many time fields; where seconds come first, "+
			"\"# cronce: seconds=yes\" above it says so")
		return false
	}
	l.Command, l.input = splitInput(line[at:])
	l.Stdin = unescapeInput(l.input)
	if strings.TrimSpace(l.Command) == "" {
		p.errorf(first, nil, "the command is missing in front of %%")
		return false
	}
	return true
}

// schedule reads the schedule at line[start:end] into the line's job.
func (p *parser) schedule(l *Line, line string, start, end int, d *directives) bool {
	if l.Job.Zone == "" {
		l.Job.Zone = p.zone
		if tz, _ := l.Getenv("CRON_TZ"); tz != "" && !p.broken["CRON_TZ"] {
			l.Job.Zone = tz
		}
	}
	o := schedule.Options{Name: l.Job.Name, Seconds: schedule.Never}
	if l.Job.Seconds == schedule.Always {
		o.Seconds = schedule.Always
	}
	o.Zone = time.UTC // for a zone that is an error already
	if zone, err := p.zones.load(l.Job.Zone); err == nil {
		o.Zone = zone
	}
	s, err := schedule.Parse(line[start:end], o)
	var bad *schedule.ParseError
	switch {
	case errors.Is(err, schedule.ErrReboot):
		l.Reboot = true
		l.Job.Zone = ""
		return p.checkReboot(d)
	case errors.As(err, &bad):
		p.errorf(start+bad.Offset, err, "%s", describe(bad))
		return false
	case err != nil:
		p.errorf(start, err, "%v", err)
		return false
	}
	l.schedule = s
	l.Job.Schedule = s.String()
	return true
}

// describe is the error without the text and the place, which the crontab's
// own error has.
func describe(e *schedule.ParseError) string {
	s := e.Problem
	if e.Field != "" {
		s = e.Field + " field: " + s
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// checkReboot refuses settings that are about ticks: @reboot has none.
func (p *parser) checkReboot(d *directives) bool {
	ok := true
	for _, key := range []string{"zone", "seconds", "start-deadline"} {
		if d.has(key) {
			at := d.set[key]
			p.errorAt(at.line, at.column, nil, "%s has no meaning for an @reboot line, which has no scheduled times", key)
			ok = false
		}
	}
	return ok
}

// unknown reports whether the line depends on an assignment that could not be
// read. A zone of its own makes up for a bad CRON_TZ.
func (p *parser) unknown(l *Line, d *directives) bool {
	for name := range p.broken {
		if name != "CRON_TZ" || !l.Reboot && !d.has("zone") {
			return true
		}
	}
	return false
}

// wordEnd returns where the word at at ends: at a blank or with the line.
func wordEnd(line string, at int) int {
	if n := strings.IndexAny(line[at:], blanks); n >= 0 {
		return at + n
	}
	return len(line)
}

// splitInput cuts the rest of a job line at its first % into what the shell
// gets and what the command reads, the latter still as written. In the command
// \% stands for % and \\ for \, as in Debian's do_command.c.
func splitInput(s string) (command, input string) {
	if !strings.ContainsAny(s, `%\`) {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '%':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
			if s[i] != '%' && s[i] != '\\' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// unescapeInput is what the command reads: % is a newline, \% is %, and a
// newline ends it.
func unescapeInput(s string) string {
	if s == "" {
		return ""
	}
	var b strings.Builder
	last := byte('\n')
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%':
			c = '\n'
		case c == '\\' && i+1 < len(s) && s[i+1] == '%':
			i++
			c = '%'
		}
		b.WriteByte(c)
		last = c
	}
	if last != '\n' {
		b.WriteByte('\n')
	}
	return b.String()
}
