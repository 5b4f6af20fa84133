package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// errNoAssignment says that a line assigns nothing, so that it is a job line.
var errNoAssignment = errors.New("no assignment")

// space is what C's isspace takes for white space, newline aside.
const space = " \t\v\f\r"

// readVariable reads NAME = VALUE in the line from start, where its first
// character that is not blank is. A line is an assignment when "=" follows its
// first word, which may be quoted. Any other error than errNoAssignment tells
// what is wrong with the assignment, at the Variable's Column.
//
// The rules are those of load_env in Debian's env.c, including two that its
// manual does not have: white space at the end of a value is dropped even
// inside quotes, and quotes that then still enclose the value go as well, once.
func readVariable(line string, start int) (Variable, error) {
	var v Variable
	at := start // how far the line has been read
	if quote := line[at]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(line[at+1:], quote)
		if end < 0 {
			return v, errNoAssignment
		}
		v.Name = line[at+1 : at+1+end]
		at += end + 2
		if strings.Contains(v.Name, "=") {
			return v, errNoAssignment
		}
	} else {
		end := strings.IndexAny(line[at:], "="+space)
		if end < 0 {
			return v, errNoAssignment
		}
		v.Name = line[at : at+end]
		at += end
	}
	at = skip(line, at, space)
	if at == len(line) || line[at] != '=' {
		return v, errNoAssignment
	}
	v.Column = at + 1
	if v.Name == "" {
		return v, errors.New("the name in front of = is missing")
	}
	at = skip(line, at+1, space)
	v.Column = at + 1
	if at == len(line) {
		return v, fmt.Errorf(`%s has no value: %[1]s="" makes it empty`, v.Name)
	}
	if quote := line[at]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(line[at+1:], quote)
		if end < 0 {
			return v, fmt.Errorf("the value of %s has no closing %c", v.Name, quote)
		}
		v.Value = line[at+1 : at+1+end]
		if after := skip(line, at+end+2, space); after < len(line) {
			v.Column = after + 1
			return v, fmt.Errorf("text after the closing %c of %s", quote, v.Name)
		}
	} else {
		v.Value = line[at:]
	}
	v.Value = strings.TrimRight(v.Value, space)
	if n := len(v.Value); n >= 2 && (v.Value[0] == '"' || v.Value[0] == '\'') && v.Value[n-1] == v.Value[0] {
		v.Value = v.Value[1 : n-1]
	}
	return v, nil
}

// skip returns the first place from at on that has none of those characters.
func skip(s string, at int, chars string) int {
	return len(s) - len(strings.TrimLeft(s[at:], chars))
}

// setenv returns env with the variable: in its place, if env has it already.
func setenv(env []string, v Variable) []string {
	name := v.Name + "="
	kv := name + v.Value
	for i, old := range env {
		if strings.HasPrefix(old, name) {
			env = slices.Clone(env)
			env[i] = kv
			return env
		}
	}
	return append(slices.Clip(env), kv)
}
