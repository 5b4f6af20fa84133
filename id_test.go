package cronce

import (
	"regexp"
	"testing"
)

// A run id names one run of all machines: it is a UUID of version 7, and no two
// made in the same moment are equal.
func TestNewRunID(t *testing.T) {
	valid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 10_000 {
		id := NewRunID()
		if !valid.MatchString(id) {
			t.Fatalf("%s is no UUID of version 7", id)
		}
		if seen[id] {
			t.Fatalf("%s was made twice", id)
		}
		seen[id] = true
	}
}
