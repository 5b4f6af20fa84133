package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
)

// guards start a guard process for every run of a job.
type guards struct {
	thin  *thin
	reap  *reaper
	store *cronce.Store
	dir   string // of the store, as --store gave it
	job   *crontab.Job
	argv  []string // in place of the line's command
	out   *lines

	anywhere bool // a job whose HOME is not there is run all the same
}

// thin is the other of our two programs, kept open: an upgrade that replaces
// the file must not leave a serve that claims ticks without being able to
// start a guard for them.
type thin struct {
	file *os.File
	path string
}

// openThin finds the thin program beside this one.
func openThin() (*thin, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(filepath.Join(filepath.Dir(self), "cronce"))
	}
	if err != nil {
		return nil, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"cronce must stand beside this program: install both into one folder: %w", err)}
	}
	// By our process id: in the child its own descriptors have other numbers.
	return &thin{f, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())}, nil
}

// showFor is how long the end of a run waits for the last lines of its output.
const showFor = time.Second

// work sees one run through: it hands the lease to a guard process and waits
// for its report.
func (g *guards) work(ctx context.Context, l cronce.Lease, begun func()) (cronce.Result, error) {
	p, err := g.start(l)
	if err != nil {
		return g.notStarted(ctx, l, err)
	}
	defer p.orders.Close()
	defer p.report.Close()
	// A guard that dies early closes its end; Hear then finds no report.
	task := g.task(l)
	if p.borrower != nil {
		task.Env = append(task.Env, handover.Bytes(p.borrower.mark))
	}
	handover.Give(p.orders, task)
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			handover.Order(p.orders, handover.Stop{Why: context.Cause(ctx).Error()})
		case <-ended:
		}
	}()
	r, err, ok := handover.Hear(p.report, begun)
	close(ended)
	switch {
	case !ok && g.store.Shared():
		r, err = p.borrower.bury(ctx)
	case !ok:
		l.Lock.Close()
		r, err = cronce.Result{Outcome: cronce.Lost, Message: "its guard process was killed"}, errors.New("what it started may go on; while it does, the job is held")
	case r.Outcome == "":
		r, err = g.notStarted(ctx, l, err)
	case err == nil && !g.store.Shared():
		// On record already: this only lets go of our part of the lease.
		err = g.store.Finish(context.WithoutCancel(ctx), l, r)
	}
	timer := time.NewTimer(showFor)
	defer timer.Stop()
	select {
	case <-p.shown:
	case <-timer.C: // left-over processes may print for ever
	}
	return r, err
}

// notStarted finishes a lease for which nothing was started.
func (g *guards) notStarted(ctx context.Context, l cronce.Lease, why error) (cronce.Result, error) {
	r := cronce.Result{Outcome: cronce.Failed, Message: "not started: " + why.Error()}
	return r, g.store.Conclude(context.WithoutCancel(ctx), l, r)
}

// process is a guard process and our ends of its pipes.
type process struct {
	orders, report *os.File
	shown          chan struct{} // closed when all of its output is in the lines
	borrower       *borrower     // of a shared store; nil: it is local
}

// start starts a guard process.
func (g *guards) start(l cronce.Lease) (*process, error) {
	var files pipes
	ordersR, orders, err1 := files.open()
	report, reportW, err2 := files.open()
	printed, printing, err3 := files.open()
	err := errors.Join(err1, err2, err3)
	keeps := l.Lock
	var ours *os.File
	if err == nil && g.store.Shared() {
		if ours, keeps, err = socketPair(); err == nil {
			files = append(files, ours, keeps)
		}
	}
	var wait func() error
	var pid int
	if err == nil {
		cmd := exec.Command(g.thin.path)
		cmd.Args = []string{"cronce", "guard"}
		cmd.Stdout, cmd.Stderr = printing, printing
		// Ctrl-C at a terminal is for serve, which lets the runs end.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.ExtraFiles = []*os.File{keeps, ordersR, reportW}
		if ours == nil {
			wait, err = g.reap.start(cmd)
		} else {
			// It must not go on without this process, which renews its lease.
			cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
			onLastingThread(func() { wait, err = g.reap.start(cmd) })
		}
		if err == nil {
			pid = cmd.Process.Pid
		}
	}
	if err != nil {
		files.close()
		return nil, fmt.Errorf("no guard process: %w", err)
	}
	ordersR.Close()
	reportW.Close()
	printing.Close()
	p := &process{orders: orders, report: report, shown: make(chan struct{})}
	if ours == nil {
		go wait()
	} else {
		keeps.Close()
		p.borrower = newBorrower(g.store, pid, l)
		// Not the run's id: that of an @reboot line is the same in every store that this host uses.
		p.borrower.mark = "CRONCE_GUARD=" + cronce.NewRunID()
		go p.borrower.serve(ours, wait)
	}
	go func() {
		defer close(p.shown)
		o := &output{lines: g.out, job: g.job.Name}
		io.Copy(o, printed)
		o.end()
		printed.Close()
	}()
	return p, nil
}

// task is what the guard is to do.
func (g *guards) task(l cronce.Lease) handover.Task {
	line := g.job.Lines[0]
	env := environment(line)
	dir, _ := lookup(env, "HOME")
	if info, err := os.Stat(dir); g.anywhere && (err != nil || !info.IsDir()) {
		dir = "/"
	}
	path, args := line.Shell(), []string{filepath.Base(line.Shell()), "-c", line.Command}
	if g.argv != nil {
		path, args = lookPath(g.argv[0], env), g.argv
	}
	return handover.Task{
		Version: build.Version(), Store: cli.WithoutSecrets(g.dir), Shared: g.store.Shared(), Lease: l,
		Job: g.job.Job, Warning: warning(g.job.Job, l),
		Path: handover.Bytes(path), Args: handover.BytesOf(args),
		Env: handover.BytesOf(cli.CommandEnvironment(env)), Dir: handover.Bytes(dir), Input: handover.Bytes(line.Stdin),
	}
}

// lookPath finds a program by the PATH that it will have. One that is not there
// keeps its name, so that starting it says so.
func lookPath(name string, env []string) string {
	list, _ := lookup(env, "PATH")
	path, err := guard.LookPath(name, list)
	if err != nil {
		return name
	}
	return path
}

// warning is when a run is to say that it goes on for long.
func warning(job cronce.Job, l cronce.Lease) time.Duration {
	if s, err := job.Parse(); err == nil {
		return job.Warning(s, l.Run.Tick)
	}
	return job.WarnAt // an @reboot line alone
}

// environment is serve's own, changed by the crontab.
func environment(line *crontab.Line) []string {
	me := account()
	env := append([]string{"HOME=" + me.HomeDir, "LOGNAME=" + me.Username, "PATH=/usr/bin:/bin"}, os.Environ()...)
	env = append(env, line.Env...)
	return append(env, "SHELL="+line.Shell())
}

// lookup returns the variable's value; the last of two counts, as for a process.
func lookup(env []string, name string) (value string, ok bool) {
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v, true
		}
	}
	return "", false
}
