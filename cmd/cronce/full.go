package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
)

// execFull becomes cronced, the full program, with the same arguments. It is
// looked for beside this program's own file and nowhere else: a guard that
// could be made to run another program by PATH would guard nothing.
func execFull(args []string) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("cannot find this program's own file, and so not cronced beside it: %w", err)}
	}
	full := filepath.Join(filepath.Dir(self), "cronced")
	env := append(os.Environ(), build.WantVersion+"="+build.Version())
	err = syscall.Exec(full, append([]string{full}, args...), env)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is not there: install both programs into one folder, as 'go install github.com/cronce/cronce/cmd/...' does", full)
	} else {
		err = fmt.Errorf("%s: %w", full, err)
	}
	return &cli.ExitError{Code: cli.Config, Err: err}
}
