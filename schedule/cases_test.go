package schedule

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the tests must not depend on the host's zone data
)

// TestCases runs the worked examples of the clock-change rules, forwards and
// backwards.
func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/schedule-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); n++ {
		var c struct {
			Expr, Zone, What string
			After, Until     time.Time
			Want             []time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		t.Run(fmt.Sprintf("%s %s %s", c.Zone, c.What, c.Expr), func(t *testing.T) {
			s := mustParse(t, c.Expr, Options{Zone: mustZone(t, c.Zone)})
			var got []time.Time
			for u := s.Next(c.After); !u.After(c.Until); u = s.Next(u) {
				got = append(got, u.UTC())
			}
			if !slices.EqualFunc(got, c.Want, time.Time.Equal) {
				t.Errorf("forwards: got %v, want %v", got, c.Want)
			}
			got = nil
			for u := s.Prev(c.Until.Add(time.Second)); u.After(c.After); u = s.Prev(u) {
				got = append(got, u.UTC())
			}
			slices.Reverse(got)
			if !slices.EqualFunc(got, c.Want, time.Time.Equal) {
				t.Errorf("backwards: got %v, want %v", got, c.Want)
			}
		})
	}
	if n != 136 {
		t.Errorf("read %d cases, want 136", n)
	}
}

func mustParse(t testing.TB, expr string, o Options) *Schedule {
	t.Helper()
	s, err := Parse(expr, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}
