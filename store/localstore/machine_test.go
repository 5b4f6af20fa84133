package localstore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A lock of this machine is one for each store and job, is free when it was given up, and
// tells who has it.
func TestMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	m, err := OpenMachine(dir)
	if err != nil {
		t.Fatal(err)
	}
	const store, other = "redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/1"
	first, err := m.Lock(store, "job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(store, "job"); !errors.Is(err, ErrMachineHeld) {
		t.Errorf("a second time: %v", err)
	}
	if pids := m.Holders(store, "job"); !slices.Equal(pids, []int{os.Getpid()}) {
		t.Errorf("it is held by %v", pids)
	}
	for _, of := range [][2]string{{store, "Job"}, {other, "job"}} {
		f, err := m.Lock(of[0], of[1])
		if err != nil {
			t.Errorf("%v: %v", of, err)
			continue
		}
		m.Unlock(f, false)
	}
	m.Unlock(first, true)
	again, err := m.Lock(store, "job")
	if err != nil {
		t.Fatal(err)
	}
	m.Unlock(again, false)
	if pids := m.Holders(store, "job"); len(pids) != 0 {
		t.Errorf("it is free, and held by %v", pids)
	}
	// It is in a local store like any other.
	if _, err := Open(Options{Dir: dir}); err != nil {
		t.Error(err)
	}
	if _, err := OpenMachine(filepath.Join(dir, "no", "such")); err == nil {
		t.Error("a folder in one that is not there was made")
	}
}
