package crontab

import (
	"errors"
	"strings"

	"github.com/cronce/cronce"
)

// directives are the settings from the comments right above a job line.
type directives struct {
	line, column int // where they begin
	job          cronce.Job
	set          map[string]place // where each key is
	bad          bool             // one of them could not be read
}

// place is a line, from 1, and a column, from 0.
type place struct{ line, column int }

func (d *directives) has(key string) bool {
	if d == nil {
		return false
	}
	_, ok := d.set[key]
	return ok
}

func (d *directives) failed() bool { return d != nil && d.bad }

// directiveAt returns where the settings begin in the comment at start, and 0
// if it is a comment for people.
func directiveAt(line string, start int) int {
	const word = "cronce:"
	at := skip(line, start+1, blanks)
	if len(line)-at >= len(word) && strings.EqualFold(line[at:at+len(word)], word) {
		return at + len(word)
	}
	return 0
}

// dropDirectives ends a run of directives that no job line followed.
func (p *parser) dropDirectives(next string) {
	if d := p.pending; d != nil {
		p.errorAt(d.line, d.column, nil, "these settings belong to no job: a job line must follow, not %s", next)
		p.pending = nil
	}
}

// directive reads the settings of the line from at on.
func (p *parser) directive(line string, at int) {
	d := p.pending
	if d == nil {
		d = &directives{line: p.number, column: skip(line, 0, blanks), set: map[string]place{}}
		p.pending = d
	}
	fail := func(column int, err error, format string, args ...any) {
		d.bad = true
		p.errorf(column, err, format, args...)
	}
	at = skip(line, at, blanks)
	if at == len(line) {
		fail(at, nil, "settings are missing: key=value is expected")
	}
	previous := "" // the last setting's key and value, in case the value goes on
	for ; at < len(line); at = skip(line, at, blanks) {
		end := wordEnd(line, at)
		key, _, ok := strings.Cut(line[at:end], "=")
		if !ok {
			hint := ""
			if previous != "" {
				k, v, _ := strings.Cut(previous, "=")
				hint = "; a value with blanks is quoted: " + k + "=" + Quote(v+" "+key)
			}
			fail(at, nil, "%q is not key=value%s", key, hint)
			at, previous = end, ""
			continue
		}
		start := at + len(key) + 1
		value, end, err := readValue(line, start)
		if err != nil {
			fail(end, nil, "%s: %v", key, err)
			return // where the next key begins is anyone's guess
		}
		if first, again := d.set[key]; again {
			fail(at, nil, "%s is set twice: it is on line %d already", key, first.line)
		} else if err := d.job.Set(key, value); err != nil {
			column := start
			var s *cronce.SettingError
			if errors.As(err, &s) && s.Unknown {
				column = at
			}
			fail(column, err, "%v", err)
		}
		if _, again := d.set[key]; !again {
			d.set[key] = place{p.number, at}
		}
		at, previous = end, key+"="+value
	}
}

// readValue reads a value at start and returns where it ends, or where the
// trouble is.
func readValue(line string, start int) (value string, end int, err error) {
	if start == len(line) || line[start] != '"' {
		end = wordEnd(line, start)
		value = line[start:end]
		if i := strings.IndexByte(value, '"'); i >= 0 {
			return "", start + i, errors.New("a quoted value begins and ends with its quotes")
		}
		if value != "" && value[0] == '\'' {
			return "", start, errors.New(`a value is quoted with ", not with '`)
		}
		return value, end, nil
	}
	var b strings.Builder
	for i := start + 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			if i+1 < len(line) && !strings.Contains(blanks, line[i+1:i+2]) {
				return "", i + 1, errors.New("text after the closing quote")
			}
			return b.String(), i + 1, nil
		case c == '\\' && i+1 < len(line) && (line[i+1] == '"' || line[i+1] == '\\'):
			i++
			b.WriteByte(line[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", start, errors.New("the closing quote is missing")
}

// Quote writes a value as a directive has it: in quotes where it needs them.
// A value with a newline cannot be written.
func Quote(value string) string {
	if value != "" && value[0] != '\'' && !strings.ContainsAny(value, "\""+space) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
