package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
	"github.com/cronce/cronce/schedule"
)

// guards start a guard process for every run of a job.
type guards struct {
	thin     string // the program
	store    *cronce.Store
	dir      string // of the store, as --store gave it
	job      *crontab.Job
	schedule *schedule.Schedule // the job's
	out      *lines
}

// beside finds the other of our two programs.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"%s must stand beside this program: install both into one folder: %w", name, err)}
	}
	return path, nil
}

// work sees one run through: it hands the lease to a guard process and waits
// for its report.
func (g *guards) work(ctx context.Context, l cronce.Lease) (cronce.Result, error) {
	defer l.Lock.Close()
	ordersR, orders, err := os.Pipe()
	if err != nil {
		return cronce.Result{Outcome: cronce.Lost}, err
	}
	defer orders.Close()
	defer ordersR.Close()
	report, reportW, err := os.Pipe()
	if err != nil {
		return cronce.Result{Outcome: cronce.Lost}, err
	}
	defer report.Close()
	defer reportW.Close()
	printed, printing, err := os.Pipe()
	if err != nil {
		return cronce.Result{Outcome: cronce.Lost}, err
	}
	defer printing.Close()

	cmd := exec.Command(g.thin, "guard")
	cmd.Stdout, cmd.Stderr = printing, printing
	// Ctrl-C at a terminal is for serve, which lets the runs end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{l.Lock, ordersR, reportW}
	if err := cmd.Start(); err != nil {
		printed.Close()
		return cronce.Result{Outcome: cronce.Lost}, fmt.Errorf("no guard process: %w", err)
	}
	printing.Close()
	reportW.Close()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		defer printed.Close()
		o := &output{lines: g.out, job: g.job.Name}
		io.Copy(o, printed)
		o.end()
	}()
	// A guard that dies early closes its end; Hear then finds no report.
	handover.Give(orders, g.task(l))
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			handover.Order(orders, handover.Stop{Why: context.Cause(ctx).Error()})
		case <-ended:
		}
	}()
	r, err, ok := handover.Hear(report)
	close(ended)
	cmd.Wait()
	if g.job.Orphans != cronce.OrphansLeave {
		<-shown // else what was left behind may print for ever
	}
	switch {
	case !ok:
		return cronce.Result{Outcome: cronce.Lost, Message: "its guard process was killed"}, errors.New("what it started may go on; while it does, the job is held")
	case err == nil:
		// On record already: this only lets go of our part of the lease.
		err = g.store.Finish(context.WithoutCancel(ctx), l, r)
	}
	return r, err
}

// task is what the guard is to do.
func (g *guards) task(l cronce.Lease) handover.Task {
	line := g.job.Lines[0]
	env := environment(line)
	dir, _ := lookup(env, "HOME")
	return handover.Task{
		Version: build.Version(), Store: g.dir, Lease: l,
		Job: g.job.Job, Warning: g.job.Warning(g.schedule, l.Run.Tick),
		Path: line.Shell(), Args: []string{filepath.Base(line.Shell()), "-c", line.Command},
		Env: env, Dir: dir, Input: line.Stdin,
	}
}

// environment is serve's own, changed by the crontab.
func environment(line *crontab.Line) []string {
	me := account()
	env := append([]string{"HOME=" + me.HomeDir, "LOGNAME=" + me.Username, "PATH=/usr/bin:/bin"}, os.Environ()...)
	env = append(env, line.Env...)
	return append(env, "SHELL="+line.Shell())
}
