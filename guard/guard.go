// Package guard watches over one run's command: it starts it, passes its
// signals and output on, and ends it and all its descendants when it must. It
// never decides whether to run.
//
// [Run] takes over the whole process: it makes it the reaper of its
// descendants, and waits for every child it has. One guard process guards one
// command.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// LockFD is the number at which the command inherits the job's lock: above
// what shell scripts use for their own redirections, below the usual limit.
const LockFD = 198

// Command is a command to guard.
type Command struct {
	Path     string   // of the program's file; see LookPath
	NotFound error    // why there is no such file, if LookPath said so: the run then fails
	Args     []string // with its name in front
	Env      []string // its whole environment, as os.Environ
	Dir      string   // empty: the guard's own

	Input                 string   // what it reads, if Stdin is nil
	Stdin, Stdout, Stderr *os.File // nil: nothing
	// Terminal says that one of them is a terminal. They are then handed down
	// as they are, nothing is kept of the output, and the command stays in the
	// guard's process group, or it could not read from the terminal.
	Terminal bool

	// Tail, if set, keeps the end of its output, behind what is there already; it
	// is one of its own otherwise.
	Tail *Tail

	Lock    *os.File      // inherited, so that the job stays locked while any process has it open; may be nil
	Timeout time.Duration // it is ended after this; 0: never
	Began   time.Duration // on SinceBoot, where Timeout counts from; 0: from the command's start
	Grace   time.Duration // between TERM and KILL; 0: cronce.DefaultGrace
	Orphans cronce.Orphans

	// Lease, if set, tells until when the run may go on, on SinceBoot: at stop its end
	// begins, if it has not, and at end everything that is left is killed. Both move
	// on while the lease is renewed.
	Lease func() (stop, end time.Duration)

	// Lasts, if set, is called once the command has been running for Short.
	Lasts func()
	// Orphaned, if set, is told how the command itself has ended when
	// descendants of it go on.
	Orphaned func(cronce.Result)
}

// Short is a run so short that what looks after longer ones need not be begun.
const Short = 100 * time.Millisecond

// OutputLost is the exit code of a command that succeeded but of whose output
// a part could not be written, as on a full disk: EX_IOERR of sysexits.h.
const OutputLost = 74

// Run starts the command and waits for its end and, unless Orphans is leave,
// for the end of all its descendants. When ctx ends or the timeout passes,
// all of them get TERM and, when the grace is over, KILL. Signals that were
// caught, see [Catch], are passed on to the command.
func Run(ctx context.Context, c Command) cronce.Result {
	if c.Grace == 0 {
		c.Grace = cronce.DefaultGrace
	}
	if c.NotFound != nil {
		return cannotStart(c, c.NotFound)
	}
	if err := BecomeReaper(); err != nil {
		return cronce.Result{Outcome: cronce.Failed, ExitCode: 126, Message: "cannot become the reaper of the command's children: " + err.Error()}
	}
	signals, err := Catch()
	if err != nil {
		return cronce.Result{Outcome: cronce.Failed, ExitCode: 126, Message: err.Error()}
	}
	out, err := newStreams(c)
	if err != nil {
		return cronce.Result{Outcome: cronce.Failed, ExitCode: 126, Message: err.Error()}
	}
	pid, err := start(c, out)
	if err != nil {
		out.abandon()
		return cannotStart(c, err)
	}
	out.give(c.Input)
	g := &guarded{c: c, signals: signals, out: out, pid: pid, began: SinceBoot()}
	if c.Began == 0 {
		g.c.Began = g.began
	}
	defer context.AfterFunc(ctx, signals.ring)()
	r := g.watch(ctx)
	g.deliver(ctx, &r)
	r.Output, r.OutputBytes = out.tail.Bytes()
	return r
}

// Direct reports whether the command's output goes past the guard, so that
// nothing is kept of it. A daemon that outlives the guard must not find its
// output closed.
func (c Command) Direct() bool { return c.Terminal || c.Orphans == cronce.OrphansLeave }

