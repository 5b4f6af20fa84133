// Package cmd_test runs the two programs as people do.
package cmd_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cronce/cronce/internal/testenv"
)

// bin is the folder with cronce and cronced.
var bin string

func TestMain(m *testing.M) {
	testenv.OwnSignals()
	// Else each program with the race detector sleeps a second before its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	dir, err := os.MkdirTemp("", "cronce-bin")
	if err == nil {
		err = testenv.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	// What runs in parallel here waits: for clocks, signals and processes.
	flag.Parse()
	if !given("test.parallel") {
		flag.Set("test.parallel", "6")
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// given reports whether a flag stands on the command line.
func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// The scripts in testdata are sessions at a shell, exit codes and all.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("CRONCE_STORE", env.WorkDir+"/store")
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits runs a command and checks its exit code: exits 64 cronce next.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = err.Error()
		if n, ok := exitCode(err); ok {
			code = fmt.Sprint(n)
		}
	}
	if code != args[0] {
		ts.Fatalf("%v: exit %s, want %s", args[1:], code, args[0])
	}
}

func exitCode(err error) (int, bool) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), true
	}
	return 0, false
}
