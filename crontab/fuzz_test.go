package crontab_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/crontab"
)

// FuzzParse defends that no text makes Parse panic, that errors are where the
// text is, that each line found can be run, and that a job line which cannot be
// read takes nothing else with it.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b), strings.Contains(path, "system"))
	}
	for _, c := range debian {
		f.Add(c.text, false)
	}
	f.Fuzz(func(t *testing.T, text string, system bool) {
		o := crontab.Options{Form: crontab.UserForm, Zone: "UTC"}
		if system {
			o.Form = crontab.SystemForm
		}
		file, err := crontab.Parse(strings.NewReader(text), o)
		if err != nil {
			bad, ok := err.(*crontab.Error)
			if !ok {
				t.Fatalf("%T: %v", err, err)
			}
			checkPlace(t, text, bad)
			return
		}
		for _, e := range file.Errors {
			checkPlace(t, text, e)
		}
		checkLines(t, file)

		again := parse(t, text, o)
		if !reflect.DeepEqual(file, again) {
			t.Error("the same text says something else the second time")
		}
		if text == "" || strings.HasSuffix(text, "\n") {
			sameJobs(t, file, parse(t, text+"99 * * * * bad\n", o), 0)
		}
		sameJobs(t, file, parse(t, "99 * * * * bad\n"+strings.TrimPrefix(text, "\ufeff"), o), 1)
	})
}

func checkPlace(t *testing.T, text string, e *crontab.Error) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len(lines[e.Line-1])+1 {
		t.Errorf("error outside of the text: %v", e)
	}
	if e.Msg == "" || strings.Contains(e.Error(), "\n") {
		t.Errorf("an error's message is one line: %q", e.Error())
	}
}

func checkLines(t *testing.T, file *crontab.File) {
	last := 0
	for _, l := range file.Lines {
		if l.Number <= last {
			t.Errorf("line %d comes after line %d", l.Number, last)
		}
		last = l.Number
		if strings.TrimSpace(l.Command) == "" || strings.Contains(l.Command, "\n") {
			t.Errorf("line %d: command %q", l.Number, l.Command)
		}
		if (file.Form == crontab.SystemForm) != (l.User != "") {
			t.Errorf("line %d: user %q", l.Number, l.User)
		}
		checkJob(t, l.Job, l.Reboot)
	}
	names := map[string]bool{}
	for _, j := range file.Jobs {
		if names[j.Name] {
			t.Errorf("two jobs are named %q", j.Name)
		}
		names[j.Name] = true
		checkJob(t, j.Job, j.Schedule == "")
		for _, l := range j.Lines {
			if l.Job.Name != j.Name {
				t.Errorf("job %q has a line named %q", j.Name, l.Job.Name)
			}
		}
	}
}

func checkJob(t *testing.T, j cronce.Job, reboot bool) {
	t.Helper()
	if reboot {
		if err := cronce.CheckName(j.Name); err != nil || j.Schedule != "" {
			t.Errorf("@reboot job %q with schedule %q: %v", j.Name, j.Schedule, err)
		}
		return
	}
	s, err := j.Parse()
	if err != nil {
		t.Errorf("job %q: %v", j.Name, err)
	} else if s.String() != j.Schedule {
		t.Errorf("job %q has schedule %q, which reads as %q", j.Name, j.Schedule, s)
	}
}

// sameJobs checks that b, which has some more lines above, says of jobs what a says.
func sameJobs(t *testing.T, a, b *crontab.File, above int) {
	t.Helper()
	if len(a.Lines) != len(b.Lines) || len(a.Jobs) != len(b.Jobs) {
		t.Errorf("a bad line makes %d lines and %d jobs of %d and %d",
			len(b.Lines), len(b.Jobs), len(a.Lines), len(a.Jobs))
		return
	}
	for i, l := range a.Lines {
		other := *b.Lines[i]
		other.Number -= above
		if !reflect.DeepEqual(*l, other) {
			t.Errorf("a bad line makes\n%+v of\n%+v", other, *l)
		}
	}
	for i, j := range a.Jobs {
		if b.Jobs[i].Job != j.Job {
			t.Errorf("a bad line makes %+v of %+v", b.Jobs[i].Job, j.Job)
		}
	}
}

// FuzzQuote defends that what Quote writes is read as it was.
func FuzzQuote(f *testing.F) {
	for _, name := range []string{"x", "a b", `"`, `\`, `a\"b`, `\\ "`, "'a", "it's", "ä", "a=b", "#"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if cronce.CheckName(name) != nil {
			return
		}
		file := parse(t, "# cronce: overlap=skip name="+crontab.Quote(name)+" grace=1s\n* * * * * x\n", crontab.Options{})
		if len(file.Errors) > 0 || file.Lines[0].Job.Name != name {
			t.Errorf("%q is written %s: %v", name, crontab.Quote(name), file.Errors)
		}
	})
}
