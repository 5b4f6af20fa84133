// Command cronced is the full program of cronce: everything that is not
// started anew for every job. People type cronce, which hands over to it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	_ "time/tzdata" // so that zones are known on a machine without them

	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	want, asked := os.LookupEnv(build.WantVersion)
	os.Unsetenv(build.WantVersion) // not for the jobs
	if asked && want != build.Version() {
		return cli.Fail(stderr, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"cronce is %s and cronced beside it is %s: install both from one release", want, build.Version())})
	}
	onBehalf = plain(os.Getenv(askedBy))
	os.Unsetenv(askedBy)
	user, args, err := userFlag(args)
	if err == nil && user != "" {
		err = asUser(user, args)
	}
	if err != nil {
		return cli.Fail(stderr, err)
	}
	name, rest := cli.SplitSubcommand(args)
	switch name {
	case "serve":
		return cli.Fail(stderr, serve(ctx, rest, stdout, stderr))
	case "lend":
		return lend(ctx, rest, stderr)
	case "serve-user":
		return cli.Fail(stderr, serveUser(ctx, stdout))
	case "validate":
		return cli.Fail(stderr, validate(rest, stdout, stderr))
	case "release":
		return cli.Fail(stderr, release(ctx, rest, stdout))
	case "trigger":
		return cli.Fail(stderr, trigger(ctx, rest, stdout, stderr))
	case "trigger-user":
		return cli.Fail(stderr, triggerUser(ctx, rest, stdout, stderr))
	case "status":
		return cli.Fail(stderr, systemStatus(ctx, rest, stdout, stderr))
	case "runs":
		return cli.Fail(stderr, systemRuns(ctx, rest, stdout, stderr))
	case "pause":
		return cli.Fail(stderr, pause(ctx, rest, stdout))
	case "resume":
		return cli.Fail(stderr, resume(ctx, rest, stdout))
	case "job":
		return cli.Fail(stderr, jobCommand(ctx, rest, stdout))
	case "store":
		return cli.Fail(stderr, storeCommand(ctx, rest, stdout))
	case "drain":
		return cli.Fail(stderr, drainCommand(ctx, rest, stdout, stderr))
	case "demo", "demo-server", "demo-batch":
		return cli.Fail(stderr, demo(ctx, args, stdout))
	case "version", "-V", "--version":
		fmt.Fprintln(stdout, "cronced", build.Version())
		return cli.OK
	}
	fmt.Fprintln(stderr, "cronced: the other half of cronce: use 'cronce', see 'cronce help'")
	return cli.Usage
}
