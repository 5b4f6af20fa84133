package rows

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cronce/cronce"
)

// MeterOptions say what a [Meter] compares. Target and Content must be given.
type MeterOptions struct {
	// Target is whom or what a row is sent to, as an address. Content is what is sent, as [Canonical] makes
	// it out of a row's values.
	Target, Content func(Row) string

	Window time.Duration // how long an earlier send is remembered; 0: 1h
	Block  bool          // a duplicate is not sent, and its row is failed

	// Timeout is how long one send takes at most: one that has not ended by then is taken as in doubt. It must
	// not be less than Options.Timeout. 0: 1m.
	Timeout time.Duration

	Table string          // that remembers, see MeterMigration; empty: cronce_sends
	Found func(Duplicate) // is told of each duplicate, from many goroutines at once; nil: nobody
	Log   *slog.Logger    // nil: silent
}

// Duplicate is a send after an earlier one of the same target and content.
type Duplicate struct {
	Row     Row
	Target  string
	Hash    string // of target and content: see Hash
	Sends   int64  // how many there are with it, from 2; 0 where it was blocked
	Blocked bool
}

// DuplicateError is why a row was not sent: it would have been a duplicate. The row is failed.
type DuplicateError struct {
	Window time.Duration
	Hash   string // of target and content: see Hash
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("a duplicate, not sent: the same content went to the same target within %s (SHA-256 %s)", e.Window, e.Hash)
}

// errFlying: it is not known yet what comes of the other one.
var errFlying = errors.New("not sent yet: another row with the same target and content is being sent")

// Meter counts what is sent twice, and keeps it from being sent where asked. A duplicate is
// a send after an earlier one of the same target and content that ended as sent or unknown within the
// window. What failed cleanly does not count, so that its retries are no duplicates; a retry of what is in doubt is one.
//
// It remembers hashes only, in a table beside the rows, which it keeps short itself. All that use
// one table, in any number of processes, are one meter.
type Meter struct {
	db      *sql.DB
	options MeterOptions
	engine  engine

	found atomic.Int64
	prune atomic.Int64 // when to prune next, in Unix nanoseconds
}

// OpenMeter opens the meter. Errors: a *[TableError] if its table is not there, see [MeterMigration]; *[UnavailableError].
func OpenMeter(ctx context.Context, db *sql.DB, o MeterOptions) (*Meter, error) {
	m, there, err := prepareMeter(ctx, db, o)
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, &TableError{Table: m.options.Table, What: "it is not there, and duplicates are remembered in it", Cure: "run the printed migration (cronce drain --print-migration)"}
	}
	return m, m.checkPool(ctx)
}

// MeterMigration is the SQL that makes the meter's table. Empty: it is there.
func MeterMigration(ctx context.Context, db *sql.DB, o MeterOptions) (string, error) {
	m, there, err := prepareMeter(ctx, db, o)
	if err != nil || there {
		return "", err
	}
	return m.migration(), nil
}

// Duplicates is how many this Meter has found, in this process.
func (m *Meter) Duplicates() int64 { return m.found.Load() }

// Watch is the handler with the meter around it: that a send is under way is on record before it, and
// what came of it after it. A row of which that cannot be recorded beforehand is not sent, and tried again later.
//
// With Block, of several rows with the same target and content one is sent at a time; the others are tried again
// when it is known what came of it, which takes an attempt.
func (m *Meter) Watch(handle Handler) Handler {
	return func(ctx context.Context, row Row) error {
		d := Duplicate{Row: row, Target: m.options.Target(row)}
		d.Hash = Hash(d.Target, m.options.Content(row))
		token := cronce.NewRunID()
		switch answer, err := m.begin(ctx, d.Hash, token); {
		case err != nil:
			// Also where the context has ended this is known: it was not sent.
			return RetryAfter(time.Second, fmt.Errorf("not sent: table %s: %w", m.options.Table, err))
		case answer == flying:
			return RetryAfter(time.Second, errFlying)
		case answer == blocked:
			d.Blocked = true
			m.report(d)
			return Permanent(&DuplicateError{Window: m.options.Window, Hash: d.Hash})
		}
		clean := false // a panic is in doubt
		defer func() {
			var err error
			if d.Sends, err = m.end(ctx, d.Hash, token, clean); err != nil {
				m.options.Log.Warn("what came of a send is not in the table of sends: it counts as in doubt", "row", row.String(), "error", err)
			}
			if d.Sends > 1 {
				m.report(d)
			}
		}()
		err := handle(ctx, row)
		clean = failedCleanly(ctx, err)
		return err
	}
}

// failedCleanly is what a Drainer makes of an error too.
func failedCleanly(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.As(err, new(*PermanentError)):
		return true
	case errors.As(err, new(*DoubtError)):
		return false
	}
	return errors.As(err, new(*RetryError)) || errors.As(err, new(*UntriedError)) || ctx.Err() == nil
}

func (m *Meter) report(d Duplicate) {
	m.found.Add(1)
	m.options.Log.Warn("duplicate", "row", d.Row.String(), "hash", d.Hash, "blocked", d.Blocked)
	if m.options.Found != nil {
		m.options.Found(d)
	}
}

// Hash is the SHA-256 of target and content by which sends are compared, in hex.
func Hash(target, content string) string {
	h := sha256.New()
	for _, part := range []string{target, content} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