// start starts the command.
func start(c Command, out *streams) (pid int, err error) {
	if c.Lock != nil {
		// A copy that is inherited: F_DUPFD leaves close-on-exec off. No other
		// child of this process can catch it, for there is none.
		fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, c.Lock.Fd(), syscall.F_DUPFD, lockFD())
		if errno != 0 {
			return 0, fmt.Errorf("its copy of the job's lock: %w", errno)
		}
		defer syscall.Close(int(fd))
	}
	attr := &syscall.ProcAttr{
		Dir: c.Dir, Env: lastOfEach(c.Env),
		Files: []uintptr{uintptr(out.child[0]), uintptr(out.child[1]), uintptr(out.child[2])},
		Sys:   &syscall.SysProcAttr{Setpgid: !c.Terminal},
	}
	pid, err = syscall.ForkExec(c.Path, c.Args, attr)
	if err == syscall.ENOEXEC && len(c.Args) > 0 && isText(c.Path) {
		// A script without #!: as execvp(3) and every shell do.
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"/bin/sh", "--", c.Path}, c.Args[1:]...), attr)
	}
	out.started()
	return pid, err
}

// lockFD is the descriptor number for the lock: LockFD, or the highest that a
// lower limit on open files allows.
func lockFD() uintptr {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur <= LockFD {
		return uintptr(limit.Cur) - 1
	}
	return LockFD
}

// guarded is a command that was started.
type guarded struct {
	c       Command
	signals *Signals
	out     *streams
	pid     int
	began   time.Duration // on SinceBoot

	ending bool // all of it is being ended
	ended  bool // the command itself
	alone  bool // no child is left
	status syscall.WaitStatus

	forwarded syscall.Signal // the last one that was passed on
}

// wait waits for a signal, an end and output, all in one place and by no other
// goroutine: every switch between threads takes time from a short run. What is
// there to be passed on gets a goroutine, as whoever reads it may not.
func (g *guarded) wait(limit time.Duration) {
	fds := append(make([]pollFD, 0, 3), pollFD{fd: int32(g.signals.read), events: pollIn})
	for _, src := range g.out.sources {
		fds = append(fds, pollFD{fd: int32(src.fd), events: pollIn})
	}
	poll(fds, limit)
	for i, src := range g.out.sources {
		switch got := fds[1+i].revents; {
		case got&pollIn != 0:
			g.out.begin(src)
		case got != 0:
			src.close()
		}
	}
}

// reap collects the command and every descendant that was left to us, as far
// as they have ended.
func (g *guarded) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			g.alone = true
			return
		case pid == 0:
			return
		case pid == g.pid:
			g.ended, g.status = true, status
		}
	}
}

// lookEvery is how often the deadlines are looked at, and what has ended is
// collected: timers stand still while the machine sleeps, the clock that
// deadlines are on does not.
const lookEvery = time.Second

