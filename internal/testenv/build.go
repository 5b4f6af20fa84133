// Package testenv is what tests stand on: the programs as users have them, the
// same with a clock that a test sets, and real servers with the means to hurt
// them.
//
// Servers listen on loopback, on ports that were free, in temporary folders, and
// ask for a password. Those that tests share (Redis, Postgres, MariaDB) start
// when the first test asks and last as long as the test process; those of a
// test's own (StartRedis and so on) end with it. None outlives the process,
// however that ends. The log of a server is shown where its test fails.
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
	flags := []string{"build", "-buildvcs=false", "-o", dir + "/"}
	if Race {
		flags = append(flags, "-race")
	}
	cmd := exec.Command("go", append(flags, args...)...)
	cmd.Dir = moduleRoot()
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// moduleRoot is the folder of the module's source.
func moduleRoot() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
