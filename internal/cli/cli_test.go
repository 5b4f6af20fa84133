package cli_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// A command that people are told to type finds the store that is spoken of.
func TestStoreOption(t *testing.T) {
	t.Setenv("CRONCE_STORE", "/srv/cronce") // which others need not have
	place, err := localstore.DefaultPlace()
	if err != nil {
		place = "" // a user without a home has none
	}
	for dir, want := range map[string]string{
		"": "", place: "", "/srv/cronce": " --store /srv/cronce", "/srv/it's here": ` --store '/srv/it'\''s here'`,
	} {
		if got := cli.StoreOption(dir); got != want {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}

// Nothing that a job or a crontab says can steer a terminal.
func TestReadable(t *testing.T) {
	for text, want := range map[string]string{
		"plain ünd 日本\tx\n": "plain ünd 日本\tx\n", "": "",
		"\x1b]0;PWN\a\r": `\x1b]0;PWN\x07\x0d`, "\x7f": `\x7f`,
		"\u009b31m\u0085":             `\u009b31m\u0085`,
		"a\u2028b\u2029c":             `a\u2028b\u2029c`,
		"\u202egpj\u2066\u200f\u061c": `\u202egpj\u2066\u200f\u061c`,
		"caf\xe9 \x9b31m \xff":        "caf\xe9 \\x9b31m \xff",
		"\ufffd\u200d":                "\ufffd\u200d",
	} {
		if got := string(cli.Readable([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	var out strings.Builder
	code := cli.Fail(&out, errors.New("zone=\x1b[2J\u009b\nsecond"))
	cli.Tell(&out, errors.New("name=\x1b[2J"))
	if want := "cronce: zone=\\x1b[2J\\u009b\ncronce: second\ncronce: name=\\x1b[2J\n"; code != cli.Failure || out.String() != want {
		t.Errorf("%q", out.String())
	}
}

// A flag that is written wrong is named with the one that was meant, and -n5 is -n 5.
func TestFlags_Unknown(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--stor", "/x"}, "unknown flag --stor: did you mean --store?"},
		{[]string{"job", "-n", "3", "--storeTimeout=5s"}, "unknown flag --storeTimeout: did you mean --store-timeout?"},
		{[]string{"--nothing-near"}, "unknown flag --nothing-near"},
		{[]string{"-x"}, "unknown flag -x"},
		{[]string{"-nx"}, "unknown flag --nx"},
		{[]string{"-v1"}, "unknown flag --v1"},
		{[]string{"-n5", "job", "--store", "/x", "-n7", "--", "-n9"}, ""},
	} {
		f := cli.NewFlags("runs")
		cli.StoreFlag(f)
		n := f.Int("n", 50, "")
		rest, err := f.Parse(c.args)
		if c.want != "" {
			if err == nil || err.Error() != c.want || cli.Code(err) != cli.Usage {
				t.Errorf("%q: %v, want %s", c.args, err, c.want)
			}
		} else if err != nil || *n != 7 || strings.Join(rest, " ") != "job -n9" {
			t.Errorf("%q: %v, %d, %q", c.args, err, *n, rest)
		}
	}
}
