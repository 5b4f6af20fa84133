package config

import (
	"regexp"

	"github.com/cronce/cronce/internal/keys"
)

// traps are what people write that is no YAML, and what to write instead.
var traps = []struct {
	line *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`^\s*\t`), "lines are indented with blanks, not with tabs"},
	{regexp.MustCompile(`:\s+[*]`), "a schedule that begins with * is quoted: '*/5 * * * *'"},
	{regexp.MustCompile(`:\s+@`), "a schedule that begins with @ is quoted: '@hourly'"},
	{regexp.MustCompile(`:\s+%`), "a value that begins with % is quoted"},
	{regexp.MustCompile("[:-]\\s+`"), "a value that begins with a backquote is quoted"},
	{regexp.MustCompile(`:\s+[^'"|>\s].*:\s`), "a value with a colon and a blank in it is quoted, or stands on the lines below 'key: |'"},
	{regexp.MustCompile(`:\s+(['"]).*['"]\s*[^\s#]`), "a value that begins with a quote ends with it: put the whole of it into quotes, or on the lines below 'key: |'"},
}

// hintFor says what may be meant by a line that is no YAML.
func hintFor(line string) string {
	for _, t := range traps {
		if t.line.MatchString(line) {
			return t.hint
		}
	}
	return ""
}

// elsewhere are the words of other schedulers for what has another one here.
var elsewhere = map[string]string{
	"cron": "schedule", "when": "schedule", "interval": "schedule", "every": "schedule",
	"tz": "zone", "timezone": "zone", "concurrency": "overlap", "concurrencypolicy": "overlap", "nooverlap": "overlap",
	"startingdeadlineseconds": "start-deadline", "activedeadlineseconds": "timeout", "timeoutminutes": "timeout",
	"backofflimit": "retries", "retry": "retries", "run": "command", "cmd": "command", "exec": "command", "script": "command",
	"args": "command", "environment": "env", "webhook": "http", "request": "http",
	"verb": "method", "uri": "url", "data": "body", "json": "body", "payload": "body", "expect": "success", "status": "success",
}

// suggest returns the known key that is most likely meant, "" if none is near.
func suggest(key string, known []string) string {
	for _, k := range known {
		if elsewhere[keys.Plain(key)] == k {
			return k
		}
	}
	return keys.Nearest(key, known)
}
