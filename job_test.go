package cronce_test

import (
	"strings"
	"testing"

	"github.com/cronce/cronce"
)

// A name can be shown as it is, wherever it comes from.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "nightly mail", "日本 ünd", "שלום", strings.Repeat("x", cronce.MaxNameBytes)} {
		if err := cronce.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", " a", "a\n", "a\tb", "a\x1b[2J", "a\u009b31m", "a\u2028b", "a\u2029b", "\u202egpj.exe", "a\u2066b", "a\u200fb", "a\xff", strings.Repeat("x", cronce.MaxNameBytes+1)} {
		if err := cronce.CheckName(name); err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x9b || r >= 0x2000 && r < 0x2070 }) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// An error shows a value that cannot be printed in quotes.
func TestSettingError_IsReadable(t *testing.T) {
	var j cronce.Job
	for value, want := range map[string]string{
		"\x1b]0;PWN\a": `timeout="\x1b]0;PWN\a": `, "\u009b": `timeout="\u009b": `, "\u202e5m": `timeout="\u202e5m": `, "soon": "timeout=soon: ",
	} {
		if err := j.Set("timeout", value); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
