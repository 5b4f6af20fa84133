package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/all"
	"github.com/cronce/cronce/store/localstore"
)

// openShared opens a store by its URL, within the time that a command has for it.
func openShared(ctx context.Context, storeURL string, timeout time.Duration) (*cronce.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	store, err := all.Open(ctx, storeURL)
	var config *cronce.ConfigError
	var away *cronce.UnavailableError
	if err != nil && !errors.As(err, &config) && !errors.As(err, &away) {
		err = &cronce.UnavailableError{Store: cli.WithoutSecrets(storeURL), Err: err}
	}
	return store, err
}

// openWith opens the store at that place: a local one as given, any other by its URL.
func openWith(ctx context.Context, f *cli.Flags, place string, local func(dir string) (*cronce.Store, error)) (*cronce.Store, error) {
	if !cli.IsURL(place) {
		return local(place)
	}
	return openShared(ctx, place, f.StoreTimeout)
}

// openForReading opens a store to look at it.
func openForReading(ctx context.Context, f *cli.Flags, place string) (*cronce.Store, error) {
	return openWith(ctx, f, place, cli.OpenForReading)
}

// openThere opens a store that must be there already, to change something in it.
func openThere(ctx context.Context, f *cli.Flags, place string) (*cronce.Store, error) {
	return openWith(ctx, f, place, cli.OpenThere)
}

// openToServe opens a store, and makes a local one where there is none.
func openToServe(ctx context.Context, f *cli.Flags, place string) (*cronce.Store, error) {
	return openWith(ctx, f, place, func(dir string) (*cronce.Store, error) {
		return localstore.Open(localstore.Options{Dir: dir})
	})
}

// openMachine looks whether runs under a shared store can have a lock of this machine. A
// place that somebody named must be fit for it; without one, runs go without, and missing
// says so.
func openMachine() (missing, err error) {
	named := os.Getenv(cli.LocalStoreVariable)
	if _, err = localstore.OpenMachine(named); err == nil || named != "" {
		return nil, err
	}
	return fmt.Errorf("jobs go without a lock of this machine (%s names a folder for it): %w", cli.LocalStoreVariable, err), nil
}

// soon bounds what a command asks of a shared store, as what it takes to reach it is.
func soon(ctx context.Context, f *cli.Flags, place string) (context.Context, context.CancelFunc) {
	if !cli.IsURL(place) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, 2*f.StoreTimeout)
}
