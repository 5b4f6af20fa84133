package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
)

// byHand is the batch as it is written everywhere: read what is pending, send each, mark it as sent. Each line
// of it is right, and it ends with 0.
func byHand(ctx context.Context, db *sql.DB, api string) error {
	found, err := db.QueryContext(ctx, "SELECT id, recipient FROM notifications WHERE status = 'pending' ORDER BY id")
	if err != nil {
		return err
	}
	defer found.Close()
	var ids []int
	var recipients []string
	for found.Next() {
		var id int
		var recipient string
		if err := found.Scan(&id, &recipient); err != nil {
			return err
		}
		ids, recipients = append(ids, id), append(recipients, recipient)
	}
	if err := found.Err(); err != nil {
		return err
	}
	for i, id := range ids {
		reply, err := http.Post(api, "application/json", strings.NewReader(fmt.Sprintf(`{"recipient":%q}`, recipients[i])))
		if err != nil {
			return err
		}
		reply.Body.Close()
		if _, err := db.ExecContext(ctx, "UPDATE notifications SET status = 'sent' WHERE id = ?", id); err != nil {
			return err
		}
	}
	return nil
}
