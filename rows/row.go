package rows

import (
	"context"
	"fmt"
	"strings"
)

// Handler does the work of one row. It is called with the start on record, in as many
// goroutines as there are workers. Its context ends with the time-out, when the row is lost to another process
// (the lease could not be renewed), or when a stop has lasted for longer than the grace.
//
// nil: the row is sent. An error: it was not, cleanly, and is tried again later, unless the error
// says otherwise: [Permanent], [RetryAfter], [Untried], [InDoubt]. An error when its context had ended, or a panic,
// is taken as InDoubt: the work may have been done.
type Handler func(ctx context.Context, row Row) error

// Row is one row, started.
type Row struct {
	Key     []any // in the order of Table.Key, as the driver reads them, []byte as string
	Values  []any // in the order of Table.Read, as they were when the row was claimed; nil is NULL
	Attempt int   // which this is, from 1
	Crashes int   // how many attempts before ended with their process
	Token   string

	// Fence is that of the run, 0 for none.
	Fence int64
}

// String is the row's key as people write it.
func (r Row) String() string { return keyText(r.Key, ",") }

// identity tells keys apart, whatever is in them: 5 and '5' are two.
func identity(key []any) string { return fmt.Sprintf("%#v", key) }

func keyText(key []any, between string) string {
	parts := make([]string, len(key))
	for i, k := range key {
		parts[i] = fmt.Sprint(k)
	}
	return strings.Join(parts, between)
}
