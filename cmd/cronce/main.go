// How many processors there are is not looked at again: for that the runtime would begin
// a goroutine at each start, and wake a thread for it.
//
//go:debug updatemaxprocs=0

// Command cronce runs cron jobs once. It is the thin one of two programs: it
// does itself what is started for every job, and hands everything else to
// cronced, which stands beside it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	_ "time/tzdata" // so that zones are known on a machine without them

	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
)

func main() {
	growStack(0)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// growStack makes the stack as large as a run needs it, 32 KiB, in one step while there
// is nothing on it. Step by step it would be copied, and looked through for what
// points into it, four times.
//
//go:noinline
func growStack(n int) byte {
	var frame [16 << 10]byte
	return frame[n]
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if err := takeLent(); err != nil {
		return cli.Fail(stderr, err)
	}
	name, rest := cli.SplitSubcommand(args)
	if name == "runs" || name == "status" {
		for _, flag := range []string{"--user", "--system"} {
			if slices.ContainsFunc(rest, func(w string) bool { return w == flag || w == flag[1:] || strings.HasPrefix(w, flag+"=") }) && !asksHelp(rest) {
				return cli.Fail(stderr, execFull(args)) // of others than this user
			}
		}
	}
	switch name {
	case "":
		fmt.Fprint(stderr, helpMain)
		return cli.Usage
	case "help", "-h", "--help":
		return cli.Fail(stderr, help(rest, stdout))
	case "version", "-V", "--version":
		fmt.Fprintln(stdout, "cronce", build.Version())
		return cli.OK
	case "next":
		return cli.Fail(stderr, next(rest, stdout))
	case "runs":
		return cli.Fail(stderr, runs(ctx, rest, stdout))
	case "status":
		return cli.Fail(stderr, status(ctx, rest, stdout))
	case "run":
		return runJob(ctx, rest, stdout, stderr)
	case "hold":
		return hold(ctx, rest, stdout, stderr)
	case "flock":
		return flock(ctx, rest, stdout, stderr)
	case "completion":
		return cli.Fail(stderr, completion(ctx, rest, stdout))
	case "guard":
		return cli.Fail(stderr, guardTask(ctx))
	case "guard-rows":
		return cli.Fail(stderr, guardRows(ctx))
	case "serve", "drain", "validate", "demo", "release", "trigger", "pause", "resume", "job", "store":
		if asksHelp(rest) {
			return cli.Fail(stderr, help([]string{name}, stdout))
		}
		return cli.Fail(stderr, execFull(args))
	}
	return cli.Fail(stderr, cli.Misuse("", "there is no command %q: the commands are run, hold, flock, serve, drain, validate, next, runs, status, trigger, release, pause, resume, job, store, demo, completion, help, version", name))
}

// asksHelp reports whether help is asked for; what stands behind "--" is another
// program's.
func asksHelp(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "-h") || slices.Contains(args, "--help")
}
