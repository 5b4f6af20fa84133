package crontab

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cronce/cronce"
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
	at, err := p.command(l, line, skip(line, end, blanks))
	if !l.Named {
		l.Job.Name = nameOf(l)
	}
	switch {
	case !p.schedule(l, line, start, end, d): // says more than what may be wrong with the command
	case err != nil:
		p.errorf(at, nil, "%v", err)
	case !p.agree(l, d):
	case !d.failed() && !p.unknown(l, d):
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
// An error is at the place it returns.
func (p *parser) command(l *Line, line string, at int) (int, error) {
	const tooMany = "the line has too many time fields; where seconds come first, \"# cronce: seconds=yes\" above it says so"
	if p.file.Form == SystemForm {
		end := wordEnd(line, at)
		l.User = line[at:end]
		switch {
		case l.User == "":
			return at, errors.New("the user and the command are missing")
		case l.User[0] == '*':
			return at, fmt.Errorf("%q is no user: %s", l.User, tooMany)
		}
		at = min(end+1, len(line)) // one blank; any others belong to the command, as cron has it
	}
	first := skip(line, at, blanks)
	l.Column = first + 1
	l.Command, l.input = splitInput(line[at:])
	l.Stdin = unescapeInput(l.input)
	switch {
	case line[first:] != "" && line[first] == '*' && l.User == "":
		return first, errors.New("a command cannot begin with *: " + tooMany)
	case strings.TrimSpace(l.Command) != "":
		return first, nil
	case strings.TrimSpace(line[first:]) != "":
		return first, errors.New("the command is missing in front of %")
	case l.User != "":
		return first, fmt.Errorf("the command is missing after the user %s", l.User)
	}
	return first, errors.New("the command is missing")
}

// schedule reads the schedule at line[start:end] into the line's job.
func (p *parser) schedule(l *Line, line string, start, end int, d *directives) bool {
	if i := strings.IndexByte(line[start:end], '|'); i >= 0 {
		p.errorf(start+i, nil, "a line has one schedule: another one is another line with the same command")
		return false
	}
	if l.Job.Zone == "" {
		l.Job.Zone = p.zone
		if tz, _ := l.Getenv("CRON_TZ"); tz != "" && !p.broken["CRON_TZ"] {
			l.Job.Zone = tz
		}
	}
	o := schedule.Options{Name: l.Job.Name, Seconds: schedule.Never, Zone: time.UTC}
	if l.Job.Seconds == schedule.Always {
		o.Seconds = schedule.Always
	}
	if zone, err := p.zones.load(l.Job.Zone); err == nil { // else it is an error already
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

// agree reports whether the settings go with each other.
func (p *parser) agree(l *Line, d *directives) bool {
	err := l.Job.Check()
	var s *cronce.SettingError
	if d.failed() || !errors.As(err, &s) {
		return true
	}
	at := d.set[s.Key]
	p.errorAt(at.line, at.column, err, "%v", err)
	return false
}

// checkReboot refuses settings that are about ticks: @reboot has none.
func (p *parser) checkReboot(d *directives) bool {
	ok := true
	for _, key := range []string{"zone", "seconds", "start-deadline", "on-lost"} {
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
	last := byte('\n') // but for backslashes, which cron does not count here
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
		if c != '\\' {
			last = c
		}
	}
	if last != '\n' {
		b.WriteByte('\n')
	}
	return b.String()
}
