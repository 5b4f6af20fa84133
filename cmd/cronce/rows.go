package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
)

// guardRows guards the commands of rows, one after the other, for a worker of drain. It ends
// when drain does, and the command with it. It is no command for people.
func guardRows(ctx context.Context) error {
	for _, fd := range []int{handover.RowOrdersFD, handover.RowReportFD} {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, syscall.FD_CLOEXEC); errno != 0 {
			return cli.Misuse("", "'guard-rows' is started by drain only")
		}
	}
	os.WriteFile("/proc/self/comm", []byte("cronce"), 0)
	signals, err := guard.Catch(forwarded...)
	if err != nil {
		return err
	}
	tasks := make(chan rowTask, 1)
	read := make(chan error, 1)
	go func() {
		defer close(tasks)
		read <- readRowTasks(ctx, tasks)
	}()
	report := json.NewEncoder(os.NewFile(handover.RowReportFD, "report"))
	for t := range tasks {
		for signals.Next() != 0 { // of a time without a command
		}
		if err := report.Encode(t.run()); err != nil {
			return err
		}
	}
	return <-read
}

// rowTask is a task, and the context that ends with a Stop or with drain.
type rowTask struct {
	handover.RowTask
	ctx context.Context
}

// readRowTasks passes tasks on until drain has ended.
func readRowTasks(ctx context.Context, tasks chan<- rowTask) error {
	stop := func(error) {}
	defer func() { stop(errors.New("drain has ended")) }()
	return handover.ReadRowOrders(os.NewFile(handover.RowOrdersFD, "orders"), func(t handover.RowTask) {
		stop(nil) // the one before has ended
		var of context.Context
		of, stop = context.WithCancelCause(ctx)
		tasks <- rowTask{t, of}
	}, func(why string) { stop(errors.New(why)) })
}

// cannotStart begins what package guard says of a command that it could not start.
const cannotStart = "cannot start "

func (t rowTask) run() handover.RowReport {
	if t.Version != build.Version() {
		return handover.RowReport{Result: cronce.Result{ExitCode: cli.Config, Message: fmt.Sprintf(
			"drain is cronce %s and its guard is %s: install both from one release", t.Version, build.Version())}}
	}
	c := guard.Command{
		Path: string(t.Path), Args: handover.Strings(t.Args), Env: handover.Strings(t.Env),
		Grace: t.Grace,
	}
	var left string // how it ended whose children go on
	if t.Stream {
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		c.Orphans = cronce.OrphansKill // its rows have their answers
	} else {
		c.Input = string(t.Input)
		c.Orphaned = func(r cronce.Result) { left = cmp.Or(r.Message, "exit 0") }
	}
	r := guard.Run(t.ctx, c)
	if r.Outcome == cronce.Cancelled && left != "" && left != r.Message {
		r.Message += ": " + left + ", and what it had left in the background had not ended"
	}
	return handover.RowReport{Result: r, Output: r.Output, Started: !strings.HasPrefix(r.Message, cannotStart)}
}
