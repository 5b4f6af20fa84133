package handover

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/cronce/cronce"
)

// The descriptors of a guard of rows' commands, beside the standard three.
const (
	RowOrdersFD = 3 // RowTasks one after the other, a Stop where one is to end early
	RowReportFD = 4 // a RowReport for each task
)

// RowTask is the command of one row.
type RowTask struct {
	Version string // of drain

	Path  Bytes
	Args  []Bytes
	Env   []Bytes
	Input Bytes
	// Stream says that the command has the guard's own standard streams, and stays for many rows.
	Stream bool
	Grace  time.Duration // between TERM and KILL
}

// RowReport is how a row's command ended.
type RowReport struct {
	Result  cronce.Result
	Output  []byte // the end of what it printed
	Started bool   // false: there was no command, Result says why
}

// rowOrder is what drain tells the guard.
type rowOrder struct {
	Task *RowTask `json:",omitempty"`
	Stop *Stop    `json:",omitempty"`
}

// GiveRow hands a task to a guard.
func GiveRow(orders io.Writer, t RowTask) error {
	return json.NewEncoder(orders).Encode(rowOrder{Task: &t})
}

// StopRow orders the guard to end the command it has.
func StopRow(orders io.Writer, why string) error {
	return json.NewEncoder(orders).Encode(rowOrder{Stop: &Stop{why}})
}

// ReadRowOrders passes on what drain says until it says no more: then it has ended, and the command is to end too.
func ReadRowOrders(orders io.Reader, task func(RowTask), stop func(why string)) error {
	for in := json.NewDecoder(orders); ; {
		var o rowOrder
		err := in.Decode(&o)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case o.Task != nil:
			task(*o.Task)
		case o.Stop != nil:
			stop(o.Stop.Why)
		}
	}
}
