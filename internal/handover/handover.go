// Package handover is what serve tells a guard process, and hears from it:
// JSON over inherited descriptors.
//
// One guard process guards one command, so that the work of one job cannot be
// taken for another's, and goes on, guarded, when serve is killed.
package handover

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/cronce/cronce"
)

// The descriptors of a guard process, beside the standard three.
const (
	LockFD   = 3 // the lease's lock
	OrdersFD = 4 // a Task, then at most one Stop
	ReportFD = 5 // a Report that it has begun, and one of the end
)

// Task is the lease and the command to guard under it.
type Task struct {
	Version string // of serve
	Store   string
	Shared  bool // the store is lent at StoreFD, and there is no lock
	Lease   cronce.Lease

	Job     cronce.Job    // its policies
	Warning time.Duration // when to say that it goes on for long; 0: never

	Path  Bytes
	Args  []Bytes
	Env   []Bytes
	Dir   Bytes
	Input Bytes
}

// Bytes is text that may be no UTF-8: as a string, JSON would change it.
type Bytes []byte

// BytesOf is each of the strings.
func BytesOf(all []string) []Bytes {
	out := make([]Bytes, len(all))
	for i, s := range all {
		out[i] = Bytes(s)
	}
	return out
}

// Strings is BytesOf undone.
func Strings(all []Bytes) []string {
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = string(b)
	}
	return out
}

// Stop orders the guard to end its command.
type Stop struct{ Why string }

// Report is that the guard has begun, or how the run ended.
type Report struct {
	Begun  bool `json:",omitempty"`
	Result cronce.Result
	Err    string // why it is not on record, if it is not
}

// Give starts with the task on the guard's orders.
func Give(orders io.Writer, t Task) error {
	t.Lease.Lock = nil
	return json.NewEncoder(orders).Encode(t)
}

// Orders reads what a guard is told.
type Orders struct{ dec *json.Decoder }

// NewOrders reads orders from that descriptor.
func NewOrders(f *os.File) Orders { return Orders{json.NewDecoder(f)} }

// Task reads the task.
func (o Orders) Task() (t Task, err error) { return t, o.dec.Decode(&t) }

// Stop waits for the order to stop. It returns false when serve has gone
// without one: the work is to go on.
func (o Orders) Stop() (s Stop, ok bool) { return s, o.dec.Decode(&s) == nil }

// TellBegun reports that the guard is there, and about to start the command.
func TellBegun(report io.Writer) error { return json.NewEncoder(report).Encode(Report{Begun: true}) }

// Tell writes a guard's report of the end.
func Tell(report io.Writer, r cronce.Result, err error) error {
	out := Report{Result: r}
	if err != nil {
		out.Err = err.Error()
	}
	return json.NewEncoder(report).Encode(out)
}

// Hear reads a guard's reports: it calls begun when the guard has, and returns
// the end. ok is false when the guard was killed.
func Hear(report io.Reader, begun func()) (r cronce.Result, err error, ok bool) {
	in := Report{Begun: true}
	for dec := json.NewDecoder(report); in.Begun; {
		in = Report{}
		if dec.Decode(&in) != nil {
			return r, nil, false
		}
		if in.Begun {
			begun()
		}
	}
	if in.Err != "" {
		err = errors.New(in.Err)
	}
	return in.Result, err, true
}

// Order tells a guard to stop.
func Order(orders io.Writer, s Stop) error { return json.NewEncoder(orders).Encode(s) }
