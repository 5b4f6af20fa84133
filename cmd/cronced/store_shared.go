package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/all"
)

// sharedInit says of a new store that hosts share that nothing was decided before.
func sharedInit(ctx context.Context, f *cli.Flags, place string, stdout io.Writer) error {
	ctx, cancel := soon(ctx, f, place)
	defer cancel()
	store, err := openShared(ctx, place, f.StoreTimeout)
	if err != nil {
		return err
	}
	defer store.Close()
	states, err := store.Jobs(ctx)
	if err != nil {
		return err
	}
	if err := store.Init(ctx); err != nil {
		return err
	}
	used := ""
	if len(states) > 0 {
		used = fmt.Sprintf("; it was in use already, by %s: nothing has changed, unless it was not known what it lacks: from now on it is taken as whole", count(len(states), "job"))
	}
	_, err = fmt.Fprintf(stdout, "%s is ready for use%s\n", cli.WithoutSecrets(place), used)
	return err
}

// sharedCheck says whether a store that hosts share is fit for use: opening it looks at
// the server's settings.
func sharedCheck(ctx context.Context, f *cli.Flags, place string, stdout io.Writer) error {
	ctx, cancel := soon(ctx, f, place)
	defer cancel()
	store, err := openShared(ctx, place, f.StoreTimeout)
	if err != nil {
		return err
	}
	defer store.Close()
	sent := time.Now()
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	took := time.Since(sent)
	ahead := time.Now().Add(-took / 2).Sub(now)
	states, err := store.Jobs(ctx)
	if err != nil {
		return err
	}
	problems := 0
	tw := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	row := func(ok bool, what, is string) {
		word := "ok"
		if !ok {
			word = "PROBLEM"
			problems++
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", word, what, is)
	}
	row(true, "store", cli.WithoutSecrets(place)+" answers in "+cli.Brief(took))
	row(ahead.Abs()-took/2 <= cronce.MaxSkew, "clock", fmt.Sprintf("this host's is %s %s the store's", ahead.Abs().Round(time.Millisecond), side(ahead)))
	if missing, err := openMachine(); missing != nil || err != nil {
		row(false, "lock of this machine", errors.Join(missing, err).Error())
	} else {
		row(true, "lock of this machine", "there is a place for it")
	}
	for _, s := range states {
		s = s.AsOf(now)
		row(s.Problem == "", "job "+s.Job, cli.Doing(s, now))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if problems > 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s", count(problems, "problem"))}
	}
	return nil
}

// side says on which side of another clock one is that is ahead by so much.
func side(ahead time.Duration) string {
	if ahead < 0 {
		return "behind"
	}
	return "ahead of"
}

// resetWatermarks takes pruning watermarks that lie ahead of the store's clock back to it.
func resetWatermarks(ctx context.Context, f *cli.Flags, place string, store *cronce.Store, stdout io.Writer) error {
	asked, done := soon(ctx, f, place)
	defer done()
	states, err := store.Jobs(asked)
	if err != nil {
		return err
	}
	for _, s := range states {
		asked, done := soon(ctx, f, place)
		err := store.Request(asked, cronce.Request{Kind: cronce.ResetWatermark, Job: s.Job, By: requester()})
		done()
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "%s: no pruning watermark lies ahead of the store's clock any more\n", count(len(states), "job"))
	return err
}

// storeMigrate prints what the owner of a store carries out where its programs may not.
func storeMigrate(args []string, stdout io.Writer) error {
	f := cli.NewFlags("store")
	place := cli.StoreFlag(f)
	show := f.Bool("print", false, "")
	if err := storeFlags(f, args); err != nil {
		return err
	}
	if !*show {
		return cli.Misuse("store", "programs that may do so migrate by themselves: --print shows what they do, for those that may not")
	}
	text := ""
	if cli.IsURL(*place) {
		var err error
		if text, err = all.Migrations(*place); err != nil {
			return err
		}
	}
	if text == "" {
		_, err := fmt.Fprintln(stdout, "nothing to migrate: a store of this kind has no schema")
		return err
	}
	_, err := io.WriteString(stdout, text)
	return err
}
