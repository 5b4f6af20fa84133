package localstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cronce/cronce/store/localstore"
)

// What a note says holds as long as it is open, and the next serve takes away
// what those before it left.
func TestNoteServe(t *testing.T) {
	dir := t.TempDir()
	note := func(jobs ...string) *localstore.Note {
		t.Helper()
		n, err := localstore.NoteServe(dir)
		if err == nil {
			err = n.Set(jobs)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want := func(count int, served, not string) {
		t.Helper()
		if s := localstore.ReadServes(dir); s.Count != count || s.Unknown || served != "" && !s.Serve(served) || s.Serve(not) {
			t.Errorf("%+v, want %d that serve %q and not %q", s, count, served, not)
		}
	}
	want(0, "", "a")
	one := note("a", "b")
	two := note("c")
	want(2, "b", "d")
	want(2, "c", "d")
	if err := one.Set([]string{"a"}); err != nil { // shorter than before
		t.Fatal(err)
	}
	want(2, "a", "b")
	one.Close()
	want(1, "c", "a")
	two.Close()
	want(0, "", "c")
	three := note("e")
	defer three.Close()
	want(1, "e", "c")
	notes, err := os.ReadDir(filepath.Join(dir, "serves"))
	if err != nil || len(notes) != 1 {
		t.Errorf("%d notes are left, %v", len(notes), err)
	}
	// What cannot be read is not taken for nobody.
	path := filepath.Join(dir, "serves", notes[0].Name())
	if err := os.WriteFile(path, []byte(`{"jobs":["e"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := localstore.ReadServes(dir); !s.Unknown || !s.Serve("e") {
		t.Errorf("a note that is being changed: %+v", s)
	}
}
