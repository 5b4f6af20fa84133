package rows_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"github.com/cronce/cronce/rows"
)

func ExampleDrainer_Drain() {
	// As a job of a cronce.Scheduler calls it, with the fence of its run.
	notify := func(ctx context.Context, db *sql.DB, fence int64) error {
		table := rows.Table{
			Name:  "notices",
			Key:   []string{"id"},
			State: "status",
			Read:  []string{"recipient", "body"},
		}
		drainer, err := rows.Open(ctx, db, table, rows.Options{Workers: 8, Timeout: 20 * time.Second, Fence: fence})
		if err != nil {
			return err // says what is wrong with the table, and what to do
		}
		result, err := drainer.Drain(ctx, func(ctx context.Context, row rows.Row) error {
			recipient, body := row.Values[0].(string), row.Values[1].(string)
			err := send(ctx, recipient, body)
			if errors.Is(err, errNoSuchMailbox) {
				return rows.Permanent(err) // another attempt would not change it
			}
			return err // nil: sent; an error: not sent, to be tried again later
		})
		log.Printf("%d sent, %d to be tried again, %d unknown", result.Sent, result.Retry, result.Unknown)
		return err
	}
	_ = notify
}

var errNoSuchMailbox = errors.New("no such mailbox")

func send(context.Context, string, string) error { return nil } // yours
