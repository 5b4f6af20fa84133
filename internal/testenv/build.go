// Package testenv is what tests stand on: the programs as users have them.
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
	_, file, _, _ := runtime.Caller(0)
	args := []string{"build", "-buildvcs=false", "-o", dir + "/"}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/cronce", "./cmd/cronced")...)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..")
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
