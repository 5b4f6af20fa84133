package cmd_test

import (
	"regexp"
	"strings"
	"testing"
)

// masks take out of a line what is another each time: on both sides, so that a
// page can show anything there.
var masks = []struct {
	what *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-([0-9a-f]{4}-){0,3}([0-9a-f]{12}\b|…)`), "RUN"},
	{regexp.MustCompile(`\S+ \(uid \d+\)@[^\s,;)]+`), "WHO"},
	{regexp.MustCompile(`\bpid \d+ on [^\s,;)]+`), "pid N on HOST"},
	{regexp.MustCompile(`\b((\d+h)?\d+m)?\d+(\.\d+)?(h|m|s|ms|µs)\b`), "D"},
	{regexp.MustCompile(`\bcronce (\(devel\)|v\d\S*|dev\b\S*|[0-9a-f]{7,}\S*)`), "cronce VERSION"},
	{regexp.MustCompile(`\b\d{3,}\b`), "N"},
	{regexp.MustCompile(`\s+`), " "},
}

func masked(line string) string {
	for _, m := range masks {
		line = m.what.ReplaceAllString(line, m.mask)
	}
	return strings.TrimSpace(line)
}

// matches compares what a page shows with what was printed. In what is shown, …
// stands for any text, and alone on a line for any lines.
func matches(shown, got []string) bool {
	switch {
	case len(shown) == 0:
		return len(got) == 0
	case shown[0] == "…":
		return matches(shown[1:], got) || len(got) > 0 && matches(shown, got[1:])
	case len(got) == 0:
		return false
	}
	parts := strings.Split(masked(shown[0]), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	line := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	return line.MatchString(masked(got[0])) && matches(shown[1:], got[1:])
}

// The comparison takes what is another each time, and nothing else.
func TestDocs_Matches(t *testing.T) {
	for _, c := range []struct {
		shown, got string
		same       bool
	}{
		{"a  b", "a b", true},
		{"2026-11-30T14:00:01Z  report  skipped", "2027-01-02T03:04:05Z  report  skipped", true},
		{"2026-11-30T14:00:01Z  report  skipped", "2027-01-02T03:04:05Z  report  started", false},
		{"run 019ad571-…, pid 7 on web1", "run 019ad53c-7f5e-7c61-9d0e-2a6b8e0f4c11, pid 4251 on b.example", true},
		{"after 3.004s", "after 1h2m3s", true},
		{"after 3.004s", "after x", false},
		{"one\n…\nfour", "one\ntwo\nthree\nfour", true},
		{"one\n…\nfour", "one\ntwo\nthree", false},
		{"one", "one\ntwo", false},
		{"one … three", "one two three", true},
		{"app (uid 998)@web1 via sudo by ann", "root (uid 0)@c1 via sudo by ann", true},
		{"exit 64", "exit 78", false},
	} {
		if matches(strings.Split(c.shown, "\n"), strings.Split(c.got, "\n")) != c.same {
			t.Errorf("%q and %q: the same is not %v", c.shown, c.got, c.same)
		}
	}
}
