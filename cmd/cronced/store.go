package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// storeCommand is `cronce store`: what is done to a store as a whole.
func storeCommand(ctx context.Context, args []string, stdout io.Writer) error {
	name, rest := cli.SplitSubcommand(args)
	switch name {
	case "init":
		return storeInit(ctx, rest, stdout)
	case "check":
		return storeCheck(ctx, rest, stdout)
	case "prune":
		return storePrune(ctx, rest, stdout)
	case "reset-watermark":
		return storeResetWatermark(ctx, rest, stdout)
	case "migrate":
		return storeMigrate(rest, stdout)
	case "":
		return cli.Misuse("store", "what about the store? There is: cronce store init, check, prune, reset-watermark, migrate")
	}
	return cli.Misuse("store", "there is no %q: there is cronce store init, check, prune, reset-watermark, migrate", name)
}

// storeFlags reads a command line without arguments, but for a store's URL, which may stand
// without --store.
func storeFlags(f *cli.Flags, args []string) error {
	rest, err := f.Parse(args)
	if err == nil && len(rest) > 0 && cli.IsURL(rest[0]) && !f.Given("store") {
		rest, err = f.Parse(append([]string{"--store"}, rest...))
	}
	if err == nil && len(rest) > 0 {
		err = cli.Misuse("store", "unexpected %q", rest[0])
	}
	return err
}

// storeInit makes a store, also for another user.
func storeInit(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("store")
	dir := cli.StoreFlag(f)
	name := f.String("user", "", "")
	if err := storeFlags(f, args); err != nil {
		return err
	}
	forUser, place := false, false
	f.Visit(func(f *flag.Flag) { forUser, place = forUser || f.Name == "user", place || f.Name == "store" })
	if !forUser && cli.IsURL(*dir) {
		return sharedInit(ctx, f, *dir, stdout)
	}
	if !forUser {
		store, err := localstore.Open(localstore.Options{Dir: *dir, By: requester()})
		if err != nil {
			return err
		}
		store.Close()
		if *dir == "" {
			if *dir, err = localstore.Place(); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(stdout, "%s is ready for use\n", *dir)
		return err
	}
	if place {
		return cli.Misuse("store", "--user and --store contradict each other: the place goes with the user")
	}
	u, err := user.Lookup(*name)
	if err != nil {
		if u, err = user.LookupId(*name); err != nil {
			return cli.Misuse("store", "--user: there is no user %q", *name)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("--user %s: %w", *name, err)
	}
	if os.Geteuid() != 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("only root can make a store for a user: sudo cronce store init --user %s", *name)}
	}
	made, err := localstore.Init(uid, gid, requester())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is ready for user %s\n", made, u.Username)
	return err
}

// storeCheck says whether a store is fit for use.
func storeCheck(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("store")
	dir := cli.StoreFlag(f)
	if err := storeFlags(f, args); err != nil {
		return err
	}
	if cli.IsURL(*dir) {
		return sharedCheck(ctx, f, *dir, stdout)
	}
	found, err := localstore.Check(ctx, localstore.Options{Dir: *dir})
	if errors.Is(err, fs.ErrNotExist) {
		return &cli.ExitError{Code: cli.NoInput, Err: fmt.Errorf("there is no store: %w: 'cronce store init' makes it", err)}
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	problems := 0
	for _, one := range found {
		if one.Problem != nil {
			problems++
			fmt.Fprintf(tw, "PROBLEM\t%s\t%v\n", one.What, one.Problem)
			continue
		}
		fmt.Fprintf(tw, "ok\t%s\t%s\n", one.What, one.Is)
	}
	tw.Flush()
	if err := out.Flush(); err != nil {
		return err
	}
	if problems > 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s", count(problems, "problem"))}
	}
	return nil
}

// storePrune forgets old runs.
func storePrune(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("store")
	dir := cli.StoreFlag(f)
	now := time.Now()
	before := now.Add(-localstore.DefaultKeepAge)
	f.Func("before", "", func(v string) (err error) {
		if before, err = cli.ParseSince(v, now); err == nil && before.After(now) {
			err = errors.New("it lies ahead")
		}
		return err
	})
	job := ""
	f.Func("job", "", func(v string) error { job = v; return cronce.CheckName(v) })
	if err := storeFlags(f, args); err != nil {
		return err
	}
	store, err := openThere(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	asked, done := soon(ctx, f, *dir)
	defer done()
	if err := cli.CheckKnown(asked, store, *dir, job); err != nil {
		return err
	}
	jobs := []string{job}
	if job == "" {
		states, err := store.Jobs(asked)
		if err != nil {
			return err
		}
		jobs = nil
		for _, s := range states {
			jobs = append(jobs, s.Job)
		}
	}
	total := 0
	for _, job := range jobs {
		n, err := pruneJob(ctx, store, job, before)
		if err == nil && n > 0 {
			total += n
			asked, done := soon(ctx, f, *dir)
			err = store.Request(asked, cronce.Request{Kind: cronce.Prune, Job: job, By: requester(),
				Why: fmt.Sprintf("%s decided before %s", count(n, "run"), cronce.Stamp(before))})
			done()
		}
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "forgot %s decided before %s; their ticks stay decided\n", count(total, "run"), cronce.Stamp(before))
	return err
}

// storeResetWatermark is for stores that keep one number where the local store
// keeps spans of time.
func storeResetWatermark(ctx context.Context, args []string, stdout io.Writer) error {
	f := cli.NewFlags("store")
	dir := cli.StoreFlag(f)
	if err := storeFlags(f, args); err != nil {
		return err
	}
	store, err := openForReading(ctx, f, *dir)
	if err != nil {
		return err
	}
	defer store.Close()
	if store.Shared() {
		return resetWatermarks(ctx, f, *dir, store, stdout)
	}
	_, err = fmt.Fprintln(stdout, "nothing to reset: a local store has no watermark; it keeps the spans of time in which forgotten ticks lie, and refuses nothing else")
	return err
}
