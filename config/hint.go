package config

import (
	"regexp"
	"strings"
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
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(s))
	}
	best, nearest := "", 3
	for _, k := range known {
		if elsewhere[plain(key)] == k {
			return k
		}
		if n := distance(plain(key), plain(k)); n < nearest && n < len(plain(k))/2+1 {
			best, nearest = k, n
		}
	}
	return best
}

// distance is how many letters must be changed, put in or taken out.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left, row[j+1] = row[j+1], min(left+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
