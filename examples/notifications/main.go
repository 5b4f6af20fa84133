// Command notifications replays the night of three notices: a batch that reads pending rows of a table, calls an outside API for each and
// marks it as sent; the API slows down; cron starts the batch again while the first one is still at it, and again. First as
// such a batch is written by hand, then with cronce drain.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronce/cronce/store/mysqlstore"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "notifications:", err)
		os.Exit(1)
	}
}

// crons is how often cron starts the batch.
const crons = 3

// night is what is played, once by hand and once with cronce.
type night struct {
	db       *sql.DB
	rows     int
	fast     time.Duration // a call of the API, at first
	slow     time.Duration // and later
	cronce   string
	out, err io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	n := &night{out: stdout, err: stderr}
	f := flag.NewFlagSet("notifications", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&n.rows, "rows", 12, "how many notifications are pending")
	f.DurationVar(&n.fast, "fast", 200*time.Millisecond, "how long a call of the API takes at first")
	f.DurationVar(&n.slow, "slow", 5*time.Second, "how long it takes then")
	f.StringVar(&n.cronce, "cronce", "cronce", "the program")
	batch := f.String("batch", "", "be the batch written by hand, for the API at this URL")
	if err := f.Parse(args); err != nil {
		return err
	}
	if os.Getenv("CRONCE_DB") == "" {
		return errors.New("set CRONCE_DB to a database of MariaDB or MySQL in which a table may be made, as mysql://USER:PASSWORD@127.0.0.1/test")
	}
	config, err := mysqlstore.Config(os.Getenv("CRONCE_DB"))
	if err != nil {
		return err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	n.db = sql.OpenDB(connector)
	defer n.db.Close()
	if *batch != "" {
		return byHand(ctx, n.db, *batch)
	}
	return n.play(ctx)
}

// play plays the night twice and compares.
func (n *night) play(ctx context.Context) error {
	fmt.Fprintf(n.out, "%d notifications are pending. The API takes %s a call, and then %s. cron starts the batch %d times.\n\n", n.rows, n.fast, n.slow, crons)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	without, err := n.pass(ctx, "by hand", func(api string) *exec.Cmd { return exec.Command(self, "-batch", api) })
	if err != nil {
		return err
	}
	with, err := n.pass(ctx, "with cronce", func(api string) *exec.Cmd {
		return exec.Command(n.cronce, "drain", "--table", "notifications", "--key", "id", "--state", "status", "--post", api)
	})
	if err != nil {
		return err
	}
	switch {
	case with.sends != n.rows || with.most != 1:
		return errors.New("with cronce this is not as promised")
	case without.most < 2:
		return errors.New("by hand the night did not happen as told")
	}
	return nil
}

// tally is what the API has counted.
type tally struct{ sends, most, twice int }

// pass plays it once: cron's starts do not wait for one another, they come while calls are answered.
func (n *night) pass(ctx context.Context, how string, batch func(api string) *exec.Cmd) (tally, error) {
	if err := n.fill(ctx); err != nil {
		return tally{}, err
	}
	defer n.db.ExecContext(context.WithoutCancel(ctx), "DROP TABLE notifications")
	api := newAPI(n.fast, n.slow, n.rows/4)
	defer api.Close()
	began := time.Now()
	var running []*exec.Cmd
	for i := range crons {
		cmd := batch(api.URL + "/send")
		cmd.Stdout, cmd.Stderr = n.err, n.err
		if err := cmd.Start(); err != nil {
			return tally{}, err
		}
		running = append(running, cmd)
		if i < crons-1 {
			api.await(ctx, 2*(i+1)) // the first batch is at its second row, or fourth
		}
	}
	ends := make([]string, len(running))
	for i, cmd := range running {
		cmd.Wait()
		ends[i] = fmt.Sprint(cmd.ProcessState.ExitCode())
	}
	sum := api.tally()
	pending, err := n.pending(ctx)
	fmt.Fprintf(n.out, "%-12s  %2d rows, %2d sends: %2d recipients got it more than once, the most %d times; %d rows left; %s; exit %s\n",
		how, n.rows, sum.sends, sum.twice, sum.most, pending, time.Since(began).Round(100*time.Millisecond), strings.Join(ends, ", "))
	return sum, err
}

// fill makes the table, with what cronce needs: cronce drain --print-migration prints it.
func (n *night) fill(ctx context.Context) error {
	statements := []string{`CREATE TABLE notifications (id INT PRIMARY KEY AUTO_INCREMENT, recipient VARCHAR(100) NOT NULL, status VARCHAR(20) NOT NULL DEFAULT 'pending')`}
	for i := range n.rows {
		statements = append(statements, fmt.Sprintf("INSERT INTO notifications (recipient) VALUES ('customer%d@example.com')", i+1))
	}
	if err := n.exec(ctx, statements...); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, n.cronce, "drain", "--table", "notifications", "--key", "id", "--state", "status", "--print-migration")
	cmd.Stderr = n.err
	migration, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cronce drain --print-migration: %w", err)
	}
	for s := range strings.SplitSeq(string(migration), ";\n") {
		// The table of fences may be there already, from another table's.
		if s = strings.TrimSpace(s); s != "" && !strings.HasPrefix(s, "--") {
			if err := n.exec(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *night) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := n.db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (n *night) pending(ctx context.Context) (rows int, err error) {
	err = n.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM notifications WHERE status <> 'sent'").Scan(&rows)
	return rows, err
}
