package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/localstore"
)

// recordPatience is how long a call waits for its record. The lock file alone
// decides: a store that hangs must not keep the work from being done.
const recordPatience = time.Second

var errNoAnswer = errors.New("the store does not answer within " + recordPatience.String())

// flockRecord is a run under a lock file, as far as the store has it.
type flockRecord struct {
	started chan struct{} // closed: the rest is set
	store   *cronce.Store
	lease   cronce.Lease
	err     error
}

// startRecord begins to record the start of a run.
func startRecord(ctx context.Context, job string) *flockRecord {
	r := &flockRecord{started: make(chan struct{})}
	go func() {
		defer close(r.started)
		c := flockClaim(job)
		// The lock file says what excludes what, for those too whom we do not know.
		c.Overlap.Policy = cronce.OverlapAllow
		if r.store, r.err = localstore.Open(localstore.Options{}); r.err == nil {
			r.lease, r.err = r.store.Claim(ctx, c)
		}
	}()
	return r
}

func flockClaim(job string) cronce.Claim {
	holder := cronce.ThisProcess("flock")
	holder.Guard = true
	return cronce.Claim{RunID: cronce.NewRunID(), Job: job, Holder: holder}
}

// wait waits for the start to be on record. The error says why it is not.
func (r *flockRecord) wait() error {
	select {
	case <-r.started:
		return r.err
	case <-time.After(recordPatience):
		return errNoAnswer
	}
}

// lock is the run's own lock: while a process has it open, the run is known
// to live. Nil without a record.
func (r *flockRecord) lock() *os.File {
	select {
	case <-r.started:
		return r.lease.Lock // nil after an error
	default:
		return nil
	}
}

// end records how the run ended.
func (r *flockRecord) end(ctx context.Context, result cronce.Result) error {
	select {
	case <-r.started:
	default:
		return errNoAnswer
	}
	if r.err != nil {
		return nil // said at its start
	}
	return patiently(func() error { return r.store.Finish(ctx, r.lease, result) })
}

// recordConflict records that others had the lock. Where the store knows who,
// that is a skip, and why says who. For a holder that is not on record no claim is
// skipped: the run is granted, and ended before it began.
func recordConflict(ctx context.Context, job string, exit int) (why string, err error) {
	result := make(chan string, 1)
	err = patiently(func() error {
		store, err := localstore.Open(localstore.Options{})
		if err != nil {
			return err
		}
		c := flockClaim(job)
		// It is decided: what an ended run left behind has had its time to go.
		c.Offered = time.Now().Add(-time.Minute)
		l, err := store.Claim(ctx, c)
		var skipped *cronce.SkippedError
		if errors.As(err, &skipped) {
			result <- skipped.Why()
			return nil
		} else if err != nil {
			return err
		}
		return store.Finish(ctx, l, cronce.Result{Outcome: cronce.Cancelled, ExitCode: exit,
			Message: "not started: the file is locked by a process that is not on record"})
	})
	select {
	case why = <-result:
	default:
	}
	return why, err
}

// patiently waits for f, but not for ever. What f still does then, it does
// until this process ends.
func patiently(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(recordPatience):
		return errNoAnswer
	}
}

// flockJob names the job of a lock file: flock: and its path, as the kernel
// knows it, so that one file is one job under whatever name it was opened.
func flockJob(fd int, file string) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		if path, err = filepath.Abs(file); err != nil {
			path = file
		}
	}
	name := "flock:" + path
	if cronce.CheckName(name) == nil {
		return name
	}
	// Too long, or no text: its end, as far as it is text, and a hash.
	sum := sha256.Sum256([]byte(path))
	const hashBytes = 8
	end := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return '?'
		}
		return r
	}, path)
	for most := cronce.MaxNameBytes - len("flock:…~") - 2*hashBytes; len(end) > most; {
		_, n := utf8.DecodeRuneInString(end)
		end = end[n:]
	}
	return "flock:…" + end + "~" + hex.EncodeToString(sum[:hashBytes])
}