// watch sees the command through to its end.
func (g *guarded) watch(ctx context.Context) cronce.Result {
	var (
		why      cronce.Result // why we ended it, if we did
		kill     time.Duration // when KILL is due, on SinceBoot
		orphaned bool          // the command has ended and what it left goes on
		lasts    = g.c.Lasts
	)
	end := func(outcome cronce.Outcome, message string) {
		if !g.ending {
			g.ending, kill = true, SinceBoot()+g.c.Grace
			why.Outcome, why.Message = outcome, message
			g.signalAll(syscall.SIGTERM)
		}
	}
	for {
		now := SinceBoot()
		wait := lookEvery
		if lasts != nil && now >= g.began+Short {
			lasts()
			lasts = nil
		} else if lasts != nil {
			wait = g.began + Short - now
		}
		if g.c.Timeout > 0 && !g.ending {
			if now >= g.c.Began+g.c.Timeout {
				end(cronce.TimedOut, g.c.timedOut())
			}
			wait = min(wait, g.c.Began+g.c.Timeout-now)
		}
		if g.c.Lease != nil {
			stop, last := g.c.Lease()
			if now >= stop {
				end(cronce.Cancelled, notRenewed)
			} else {
				wait = min(wait, stop-now)
			}
			if g.ending {
				kill = min(kill, last)
			}
		}
		if g.ending {
			wait = min(wait, kill-now)
			if now >= kill {
				g.signalAll(syscall.SIGKILL)
				wait = killEvery
			}
		}
		g.wait(max(wait, 0))
		for sig := g.signals.Next(); sig != 0; sig = g.signals.Next() {
			g.forwarded = sig
			g.forward(sig)
		}
		g.reap() // also what has left the command, and ended before it
		if ctx.Err() != nil {
			end(cronce.Cancelled, context.Cause(ctx).Error())
		}
		switch {
		case g.alone, g.ended && g.c.Orphans == cronce.OrphansLeave:
			return g.result(why)
		case g.ended && !orphaned:
			orphaned = true
			if g.c.Orphaned != nil {
				g.c.Orphaned(g.result(why))
			}
			if g.c.Orphans == cronce.OrphansKill {
				end("", "")
			}
		}
	}
}

// notRenewed is why a run was ended with its lease.
const notRenewed = "the lease could not be renewed"

// timedOut is why a run was ended at its timeout.
func (c Command) timedOut() string { return fmt.Sprintf("longer than its timeout of %s", c.Timeout) }

// deliver waits until all that the command printed has been passed on. Whoever
// reads it may have stopped doing so: what would have ended the command ends
// this too, a grace later, and then it is the run's end.
func (g *guarded) deliver(ctx context.Context, r *cronce.Result) {
	var passed atomic.Bool
	if g.out.finish() {
		go func() {
			g.out.copying.Wait()
			passed.Store(true)
			g.signals.ring()
		}()
	} else {
		passed.Store(true)
	}
	var (
		why   cronce.Result                                                             // why it is not waited for, once there is a reason
		limit time.Duration                                                             // until when, on SinceBoot; 0: for ever
		grace = func() time.Duration { return SinceBoot() + max(g.c.Grace, lookEvery) } // to pass on takes a moment, however short the grace
	)
	switch {
	case r.Outcome == cronce.TimedOut, r.Outcome == cronce.Cancelled:
		why, limit = *r, grace()
	case g.forwarded != 0 && g.forwarded != syscall.SIGHUP: // which often means something else
		why, limit = interrupted(g.forwarded), grace()
	case g.c.Timeout > 0:
		limit = g.c.Began + g.c.Timeout
	}
	done := false
	for !passed.Load() {
		wait := lookEvery
		if limit > 0 {
			wait = min(wait, max(limit-SinceBoot(), 0))
		}
		g.signals.poll(wait)
		switch sig := g.signals.Next(); {
		case sig != 0:
			why, limit = interrupted(sig), grace()
		case !done && ctx.Err() != nil:
			done = true
			why, limit = cronce.Result{Outcome: cronce.Cancelled, Message: context.Cause(ctx).Error()}, grace()
		case limit == 0 || SinceBoot() < limit || passed.Load():
		case why.Outcome == "":
			why, limit = cronce.Result{Outcome: cronce.TimedOut, Message: g.c.timedOut()}, grace()
		default:
			r.Outcome, r.Message = why.Outcome, why.Message+": nobody reads its output"
			if r.ExitCode == 0 {
				r.ExitCode = why.ExitCode
			}
			return
		}
	}
	if err := g.out.lost(); err != nil && r.Outcome == cronce.Succeeded {
		r.Outcome, r.ExitCode, r.Message = cronce.Failed, OutputLost, err.Error()
	} else if err != nil {
		r.Message += "; " + err.Error()
	}
}

// interrupted is the result of a run that a signal ended.
func interrupted(s syscall.Signal) cronce.Result {
	return cronce.Result{Outcome: cronce.Cancelled, ExitCode: 128 + int(s), Message: "got " + SignalName(s)}
}

