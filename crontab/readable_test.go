package crontab_test

import (
	"strings"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/crontab"
)

// A command with marks for the order of letters, as Hebrew texts have them,
// names a job without them.
func TestParse_NamesCanBeShown(t *testing.T) {
	f, err := crontab.Parse(strings.NewReader("0 3 * * * echo '\u200fשלום\u202e'\n0 4 * * * echo a\u2028b\n"), crontab.Options{})
	if err != nil || len(f.Errors) > 0 || len(f.Jobs) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	for i, want := range []string{"echo ' שלום '~", "echo a b~"} {
		if name := f.Jobs[i].Name; cronce.CheckName(name) != nil || !strings.HasPrefix(name, want) {
			t.Errorf("%q", name)
		}
	}
}
