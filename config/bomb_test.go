package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cronce/cronce/config"
)

// bomb is a file whose lines take the line above in this way.
func bomb(levels int, line string) string {
	var b strings.Builder
	b.WriteString("x-0: &a0 {timeout: 5m}\n")
	for n := 1; n <= levels; n++ {
		above := fmt.Sprintf("*a%d", n-1)
		text := strings.NewReplacer("NINE", strings.Repeat(above+", ", 8)+above, "ONE", above, "N", fmt.Sprint(n)).Replace(line)
		fmt.Fprintf(&b, "x-%d: &a%d %s\n", n, n, text)
	}
	fmt.Fprintf(&b, "jobs: {a: {<<: *a%d, schedule: '@daily', command: 'true'}}\n", levels)
	return b.String()
}

// A file cannot grow beyond measure out of itself, which would hang a serve
// that loads it.
func TestParse_Bombs(t *testing.T) {
	for name, text := range map[string]string{
		"lists":           bomb(30, "[NINE]"),
		"values":          bomb(30, "{b: [NINE]}"),
		"merged and more": bomb(3000, "{kN: v, <<: ONE}"),
	} {
		_, err := config.Parse(strings.NewReader(text), "/etc/jobs.yaml")
		if err == nil || !strings.Contains(err.Error(), "more than 200000 values are taken from anchors") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A list in << has mappings, and no other lists.
	f, err := config.Parse(strings.NewReader("x-a: &a [{timeout: 5s}]\njobs: {a: {<<: [*a], schedule: '@daily', command: x}, b: {<<: *a, schedule: '@daily', command: x}}"), "/etc/jobs.yaml")
	if err != nil || len(f.Errors) != 1 || !strings.Contains(f.Errors[0].Msg, "a list of mappings") || len(f.Jobs) != 1 || f.Jobs[0].Name != "b" {
		t.Errorf("%+v, %v", f, err)
	}
}

// What jobs commonly take from one anchor is no bomb.
func TestParse_ManyJobsOfOneAnchor(t *testing.T) {
	var b strings.Builder
	b.WriteString("x-d: &d {timeout: 5m, retries: 2, grace: 5s}\njobs:\n")
	const jobs = 5000
	for n := range jobs {
		fmt.Fprintf(&b, "  j%d: {<<: *d, schedule: '@daily', command: a}\n", n)
	}
	f, err := config.Parse(strings.NewReader(b.String()), "/etc/jobs.yaml")
	if err != nil || len(f.Errors) > 0 || len(f.Jobs) != jobs || f.Jobs[jobs-1].Retries != 2 {
		t.Errorf("%v", err)
	}
}

// Mistakes are all named, and shown as long as there are not too many to look at.
func TestParse_ManyMistakes(t *testing.T) {
	text := "jobs: {"
	for n := range 3000 {
		text += fmt.Sprintf(`"j%d":1,`, n)
	}
	f, err := config.Parse(strings.NewReader(text+"}\n"), "/etc/jobs.yaml")
	if err != nil || len(f.Errors) != 3000 {
		t.Fatal(err)
	}
	shown := 0
	for _, e := range f.Errors {
		if e.Snippet != "" {
			shown++
		}
	}
	if shown != 100 {
		t.Errorf("%d of them are shown", shown)
	}
}

// A file of Windows' Notepad begins with a byte order mark.
func TestParse_ByteOrderMark(t *testing.T) {
	f, err := config.Parse(strings.NewReader("\ufeffjobs: {a: {schedule: '@daily', command: x, nonsense: y}}\n"), "/etc/jobs.yaml")
	if err != nil || len(f.Errors) != 1 || f.Errors[0].Line != 1 || f.Errors[0].Column != 44 {
		t.Errorf("%+v, %v", f, err)
	}
}
