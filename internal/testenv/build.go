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

// A Patch is a change to a source file of the module, in a build of its own.
type Patch struct {
	File     string // from the module's root
	Old, New string // Old stands there once
}

// BuildTest builds the test program of a package as BuildWithClock builds cronce, and
// with the patches.
func BuildTest(program, pkg string, patches ...Patch) error {
	return withClock(patches, func(overlay string) error {
		return goBuild("test", "-c", "-o", program, overlay, pkg)
	})
}

// build runs go build in the module's root.
func build(dir string, args ...string) error {
	return goBuild(append([]string{"build", "-o", dir + "/"}, args...)...)
}

// goBuild runs go in the module's root, for something to be built.
func goBuild(args ...string) error {
	flags := []string{args[0], "-buildvcs=false"}
	args = args[1:]
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
