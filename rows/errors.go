package rows

import (
	"fmt"
	"strings"
)

// TableError is a table, or its description, that cannot be worked off as it is.
type TableError struct {
	Table string
	What  string // what is wrong
	Cure  string // what to do about it
}

func (e *TableError) Error() string { return fmt.Sprintf("table %s: %s: %s", e.Table, e.What, e.Cure) }

// StaleError says that a later run of the job has claimed rows: this one claims none.
type StaleError struct {
	Job         string
	Fence, Seen int64 // ours, and the highest that has claimed
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("job %q: a later run has claimed rows (its fence is %d, ours %d): this run claims no more", e.Job, e.Seen, e.Fence)
}

// BlockedError says that rows are pending, and that none could be claimed for long: other
// transactions have them locked.
type BlockedError struct {
	Table   string
	Pending int64 // due, and not claimed
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("table %s: %d rows are pending and none can be claimed: other transactions have them locked (cronce drain --check names these where the database tells)",
		e.Table, e.Pending)
}

// UnavailableError is a database that cannot be reached, or cannot write now. What had been started and is not on record
// as done will be unknown.
type UnavailableError struct {
	Table string
	Err   error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("table %s: %v", e.Table, e.Err) }

// Unwrap is what the driver said.
func (e *UnavailableError) Unwrap() error { return e.Err }

// unbound reports whether a statement has another number of placeholders than values, as with one in Table.Where: database/sql and
// the drivers have only words for that.
func unbound(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "missing argument with index ") || strings.Contains(text, "missing named argument ") ||
		strings.Contains(text, "expected ") && strings.Contains(text, " arguments, got ")
}
