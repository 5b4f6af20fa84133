package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
	"github.com/cronce/cronce/rows"
)

// handler is what does the work of a row, as the command line says, and what ends it when all is done.
func (d *drain) handler() (handle rows.Handler, finish func() error, err error) {
	if d.post != nil {
		return d.postRow, func() error { return nil }, nil
	}
	path, err := lookCommand(d.command[0])
	if err != nil {
		return nil, nil, err
	}
	thin, err := openThin()
	if err != nil {
		return nil, nil, err
	}
	w := &rowGuards{drain: d, thin: thin, path: path, idle: make(chan *rowGuard, max(d.options.Workers, 1))}
	if d.lines {
		l := &lineWorker{guards: w}
		return l.row, l.finish, nil
	}
	return w.row, w.finish, nil
}

// The exit codes of a shell for a command that cannot be run, or is not there.
const (
	exitNoProgram = 126
	exitNoCommand = 127
)

// lookCommand finds the command before any row is claimed for it.
func lookCommand(name string) (string, error) {
	path, err := guard.LookPath(name, os.Getenv("PATH"))
	if err != nil {
		return "", &cli.ExitError{Code: exitNoCommand, Err: err}
	}
	const execute = 1 // X_OK
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", &cli.ExitError{Code: exitNoCommand, Err: err}
	case info.IsDir():
		return "", &cli.ExitError{Code: exitNoProgram, Err: fmt.Errorf("%s is a folder", path)}
	}
	if err := syscall.Access(path, execute); err != nil {
		return "", &cli.ExitError{Code: exitNoProgram, Err: fmt.Errorf("%s cannot be run: %w", path, err)}
	}
	return path, nil
}

// permanentExits are the exit codes of what will never do: that of sysexits.h, and qmail's.
var permanentExits = []int{65, 100} // EX_DATAERR

// doubtful reports whether an exit code says that nobody knows what was done: in so many words, or as timeout(1) says that it has ended the
// command (124), and shells that a signal has (128 and its number).
func doubtful(code int) bool {
	return code == exitDoubt || code == 124 || code > 128 && code <= 128+lastSignal
}

const lastSignal = 64

// rowGrace is how long a command has between TERM and KILL: less than what is left of a lease after the time-out.
const rowGrace = 2 * time.Second

// rowGuards run a command for each row, each under a guard process, of which every worker keeps one.
type rowGuards struct {
	*drain
	thin *thin
	path string
	idle chan *rowGuard
	all  sync.WaitGroup
}

// row runs the command.
func (w *rowGuards) row(ctx context.Context, row rows.Row) error {
	all := fields(w.drainOptions.table, row)
	input, err := rowJSON(all)
	if err != nil {
		return rows.Permanent(err)
	}
	var g *rowGuard
	select {
	case g = <-w.idle:
	default:
		if g, err = w.start(nil); err != nil {
			return w.unable(exitNoProgram, err)
		}
	}
	report, err := g.run(ctx, w.ending, handover.RowTask{
		Version: build.Version(), Path: handover.Bytes(w.path), Args: handover.BytesOf(w.command), Input: append(input, '\n'),
		Env: handover.BytesOf(append(rowEnvironment(rowKey(w.drainOptions.table.Name, row.Key), row.Attempt, all), g.mark)), Grace: rowGrace,
	})
	if err != nil {
		g.bury()
		return rows.InDoubt(err)
	}
	w.idle <- g
	w.tell.output(report.Output)
	if !report.Started {
		return w.unable(report.Result.ExitCode, errors.New(report.Result.Message))
	}
	err = ended(ctx, report)
	d := w.drain
	switch code := report.Result.ExitCode; {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.brake.met("time-out", err)
	case report.Result.Signal == "" && (code == exitNoProgram || code == exitNoCommand):
		d.brake.met(strconv.Itoa(code), err)
	default:
		d.brake.met("", err)
	}
	return err
}

// unable stops the drain: nothing could be started, and the next row would fare no better.
func (w *rowGuards) unable(code int, err error) error {
	w.end(&stopError{&cli.ExitError{Code: code, Err: err}})
	return rows.Untried(err)
}

// ended is what the end of a row's command says of the row.
func ended(ctx context.Context, report handover.RowReport) error {
	r := report.Result
	if r.Outcome == cronce.Succeeded {
		return nil
	}
	err := errors.New(r.Message + lastLine(report.Output))
	switch {
	case ctx.Err() != nil: // rows says why
		return err
	case r.Signal != "", r.Outcome != cronce.Failed, doubtful(r.ExitCode):
		return rows.InDoubt(err)
	case slices.Contains(permanentExits, r.ExitCode):
		return rows.Permanent(err)
	}
	return err
}

// lastLine is the last that a command printed, to stand behind a message.
func lastLine(output []byte) string {
	text := bytes.TrimSpace(output)
	text = bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:])
	if len(text) == 0 {
		return ""
	}
	return ": " + string(cli.Readable(text[:min(len(text), maxLastLine)]))
}

// maxLastLine bounds what is kept as a row's error.
const maxLastLine = 400

// finish ends the guards.
func (w *rowGuards) finish() error {
	close(w.idle)
	for g := range w.idle {
		g.close()
	}
	w.all.Wait()
	w.thin.file.Close()
	return nil
}

// rowGuard is a guard process. Its command ends with it, and it with this process.
type rowGuard struct {
	mark   string // a variable that its commands have, by which they are found when it was killed
	orders *os.File
	report *os.File
	heard  *json.Decoder
}

// start starts a guard process; streams are its standard ones, if it is to hand them to its command.
func (w *rowGuards) start(streams *[3]*os.File) (*rowGuard, error) {
	var files pipes
	ordersR, orders, err1 := files.open()
	report, reportW, err2 := files.open()
	if err := errors.Join(err1, err2); err != nil {
		files.close()
		return nil, err
	}
	cmd := exec.Command(w.thin.path)
	cmd.Args = []string{"cronce", "guard-rows"}
	cmd.Stderr = os.Stderr
	if streams != nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = streams[0], streams[1], streams[2]
	}
	// Ctrl-C at a terminal is for drain, which lets what has begun come to its end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{ordersR, reportW}
	if err := cmd.Start(); err != nil {
		files.close()
		return nil, fmt.Errorf("no guard process: %w", err)
	}
	ordersR.Close()
	reportW.Close()
	w.all.Go(func() { cmd.Wait() })
	return &rowGuard{mark: "CRONCE_WORKER=" + cronce.NewRunID(), orders: orders, report: report, heard: json.NewDecoder(report)}, nil
}

// run has the guard run a command and returns how it ended. It is ended when one of the contexts does. The error is
// that the guard was killed.
func (g *rowGuard) run(ctx, ending context.Context, t handover.RowTask) (report handover.RowReport, err error) {
	if err := handover.GiveRow(g.orders, t); err != nil {
		return report, errors.New("its guard process has ended")
	}
	var stopping sync.WaitGroup
	done := make(chan struct{})
	stopping.Go(func() {
		select {
		case <-ctx.Done():
			handover.StopRow(g.orders, context.Cause(ctx).Error())
		case <-ending.Done():
			handover.StopRow(g.orders, "ended by a second signal")
		case <-done:
		}
	})
	err = g.heard.Decode(&report)
	close(done)
	stopping.Wait()
	if err != nil {
		return report, errors.New("its guard process was killed")
	}
	return report, nil
}

// bury ends what a guard that was killed has left.
func (g *rowGuard) bury() {
	g.close()
	endTold(g.mark)
}

// close lets the guard end.
func (g *rowGuard) close() {
	g.orders.Close()
	g.report.Close()
}
