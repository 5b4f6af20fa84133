package crontab_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/schedule"
)

func parse(t *testing.T, text string, o crontab.Options) *crontab.File {
	t.Helper()
	f, err := crontab.Parse(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Two identical lines are two runs of their tick; a line that only meets them
// there is not a third.
func TestJob_Slots(t *testing.T) {
	f := parse(t, "CRON_TZ=UTC\n0 * * * * X\n0 * * * *  X\n30 * * * * X\n*/15 * * * * X\n", crontab.Options{})
	if len(f.Errors) > 0 || len(f.Jobs) != 1 {
		t.Fatalf("errors %v, %d jobs", f.Errors, len(f.Jobs))
	}
	j := f.Jobs[0]
	if want := "0 * * * * | 30 * * * * | */15 * * * *"; j.Schedule != want {
		t.Errorf("schedule %q, want %q", j.Schedule, want)
	}
	hour := time.Date(2030, 1, 1, 5, 0, 0, 0, time.UTC)
	for minute, want := range map[int]int{0: 2, 15: 1, 30: 1, 31: 0, 60: 2} {
		if got := j.Slots(hour.Add(time.Duration(minute) * time.Minute)); got != want {
			t.Errorf("minute %d: %d slots, want %d", minute, got, want)
		}
	}
	if got := j.Slots(hour.Add(time.Second)); got != 0 {
		t.Errorf("a second after the tick: %d slots, want 0", got)
	}
}

// A file that no one can have meant as a crontab gives one error and no jobs.
func TestParse_noCrontab(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		line, column int
	}{
		{"NUL", "* * * * * x\n\x7fELF\x00\x00\n", 2, 5},
		{"UTF-16", "\xff\xfe*\x00 \x00", 1, 4},
		{"too large", strings.Repeat(strings.Repeat("#", 1023)+"\n", crontab.MaxFileBytes>>10) + "#", crontab.MaxFileBytes>>10 + 1, 1},
		{"too many lines", strings.Repeat("\n", crontab.MaxLines) + "x", crontab.MaxLines + 1, 1},
		{"too many variables", strings.Repeat("A=b\n", crontab.MaxVariables+1), crontab.MaxVariables + 1, 1},
	} {
		f, err := crontab.Parse(strings.NewReader(c.text), crontab.Options{Path: "tab"})
		var bad *crontab.Error
		if !errors.As(err, &bad) || f != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if bad.Line != c.line || bad.Column != c.column || bad.Path != "tab" {
			t.Errorf("%s: %v, want it at %d:%d", c.name, bad, c.line, c.column)
		}
	}
	for name, text := range map[string]string{
		"lines":     strings.Repeat("\n", crontab.MaxLines),
		"variables": strings.Repeat("A=b\n", crontab.MaxVariables),
		"bytes":     strings.Repeat(strings.Repeat("#", 1023)+"\n", crontab.MaxFileBytes>>10),
	} {
		if f := parse(t, text, crontab.Options{}); len(f.Errors) > 0 {
			t.Errorf("as many %s as are allowed: %v", name, f.Errors)
		}
	}
}

// A line of a megabyte is one error; its neighbours stand.
func TestParse_longLine(t *testing.T) {
	long := "* * * * * " + strings.Repeat("x", 1<<20)
	f := parse(t, "1 * * * * a\n"+long+"\n2 * * * * b\n", crontab.Options{})
	if len(f.Lines) != 2 || len(f.Errors) != 1 || f.Errors[0].Line != 2 {
		t.Errorf("%d lines, errors %v", len(f.Lines), f.Errors)
	}
	f = parse(t, long[:crontab.MaxLineBytes], crontab.Options{})
	if len(f.Lines) != 1 || len(f.Errors) != 0 {
		t.Errorf("a line as long as allowed: %d lines, errors %v", len(f.Lines), f.Errors)
	}
}

// What editors and other systems add to a text makes no difference.
func TestParse_editors(t *testing.T) {
	const plain = "A=b\n# cronce: name=n\n0 1 * * * x y\n99 * * * * z\n"
	want := dump(parse(t, plain, crontab.Options{}))
	for name, text := range map[string]string{
		"CRLF":       strings.ReplaceAll(plain, "\n", "\r\n"),
		"BOM":        "\ufeff" + plain,
		"no newline": strings.TrimSuffix(plain, "\n"),
	} {
		if got := dump(parse(t, text, crontab.Options{})); got != want {
			t.Errorf("%s: it says\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Bytes that are no UTF-8 reach the command as they are, and never a name.
func TestParse_names(t *testing.T) {
	long := "/usr/bin/" + strings.Repeat("ä", 200)
	for _, c := range []struct{ written, name string }{
		{"x", "x"},
		{"  x  ", "x"},
		{"x\ty", "x y~50bfd0b417c8"},
		{"x\xffy", "x\ufffdy~ef6a25aa2dec"},
		{"x\u00a0", "x"},
		{long, long[:159] + "~e4987dd4449f"},
		{strings.Repeat("x", cronce.MaxNameBytes), strings.Repeat("x", cronce.MaxNameBytes)},
		{`date +\%s`, "date +%s"},
		{`mail%a \% b%c`, `mail%a \% b%c`},
	} {
		f := parse(t, "* * * * * "+c.written+"\n", crontab.Options{})
		if len(f.Lines) != 1 {
			t.Errorf("%q: %v", c.written, f.Errors)
		} else if got := f.Lines[0].Job.Name; got != c.name {
			t.Errorf("%q is named %q, want %q", c.written, got, c.name)
		}
	}
}

func TestParseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tab")
	if err := os.WriteFile(path, []byte("* * 32 * * x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := crontab.ParseFile(path, crontab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := path + ":1:5: day-of-month field: 32 is not in 1-31"; len(f.Errors) != 1 || f.Errors[0].Error() != want {
		t.Errorf("errors %v, want %s", f.Errors, want)
	}
	var bad *schedule.ParseError
	if !errors.As(f.Errors[0], &bad) || bad.Field != "day-of-month" {
		t.Errorf("the schedule's error is not in %#v", f.Errors[0])
	}
	if _, err := crontab.ParseFile(path+"x", crontab.Options{}); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := crontab.ParseFile(path, crontab.Options{Zone: "Mars/Base"}); err == nil {
		t.Error("an unknown zone in the options is no error")
	}
}

func TestOptions_form(t *testing.T) {
	for path, want := range map[string]crontab.Form{
		"":                               crontab.UserForm,
		"crontab":                        crontab.UserForm,
		"/etc/crontab":                   crontab.SystemForm,
		"/etc//crontab":                  crontab.SystemForm,
		"/etc/cron.d/php":                crontab.SystemForm,
		"/etc/cron.d/sub/php":            crontab.UserForm,
		"/etc/cron.daily/x":              crontab.UserForm,
		"/var/spool/cron/crontabs/alice": crontab.UserForm,
	} {
		if f := parse(t, "", crontab.Options{Path: path}); f.Form != want {
			t.Errorf("%s: form %d, want %d", path, f.Form, want)
		}
		if f := parse(t, "", crontab.Options{Path: path, Form: crontab.SystemForm}); f.Form != crontab.SystemForm {
			t.Errorf("%s: the form that is asked for is not used", path)
		}
	}
}

func TestIsCronDName(t *testing.T) {
	for name, want := range map[string]bool{
		"php": true, "e2scrub_all": true, "A-1": true, "": false, ".placeholder": false,
		"x.dpkg-old": false, "a b": false, "x~": false, "ä": false,
	} {
		if crontab.IsCronDName(name) != want {
			t.Errorf("%q: not %t", name, want)
		}
	}
}

// cron -c has the command alone to find its line by.
func TestFile_Find(t *testing.T) {
	f := parse(t, "0 1 * * * root  a \\% b\r\n0 2 * * * joe a % b\n# cronce: name=n\n0 3 * * * root  a % b\n0 4 * * * root  a %c\n",
		crontab.Options{Form: crontab.SystemForm})
	for _, c := range []struct{ user, command, names string }{
		{"root", " a % b", "root:a % b"},
		{"root", " a % b\r", "root:a % b"},
		{"root", " a ", "n, root:a%c"},
		{"joe", "a ", "joe:a%b"},
		{"joe", "a", ""},
		{"", "a ", ""},
	} {
		var names []string
		for _, j := range f.Find(c.user, c.command) {
			names = append(names, j.Name)
		}
		if got := strings.Join(names, ", "); got != c.names {
			t.Errorf("%s %q: found %q, want %q", c.user, c.command, got, c.names)
		}
	}
}

func TestLine_Shell(t *testing.T) {
	f := parse(t, "* * * * * a\nSHELL=/bin/bash\n* * * * * b\n", crontab.Options{})
	if a, b := f.Lines[0].Shell(), f.Lines[1].Shell(); a != "/bin/sh" || b != "/bin/bash" {
		t.Errorf("shells %s and %s", a, b)
	}
}

func BenchmarkParse(b *testing.B) {
	text := strings.Repeat("# cronce: timeout=5m\n*/5 8-17 * * mon-fri /usr/local/bin/poll --all\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := crontab.Parse(strings.NewReader(text), crontab.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