// result is how the command itself ended, unless it was ended by us, or by a
// signal that was passed on.
func (g *guarded) result(why cronce.Result) cronce.Result {
	r := EndOf(g.status)
	if why.Outcome != "" {
		r.Outcome, r.Message = why.Outcome, why.Message
		return r
	}
	if r.Outcome != cronce.Failed {
		return r
	}
	if s, sent := g.sent(); sent {
		r.Outcome, r.Message = cronce.Cancelled, "got "+SignalName(s)
	}
	return r
}

// sent returns the signal that made a command fail: one that was passed on, or
// that was sent to the guard and the command at once, by a terminal or an init
// system. The latter may be told to us only after the command's end.
func (g *guarded) sent() (syscall.Signal, bool) {
	died := g.status.Signal() // -1: it did not
	ofTerminal := g.c.Terminal && (died == syscall.SIGINT || died == syscall.SIGQUIT)
	switch {
	case g.forwarded != 0:
	case ofTerminal:
		return died, true
	case g.c.Terminal, died == syscall.SIGTERM, died == syscall.SIGINT, died == syscall.SIGHUP, died == syscall.SIGQUIT:
		g.forwarded = g.signals.Wait(context.Background(), 100*time.Millisecond)
	}
	return g.forwarded, g.forwarded != 0
}

// killEvery is how often what is left is looked for and killed: a process that
// forks while it is being killed leaves a child that was not seen.
const killEvery = 20 * time.Millisecond

// signalAll signals every descendant, also those that left the group or the
// session.
func (g *guarded) signalAll(sig syscall.Signal) {
	pids := descendants()
	if len(pids) == 0 && !g.ended {
		pids = append(pids, g.pid) // there is no /proc
	}
	for _, pid := range pids {
		syscall.Kill(pid, sig)
		if sig == syscall.SIGTERM {
			syscall.Kill(pid, syscall.SIGCONT) // a stopped process would not hear it
		}
	}
}

// forward passes a signal on to the command. What a terminal sends, it sends
// to the whole group itself. What is left when the command has ended may be in
// any group.
func (g *guarded) forward(s syscall.Signal) {
	switch {
	case g.c.Terminal && (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground():
	case g.ended:
		g.signalAll(s)
	case g.c.Terminal:
		syscall.Kill(g.pid, s)
	default:
		syscall.Kill(-g.pid, s)
	}
}

// EndOf is how a command ended by itself.
func EndOf(status syscall.WaitStatus) cronce.Result {
	switch {
	case status.Signaled():
		name := SignalName(status.Signal())
		return cronce.Result{Outcome: cronce.Failed, Signal: name, ExitCode: 128 + int(status.Signal()), Message: "ended by " + name}
	case status.ExitStatus() != 0:
		code := status.ExitStatus()
		return cronce.Result{Outcome: cronce.Failed, ExitCode: code, Message: fmt.Sprintf("exit %d", code)}
	}
	return cronce.Result{Outcome: cronce.Succeeded}
}

// cannotStart is the result of a command that never ran, with a shell's exit
// codes: 127 where there is none, 126 where it cannot be executed.
func cannotStart(c Command, err error) cronce.Result {
	r := cronce.Result{Outcome: cronce.Failed, ExitCode: 126}
	info, dirErr := os.Stat(c.Dir)
	switch {
	case c.Dir != "" && dirErr != nil:
		err = fmt.Errorf("its working directory: %w", dirErr)
	case c.Dir != "" && !info.IsDir():
		err = fmt.Errorf("its working directory %s is none", c.Dir)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, ErrNotFound):
		r.ExitCode = 127
		if _, statErr := os.Stat(c.Path); statErr == nil {
			err = errors.New("the interpreter that it names is not there")
		}
	case errors.Is(err, syscall.E2BIG):
		err = errors.New("its arguments and environment are larger than the system allows")
	}
	r.Message = fmt.Sprintf("cannot start %s: %v", c.Path, err)
	return r
}
