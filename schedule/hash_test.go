package schedule

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// A vector is a line of testdata/hash-vectors.jsonl, for those who write H
// once more in another language: the hash, and what an H in that field comes to.
type vector struct {
	Name   string `json:"name"`
	Field  string `json:"field"`
	Hash   string `json:"hash"`   // hexadecimal
	Item   string `json:"item"`   // as written in the field
	Values []int  `json:"values"` // that it matches; 0 is Sunday
}

// TestHashVectors defends the published values: a job with H must not move to
// another time with a new version.
func TestHashVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/hash-vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); n++ {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		if got := fmt.Sprintf("%016x", spreadHash(v.Name, v.Field)); got != v.Hash {
			t.Errorf("%q, %s: hash %s, want %s", v.Name, v.Field, got, v.Hash)
		}
		if got := hashValues(t, v.Name, v.Field, v.Item); fmt.Sprint(got) != fmt.Sprint(v.Values) {
			t.Errorf("%q, %s %s: %v, want %v", v.Name, v.Field, v.Item, got, v.Values)
		}
	}
	if n != 50 {
		t.Errorf("read %d vectors, want 50", n)
	}
}

// hashValues returns the values that a field matches.
func hashValues(t *testing.T, name, field, item string) []int {
	t.Helper()
	expr := ""
	for _, spec := range fieldSpecs() {
		if spec.name == field {
			expr += " " + item
		} else {
			expr += " *"
		}
	}
	p := mustParse(t, expr, Options{Name: name}).parts[0]
	set := map[string]uint64{
		"second": p.second, "minute": p.minute, "hour": uint64(p.hour),
		"day-of-month": uint64(p.dom), "month": uint64(p.month), "day-of-week": uint64(p.dow),
	}[field]
	var values []int
	for v := range 64 {
		if set>>v&1 != 0 {
			values = append(values, v)
		}
	}
	return values
}

// TestHashSpreads: with many jobs no value of a field is much more or less
// common than another, whatever the names look like, and a job's fields do not
// move together.
func TestHashSpreads(t *testing.T) {
	for _, pattern := range []string{"job-%d", "%d", "backup.host%03d.example.com", "%d-nightly"} {
		const n = 6000
		var minutes [60]int
		together := 0
		for i := range n {
			name := fmt.Sprintf(pattern, i)
			minute := spreadHash(name, "minute") % 60
			minutes[minute]++
			if minute == spreadHash(name, "second")%60 {
				together++
			}
		}
		for m, count := range minutes {
			if count < 60 || count > 150 { // 100 is even; the deviation is 10
				t.Errorf("names like %q: minute %d has %d of %d", pattern, m, count, n)
			}
		}
		if together < 60 || together > 150 {
			t.Errorf("names like %q: minute and second are the same for %d of %d", pattern, together, n)
		}
	}
}

// TestHashRange: H stays in its range, and a step keeps its distance.
func TestHashRange(t *testing.T) {
	for i := range 300 {
		name := fmt.Sprint("job", i)
		for _, c := range []struct {
			field, item    string
			low, high, n   int
			distance, most int
		}{
			{"minute", "H", 0, 59, 1, 0, 0},
			{"hour", "H", 0, 23, 1, 0, 0},
			{"day-of-month", "H", 1, 28, 1, 0, 0},
			{"day-of-month", "H(1-31)", 1, 31, 1, 0, 0},
			{"month", "H", 1, 12, 1, 0, 0},
			{"day-of-week", "H", 0, 6, 1, 0, 0},
			{"day-of-week", "H(MON-FRI)", 1, 5, 1, 0, 0},
			{"minute", "H/15", 0, 59, 4, 15, 14},
			{"minute", "H(0-29)", 0, 29, 1, 0, 0},
			{"minute", "H(0-29)/10", 0, 29, 3, 10, 9},
			{"hour", "H(8-17)/5", 8, 17, 2, 5, 12},
			{"minute", "H(10-12)/30", 10, 12, 1, 0, 0},
			{"minute", "H(0-29),H(30-59)", 0, 59, 2, 30, 29}, // half an hour apart
		} {
			values := hashValues(t, name, c.field, c.item)
			if len(values) != c.n || values[0] < c.low || values[len(values)-1] > c.high {
				t.Fatalf("%s, %s %s: %v", name, c.field, c.item, values)
			}
			for j := 1; j < len(values); j++ {
				if values[j]-values[j-1] != c.distance {
					t.Fatalf("%s, %s %s: %v", name, c.field, c.item, values)
				}
			}
			if c.n > 1 && values[0] > c.most {
				t.Fatalf("%s, %s %s: %v begins late", name, c.field, c.item, values)
			}
		}
	}
}
