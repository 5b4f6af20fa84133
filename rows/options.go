package rows

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options say how a table is worked off. The zero value works.
type Options struct {
	// Job names the work: its fence is kept under this name, and messages say it.
	// Empty: the table's name.
	Job string

	// Fence is that of the run, CRONCE_FENCE or cronce.Run.Fence: once a run with a higher one has
	// claimed, this one claims nothing. 0: there is none, and nothing is checked.
	Fence int64

	Workers int // how many handlers at once; 0: 1
	Batch   int // how many rows a claim takes at most, and Workers at least; 0: 200

	Rate Rate // how many rows are started at most, by one Drain

	Timeout time.Duration // of one call of the handler; 0: 1m
	// Lease is how long a claim holds without renewal. It must be longer than Timeout by a
	// fifth and 5 s at least, as no handler starts with less. 0: twice Timeout and 10 s.
	Lease time.Duration
	// Grace is how long handlers may go on after a stop before their contexts end.
	// 0: up to their Timeout.
	Grace time.Duration

	Attempts   int           // a row that failed so often is dead; 0: 5
	Crashes    int           // an idempotent row whose process died so often is dead; 0: 3
	Backoff    time.Duration // before the second attempt, twice as much before each further one, each ±20 %; 0: 10s
	MaxBackoff time.Duration // 0: 1h

	// Idempotent says that doing the work of a row twice is as good as once: then rows in doubt are
	// tried again and not left as unknown.
	Idempotent bool

	Log *slog.Logger // nil: silent
}

// check says all that is wrong.
func (o Options) check() error {
	var all []error
	for _, n := range []struct {
		name  string
		value int64
	}{{"Fence", o.Fence}, {"Workers", int64(o.Workers)}, {"Batch", int64(o.Batch)}, {"Rate", int64(o.Rate.Rows)}, {"Timeout", int64(o.Timeout)}, {"Lease", int64(o.Lease)},
		{"Grace", int64(o.Grace)}, {"Attempts", int64(o.Attempts)}, {"Crashes", int64(o.Crashes)}, {"Backoff", int64(o.Backoff)}, {"MaxBackoff", int64(o.MaxBackoff)}} {
		if n.value < 0 {
			all = append(all, fmt.Errorf("%s is less than zero", n.name))
		}
	}
	if c := o.complete(Table{}); c.Lease < c.leastLease() {
		all = append(all, fmt.Errorf("a lease of %s is too short for a time-out of %s: %s is the least", c.Lease, c.Timeout, c.leastLease()))
	}
	if o.Workers > maxBatch {
		all = append(all, fmt.Errorf("%d workers are too many: %d is the most", o.Workers, maxBatch))
	}
	if o.Batch > maxBatch {
		all = append(all, fmt.Errorf("a batch of %d rows is too large: %d is the most", o.Batch, maxBatch))
	}
	return errors.Join(all...)
}

// maxBatch bounds what a claim locks, and the parameters of a statement.
const maxBatch = 5000

// leastLease leaves time for the start to be put on record before the time-out runs, and for the result after it.
func (o Options) leastLease() time.Duration { return o.Timeout + max(o.Timeout/5, 5*time.Second) }

// complete is the options with all that was left to its default.
func (o Options) complete(t Table) Options {
	if o.Job == "" {
		o.Job = t.Name
	}
	set(&o.Workers, 1)
	set(&o.Batch, 200)
	o.Batch = max(o.Batch, o.Workers)
	set(&o.Timeout, time.Minute)
	set(&o.Lease, 2*o.Timeout+10*time.Second)
	set(&o.Grace, o.Timeout)
	set(&o.Attempts, 5)
	set(&o.Crashes, 3)
	set(&o.Backoff, 10*time.Second)
	set(&o.MaxBackoff, time.Hour)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
