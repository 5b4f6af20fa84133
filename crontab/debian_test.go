package crontab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronce/cronce/crontab"
)

// debian is what the crontab command of Debian's cron 3.0pl1-162 says of
// crontabs of one line (crontab -n), and what we say. Where we differ, why
// says on purpose of what.
var debian = []struct {
	text         string
	debian, ours bool
	why          string
}{
	{"* * * * * x\n", true, true, ""},
	{"  \t* \t*\t* * * \t x\n", true, true, ""},
	{"# comment\n", true, true, ""},
	{"   # comment\n", true, true, ""},
	{"\n  \n\t\n", true, true, ""},
	{"", true, true, ""},
	{"* * * * * x # y\n", true, true, ""},
	{"* * * * * x%y%z\n", true, true, ""},
	{"* * * * * =x\n", true, true, ""},
	{"* * * * * x=y\n", true, true, ""},
	{"0 0 * * * * x\n", false, false, ""},
	{"* * * * *\n", true, false, "an empty command does nothing"},
	{"* * * * * \n", true, false, "an empty command does nothing"},
	{"* * * * * %in\n", true, false, "an empty command does nothing"},
	{"* * * *\n", false, false, ""},
	{"* * * * x\n", false, false, ""},
	{"x\n", false, false, ""},
	{"60 * * * * x\n", false, false, ""},
	{"* * * * * x", false, true, "a line without a newline at its end is whole to every editor"},
	{"A=b", false, true, "a line without a newline at its end is whole to every editor"},
	{"* * * * * x\r\n", true, true, ""},

	{"@hourly x\n", true, true, ""},
	{"@daily\tx\n", true, true, ""},
	{"@midnight x\n", true, true, ""},
	{"@weekly x\n", true, true, ""},
	{"@monthly x\n", true, true, ""},
	{"@yearly x\n", true, true, ""},
	{"@annually x\n", true, true, ""},
	{"@reboot x\n", true, true, ""},
	{"@Daily x\n", false, false, ""},
	{"@REBOOT x\n", false, false, ""},
	{"@ daily x\n", false, false, ""},
	{"@daily *x\n", false, false, ""},
	{"@daily\n", true, false, "an empty command does nothing"},
	{"@every 5m x\n", false, true, "our own"},
	{"H * * * * x\n", false, true, "our own"},

	{"5;x * * * * x\n", true, false, "what follows a number must not be passed over unread"},
	{"0 0 * * 1#2 x\n", true, true, ""}, // but to Debian's cron that is each Monday
	{"0 0 15W * * x\n", false, true, "our own"},
	{"0 0 L * * x\n", false, true, "our own"},
	{"0 0 31 2 * x\n", true, false, "it never runs"},
	{"0 0 * * mon-fri x\n", true, true, ""},
	{"1/5 * * * * x\n", false, false, ""},

	{"A=b\n", true, true, ""},
	{"A = b\n", true, true, ""},
	{"  A\t=\tb\n", true, true, ""},
	{"A=\n", false, false, ""},
	{"A=  \n", false, false, ""},
	{"A=\"\"\n", true, true, ""},
	{"A=''\n", true, true, ""},
	{"A='b\"c'\n", true, true, ""},
	{"A=\"b\n", false, false, ""},
	{"A=\"b\" c\n", false, false, ""},
	{"A=\"b\"  \n", true, true, ""},
	{"A=b\"c\n", true, true, ""},
	{"\"A B\"=c\n", true, true, ""},
	{"'A'  =  c\n", true, true, ""},
	{"\"A\"b=c\n", false, false, ""},
	{"\"A=B\"=c\n", false, false, ""},
	{"\"A=c\n", false, false, ""},
	{"A B=c\n", false, false, ""},
	{"A\vB=c\n", false, false, ""},
	{"A\v=c\n", true, true, ""},
	{"A'B=c\n", true, true, ""},
	{"30=c\n", true, true, ""},
	{"=c\n", true, false, "a variable without a name is of no use to anyone"},
	{"A\n", false, false, ""},
	{"A=b=c\n", true, true, ""},
	{"CRON_TZ=Mars/Base\n", true, false, "it is only a variable to Debian's cron"},

	{"\ufeff* * * * * x\n", false, true, "an editor's mark is not a part of the first line"},
	{"# cronce: nmae=x\n* * * * * x\n", true, false, "only a comment to Debian's cron"},
	{"* * * * * x\n60 * * * * x\n", false, false, ""},
}

// TestParse_debian defends that a crontab means here what it means to Debian's
// cron, differences aside that are meant. Where that very cron is installed it
// is asked again, so that the table cannot drift from it.
func TestParse_debian(t *testing.T) {
	ask := debianCrontab(t)
	for _, c := range debian {
		f := parse(t, c.text, crontab.Options{})
		if ours := len(f.Errors) == 0; ours != c.ours {
			t.Errorf("%q: accepted: %t, want %t: %v", c.text, ours, c.ours, f.Errors)
		}
		if c.ours != c.debian && c.why == "" {
			t.Errorf("%q differs from Debian's cron without a reason", c.text)
		}
		if ask != nil {
			if got := ask(c.text); got != c.debian {
				t.Errorf("%q: Debian's crontab accepts it: %t, the table says %t", c.text, got, c.debian)
			}
		}
	}
}

// debianCrontab returns a function that asks the installed crontab whether it
// accepts a text, installing nothing; nil if it is not Debian's.
func debianCrontab(t *testing.T) func(text string) bool {
	const accepted = "The syntax of the crontab file was successfully checked."
	file := filepath.Join(t.TempDir(), "crontab")
	ask := func(text string) string {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command("crontab", "-n", file).CombinedOutput() // a refusal is an exit code, too
		return string(out)
	}
	if out := ask("* * * * * x\n"); !strings.Contains(out, accepted) {
		t.Logf("Debian's crontab is not here to be asked: %q", out)
		return nil
	}
	return func(text string) bool { return strings.Contains(ask(text), accepted) }
}

// What the shell and the command get, as Debian's cron 3.0pl1-162 was seen to
// hand it over when it ran these lines.
func TestParse_percent(t *testing.T) {
	for _, c := range []struct{ written, command, stdin string }{
		{`x`, `x`, ""},
		{`x trailing  `, `x trailing  `, ""},
		{`a\\b a\\\\b c\d \%x`, `a\b a\\b c\d %x`, ""},
		{`two \\%in1%in\%2%\\%x\y\`, `two \`, "in1\nin%2\n\\%x\\y\\\n"},
		{`x\`, `x\`, ""},
		{`three%`, `three`, ""},
		{`four%%`, `four`, "\n"},
		{`five%a%\`, `five`, "a\n\\"},
		{`six	 x`, "six\t x", ""},
	} {
		f := parse(t, "* * * * * "+c.written+"\n", crontab.Options{})
		if len(f.Lines) != 1 {
			t.Errorf("%s: %v", c.written, f.Errors)
			continue
		}
		if l := f.Lines[0]; l.Command != c.command || l.Stdin != c.stdin {
			t.Errorf("%s: command %q, stdin %q; want %q, %q", c.written, l.Command, l.Stdin, c.command, c.stdin)
		}
	}
}
