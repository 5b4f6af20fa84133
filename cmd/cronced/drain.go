package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// The exit codes of drain beside those of every command, see 'cronce help drain'.
const (
	exitFailed  = 65 // rows failed for good, or too often
	exitBlocked = cli.TempFail
	exitDoubt   = 76 // of some rows nobody knows whether they were sent
)

// drainCommand works off a table, row by row.
func drainCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "report" {
		return drainReport(ctx, args[1:], stdout)
	}
	o, err := readDrain(args)
	if err != nil {
		return err
	}
	db, err := connect(ctx, o.db)
	if err != nil {
		return err
	}
	defer db.Close()
	switch {
	case o.printMigration:
		return printMigration(ctx, db, o, stdout)
	case o.check:
		return checkTable(ctx, db, o, stdout)
	}
	if err := o.readAll(ctx, db); err != nil {
		return drainError(err)
	}
	o.readCompared()
	tell := newProgress(o, stdout, stderr)
	o.options.Log = tell.logger()
	d, err := o.open(ctx, db)
	if err != nil {
		return err
	}
	if o.dryRun {
		return dryRun(ctx, d, o, stdout)
	}
	return (&drain{drainOptions: o, db: db, drainer: d, tell: tell, brake: newBrake(o.options.Workers)}).run(ctx)
}

// drain is one drain of a table by a program of the user's.
type drain struct {
	*drainOptions
	db      *database
	drainer *rows.Drainer
	tell    *progress
	brake   *brake

	end    context.CancelCauseFunc // stops the drain
	ending context.Context         // ends with the second signal
}

// run works the table off until it is empty or, with --follow, until it is stopped.
func (d *drain) run(ctx context.Context) error {
	var endNow context.CancelFunc
	d.ending, endNow = context.WithCancel(ctx)
	defer endNow()
	all, done := context.WithCancel(ctx)
	defer done()
	ctx, d.end = context.WithCancelCause(ctx)
	defer d.end(nil)
	got := d.signals(all, endNow)
	// Whoever reads what is printed may go away; the rows that are worked on must still be recorded.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	handle, finish, err := d.handler()
	if err != nil {
		return err
	}
	if handle, err = d.metered(ctx, d.db, handle); err != nil {
		return errors.Join(err, finish())
	}
	d.tell.begin(ctx, d.drainer)
	sum, err := d.passes(ctx, handle)
	err = errors.Join(err, finish())
	if sum.Left == (rows.Counts{}) { // an end before it was counted
		d.tell.end(sum, rows.Waits{})
	} else {
		d.tell.end(sum, waits(ctx, d.drainer, sum.Left))
	}
	var stopped *stopError
	if errors.As(context.Cause(ctx), &stopped) {
		err = stopped
	}
	return d.verdict(sum, err, syscall.Signal(got.Load()))
}

// signals stops the drain at the first signal, and what is worked on at a second one that does not belong to the first, until done
// ends. got is the first. The signals stay caught: one in the last moment would take the place of the exit code.
func (d *drain) signals(done context.Context, endNow func()) (got *atomic.Int32) {
	got = new(atomic.Int32)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // as HUP under nohup
			signal.Notify(signals, s)
		}
	}
	go func() {
		for asked := (time.Time{}); ; {
			select {
			case s := <-signals:
				switch {
				case asked.IsZero():
					asked = time.Now()
				case time.Since(asked) < sameSignal:
					continue
				default:
					endNow()
					continue
				}
				got.Store(int32(s.(syscall.Signal)))
				d.tell.say("got %s: no more rows are started; those that are being worked on have %s, a second signal ends them now", guard.SignalName(s.(syscall.Signal)), d.patience())
				d.end(gotSignal{s.(syscall.Signal)})
			case <-done.Done():
				return
			}
		}
	}()
	return got
}

// passes drains once, or again and again.
func (d *drain) passes(ctx context.Context, handle rows.Handler) (sum rows.Result, err error) {
	for rest := followRest; ; {
		pass, stop := context.WithCancelCause(ctx)
		d.brake.begin(stop)
		var done rows.Result
		done, err = d.drainer.Drain(pass, handle)
		sum = added(sum, done)
		var away *rows.UnavailableError
		var blocked *rows.BlockedError
		stopped, pulled := braked(pass)
		if stop(nil); pulled && errors.Is(err, context.Canceled) {
			err = stopped
		}
		switch {
		case ctx.Err() != nil, !d.follow:
			return sum, err
		case pulled, errors.As(err, &away), errors.As(err, &blocked):
			d.tell.say("%v; the next look is in %s", err, rest)
		case err != nil:
			return sum, err
		default:
			rest = followRest
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
			timer.Stop()
			return sum, ctx.Err()
		case <-timer.C:
		}
		if err != nil {
			rest = min(2*rest, time.Minute)
		}
	}
}

