package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
)

// lent is the store that the full program has opened for this process, nil if there is
// none.
var lent *handover.Borrowed

// takeLent takes the store over that this process was started with, and hides it from
// whatever this process starts.
func takeLent() error {
	number := os.Getenv(handover.StoreVariable)
	if number == "" {
		return nil
	}
	os.Unsetenv(handover.StoreVariable)
	fd, err := strconv.Atoi(number)
	if err == nil {
		lent, err = borrow(fd)
	}
	if err != nil {
		return cli.Misuse("", "%s is for cronced only", handover.StoreVariable)
	}
	return nil
}

// goneLender is closed when the lender has gone; nil where there is none.
func goneLender() <-chan struct{} {
	if lent == nil {
		return nil
	}
	return lent.Gone()
}

// borrow returns the store at the other end of a socket.
func borrow(fd int) (*handover.Borrowed, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, fmt.Errorf("descriptor %d is no socket", fd)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return handover.Borrow(os.NewFile(uintptr(fd), "store")), nil
}

// openElsewhere opens a store that is not local: it returns the one that was lent, or
// becomes the full program, which starts this one again and lends it one. nil, nil: the
// store is local.
func openElsewhere(store string, timeout time.Duration) (*cronce.Store, error) {
	switch {
	case lent != nil:
		return lentStore(timeout), nil
	case !cli.IsURL(store):
		return nil, nil
	}
	os.Setenv("CRONCE_STORE", store)
	os.Setenv(cli.StoreTimeoutVariable, timeout.String())
	return nil, execFull(append([]string{"lend"}, os.Args[1:]...))
}

// lentStore is the store that was lent. No question to it takes longer than a store may that
// is reached and asked within that time each.
func lentStore(timeout time.Duration) *cronce.Store {
	lent.Patience = 2 * timeout
	return cronce.NewStore(lent)
}

// openForReading opens a store to look at it.
func openForReading(store string, timeout time.Duration) (*cronce.Store, error) {
	if s, err := openElsewhere(store, timeout); s != nil || err != nil {
		return s, err
	}
	return cli.OpenForReading(store)
}
