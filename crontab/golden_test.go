package crontab_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronce/cronce/crontab"
)

var update = flag.Bool("update", false, "write what Parse says now into testdata")

// Each file in testdata is a crontab, a line "-- says --", and what it says.
// Files with "system" in their name have a user column.
func TestParse_golden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			const separator = "-- says --\n"
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text, want, ok := strings.Cut(string(b), separator)
			if !ok {
				t.Fatalf("%s has no line %q", path, separator)
			}
			o := crontab.Options{Form: crontab.UserForm, Zone: "UTC"}
			if strings.Contains(path, "system") {
				o.Form = crontab.SystemForm
			}
			got := dump(parse(t, text, o))
			if *update {
				if err := os.WriteFile(path, []byte(text+separator+got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("it says\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// dump writes everything that a file says.
func dump(f *crontab.File) string {
	var b strings.Builder
	for _, l := range f.Lines {
		fmt.Fprintf(&b, "line %d:%d", l.Number, l.Column)
		if l.Reboot {
			b.WriteString(" @reboot")
		} else {
			fmt.Fprintf(&b, " %q in %s", l.Job.Schedule, l.Job.Zone)
		}
		if p := l.Job.Definition().Policies; p != "" {
			fmt.Fprintf(&b, " with %s", p)
		}
		if l.User != "" {
			fmt.Fprintf(&b, " as %s", l.User)
		}
		fmt.Fprintf(&b, "\n  command %q\n", l.Command)
		if l.Stdin != "" {
			fmt.Fprintf(&b, "  stdin   %q\n", l.Stdin)
		}
		if len(l.Env) > 0 {
			fmt.Fprintf(&b, "  env     %q\n", l.Env)
		}
	}
	for _, j := range f.Jobs {
		fmt.Fprintf(&b, "job %q\n ", j.Name)
		if j.Schedule != "" {
			fmt.Fprintf(&b, " %q in %s,", j.Schedule, j.Zone)
		}
		if j.Reboot() {
			b.WriteString(" at reboot,")
		}
		b.WriteString(" from")
		for _, l := range j.Lines {
			fmt.Fprintf(&b, " %d", l.Number)
		}
		b.WriteByte('\n')
	}
	for _, e := range f.Errors {
		msg, _, _ := strings.Cut(e.Msg, ": the settings are") // which grow in number
		fmt.Fprintf(&b, "error %d:%d %s\n", e.Line, e.Column, msg)
	}
	return b.String()
}