// followRest is how long --follow waits before it looks for new rows.
const followRest = time.Second

// verdict is what the drain came to, as an exit code. What is said first is the worst.
func (d *drain) verdict(sum rows.Result, err error, got syscall.Signal) error {
	doubt := d.doubts(sum)
	var work *stopError // the end of the work: what it leaves in doubt is worse
	switch {
	case errors.As(err, &work) && doubt != "":
		return &cli.ExitError{Code: exitDoubt, Err: fmt.Errorf("%w; %s: %s", err, d.name(), doubt)}
	case err != nil && !errors.Is(err, context.Canceled):
		return drainError(err)
	case doubt != "":
		return &cli.ExitError{Code: exitDoubt, Err: fmt.Errorf("%s: %s", d.name(), doubt)}
	case sum.Failed+sum.Dead+sum.Crashed > 0:
		return &cli.ExitError{Code: exitFailed, Err: fmt.Errorf("%s: %s failed for good: their column %s says why", d.name(), counted(sum.Failed+sum.Dead+sum.Crashed, "row"), d.errorColumn())}
	case got != 0 && err != nil && !d.follow:
		return &cli.ExitError{Code: 128 + int(got), Err: fmt.Errorf("%s: stopped by %s; what is left is pending", d.name(), guard.SignalName(got))}
	case sum.Sent == 0 && sum.Retry > 0 && !d.follow:
		return &cli.ExitError{Code: exitBlocked, Err: fmt.Errorf("%s: nothing was sent: %s to be tried again later", d.name(), counted(sum.Retry, "row"))}
	}
	return nil
}

// doubts says which rows a person has to look at, and how.
func (d *drain) doubts(sum rows.Result) string {
	var all []string
	if n := sum.Unknown + sum.Doubtful + sum.Unrecorded; n > 0 {
		all = append(all, fmt.Sprintf("nobody knows whether %s in doubt went out: '%s' lists what is unknown", counted(n, "row"), d.reportCommand()))
	}
	if n := sum.Overtaken; n > 0 {
		all = append(all, fmt.Sprintf("the claim of %s ended during the work: they may be sent once more by others; they are named above", counted(n, "row")))
	}
	return strings.Join(all, "; ")
}

// open opens the table.
func (o *drainOptions) open(ctx context.Context, db *database) (*rows.Drainer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTime)
	defer cancel()
	d, err := rows.Open(ctx, db.DB, o.table, o.options)
	if err == nil {
		return d, nil
	}
	var table *rows.TableError
	switch {
	case errors.As(err, &table):
		err = &rows.TableError{Table: table.Table, What: table.What, Cure: asFlags(errors.New(table.Cure)).Error()}
	case cli.Code(drainError(err)) == cli.Failure: // of the options
		return nil, &cli.UsageError{Command: "drain", Err: asFlags(err)}
	}
	return nil, drainError(err)
}

// drainError gives an error of package rows its exit code.
func drainError(err error) error {
	code := cli.Failure
	var exit *cli.ExitError
	var table *rows.TableError
	var stale *rows.StaleError
	var blocked *rows.BlockedError
	var away *rows.UnavailableError
	switch {
	case errors.As(err, &exit):
		return err
	case errors.As(err, &table):
		code = cli.Config
	case errors.As(err, &stale):
		code = cli.LeaseLost
	case errors.As(err, &blocked):
		code = exitBlocked
	case errors.As(err, &away):
		code = cli.Unavailable
	}
	return &cli.ExitError{Code: code, Err: err}
}

// stopError stops the drain for a reason of the program that does the work.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// added is what several drains did, with what the last one left.
func added(a, b rows.Result) rows.Result {
	return rows.Result{
		Sent: a.Sent + b.Sent, Failed: a.Failed + b.Failed, Dead: a.Dead + b.Dead, Unknown: a.Unknown + b.Unknown, Retry: a.Retry + b.Retry,
		Returned: a.Returned + b.Returned, Lost: a.Lost + b.Lost, Overtaken: a.Overtaken + b.Overtaken, Reclaimed: a.Reclaimed + b.Reclaimed, Doubtful: a.Doubtful + b.Doubtful,
		Crashed: a.Crashed + b.Crashed, Unrecorded: a.Unrecorded + b.Unrecorded, Blocked: a.Blocked + b.Blocked, Left: b.Left,
	}
}

// counted is a number of things: 1 row, 2,000 rows.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	var b strings.Builder
	for i, r := range text {
		if left := len(text) - i; i > 0 && left%3 == 0 && text[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}
