package schedule

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLikeDebian compares with what the parser of Debian's cron 3.0pl1-162
// made of some expressions: the values that each field matched, and whether a
// star in front was seen. testdata/debian-fields.jsonl was written by that
// parser, called from a small program.
//
// What it refuses, we refuse. What it takes, we take in the same sense, or
// refuse because it cannot have been meant: a range that runs backwards
// (empty), something behind an item (dropped), a day that no calendar has.
func TestLikeDebian(t *testing.T) {
	data, err := os.ReadFile("testdata/debian-fields.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); n++ {
		var want struct {
			Expr, Minute, Hour, Month string
			DayOfMonth                string `json:"day-of-month"`
			DayOfWeek                 string `json:"day-of-week"`
			Wild, Both, Error         bool
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		s, err := Parse(want.Expr, Options{})
		var bad *ParseError
		switch {
		case err == nil && want.Error:
			t.Errorf("%q: Debian's cron refuses it, we do not", want.Expr)
		case want.Error:
		case errors.As(err, &bad):
			if !strings.HasSuffix(bad.Problem, "runs backwards") && !strings.HasSuffix(bad.Problem, "cannot stand here") && bad.Err != ErrNever {
				t.Errorf("%q: Debian's cron takes it, but %v", want.Expr, err)
			}
		default:
			p := s.parts[0]
			got := []string{
				ranges(p.minute), ranges(uint64(p.hour)), ranges(uint64(p.dom)), ranges(uint64(p.month)), ranges(uint64(p.dow)),
				fmt.Sprint(p.wild, p.both),
			}
			wanted := []string{want.Minute, want.Hour, want.DayOfMonth, want.Month, want.DayOfWeek, fmt.Sprint(want.Wild, want.Both)}
			if fmt.Sprint(got) != fmt.Sprint(wanted) {
				t.Errorf("%q:\ngot  %q\nwant %q", want.Expr, got, wanted)
			}
		}
	}
	if n != 227 {
		t.Errorf("read %d expressions, want 227", n)
	}
}

// ranges writes the bits of a set as in 1-3,7.
func ranges(set uint64) string {
	var out []string
	for v := 0; v < 64; v++ {
		first := v
		for v < 63 && set>>v&1 != 0 && set>>(v+1)&1 != 0 {
			v++
		}
		switch {
		case set>>v&1 == 0:
		case first == v:
			out = append(out, fmt.Sprint(v))
		default:
			out = append(out, fmt.Sprintf("%d-%d", first, v))
		}
	}
	return strings.Join(out, ",")
}
