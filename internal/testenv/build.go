// Package testenv is what tests stand on: the programs as users have them, and
// the same with a clock that a test sets.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build builds cronce and cronced into the folder, with the race detector
// where the test itself has it.
func Build(dir string) error {
	return build(dir, "./cmd/cronce", "./cmd/cronced")
}

// build runs go build in the module's root.
func build(dir string, args ...string) error {
	_, file, _, _ := runtime.Caller(0)
	flags := []string{"build", "-buildvcs=false", "-o", dir + "/"}
	if Race {
		flags = append(flags, "-race")
	}
	cmd := exec.Command("go", append(flags, args...)...)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..")
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
