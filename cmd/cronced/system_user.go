package main

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// userOrder is what the serve of one user is told, by encoding/gob.
type userOrder struct {
	Jobs  []userJob // those there are now; none: as before
	Rest  bool      // there is none now: end when no run goes on, unless some come again
	Drain bool      // start no more runs
	End   bool      // and end those that go on
	Turns []string  // that have come, by id

	// Said once, at first.
	Bounded   bool      // there are turns to ask for
	NotBefore time.Time // what was due by then is not caught up
}

// userJob is a job on its way to the serve of its user.
type userJob struct {
	Lines  []*crontab.Line
	AtBoot bool // its @reboot line is due: it was there when the machine began to be served
}

// The descriptors of a user's serve, beside the standard three.
const (
	ordersFD = 3 // userOrders
	thinFD   = 4 // the thin program, kept open
	turnsFD  = 5 // where it asks for its turns, see turns
)

// phase is how far a user's serve is.
type phase int

const (
	serving phase = iota
	draining
	ending
)

// userServe keeps a process for one user, which serves that user's jobs. It
// trusts that process with nothing: its lines are text, and its turns counted.
type userServe struct {
	system  *system
	account systemAccount
	stopped chan struct{} // closed at the first stop
	gone    chan struct{} // closed when there is no process any more

	mu      sync.Mutex
	jobs    []userJob
	more    chan struct{} // told of jobs where there were none
	rested  bool          // the process there is was told to rest
	phase   phase
	process *os.Process // there is now, nil if there is none
	woken   int         // how often, as it was stopped when it was to end
	feed    *feed       // of it
}

func newUserServe(s *system, account systemAccount, jobs []userJob) *userServe {
	u := &userServe{system: s, account: account, jobs: jobs, more: make(chan struct{}, 1), stopped: make(chan struct{}), gone: make(chan struct{})}
	go u.keep()
	return u
}

// set has other jobs served, by the process that there is, however it is. With
// none it ends when it has no run, and is started when there are some again.
func (u *userServe) set(jobs []userJob) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if reflect.DeepEqual(jobs, u.jobs) {
		return
	}
	u.jobs = jobs
	if len(jobs) > 0 {
		select {
		case u.more <- struct{}{}:
		default:
		}
	}
	if u.feed != nil {
		u.rested = u.rested || len(jobs) == 0
		u.feed.put(userOrder{Jobs: jobs, Rest: len(jobs) == 0})
	}
}

// awaitJobs waits until there are jobs to serve; ok is false if it is stopped.
func (u *userServe) awaitJobs() (ok bool) {
	for {
		u.mu.Lock()
		some := len(u.jobs) > 0
		u.mu.Unlock()
		if some {
			return true
		}
		select {
		case <-u.more:
		case <-u.stopped:
			return false
		}
	}
}

// stop has it start no more runs, or also end those that go on.
func (u *userServe) stop(to phase) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.phase == serving {
		close(u.stopped)
	}
	u.phase = max(u.phase, to)
	if u.feed != nil {
		u.feed.put(userOrder{Drain: true, End: u.phase == ending})
	}
}

// A process that ends unasked is started anew after a pause, which doubles up
// to the longest until one has lived for that long.
const (
	shortestPause = time.Second
	longestPause  = time.Minute
)

// keep starts the process, anew where it ends unasked.
func (u *userServe) keep() {
	defer close(u.gone)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		if !u.awaitJobs() {
			return
		}
		began := time.Now()
		rested, err := u.once()
		select {
		case <-u.stopped:
			if err != nil {
				u.say("PROBLEM    %v", err)
			}
			return
		default:
		}
		if rested && err == nil {
			continue
		}
		if err == nil {
			err = errors.New("it ended unasked")
		}
		if time.Since(began) >= longestPause {
			pause = shortestPause
		}
		u.say("NOT SERVED %v; again in %s", err, pause)
		select {
		case <-time.After(pause):
		case <-u.stopped:
			return
		}
	}
}

func (u *userServe) say(format string, args ...any) {
	u.system.out.pass(u.account.name, "serve", fmt.Sprintf(format, args...))
}

// once starts the process and sees it to its end; rested is whether it was told
// to end when it has no run.
func (u *userServe) once() (rested bool, err error) {
	if u.account.uid != 0 { // root's is made at its first use
		if err := localstore.Provide(int(u.account.uid), int(u.account.gid)); err != nil {
			return false, fmt.Errorf("no store: %w", err)
		}
	}
	var files pipes
	defer func() { files.close() }()
	ordersR, orders, err1 := files.open()
	lines, linesW, err2 := files.open()
	asking, askingW, err3 := files.open()
	if err := errors.Join(err1, err2, err3); err != nil {
		return false, err
	}
	// By a name that needs no way through folders, which may be closed to the
	// user, and is this very program, also when its file has been replaced.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"cronced", "serve-user"}
	cmd.Env, cmd.Dir = u.account.environment(), "/"
	cmd.Stdout, cmd.Stderr = linesW, linesW
	cmd.ExtraFiles = []*os.File{ordersR, u.system.thin.file, askingW}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true, // no way to our terminal, where a user could type for root; and Ctrl-C there is for us
		Credential: &syscall.Credential{Uid: u.account.uid, Gid: u.account.gid, Groups: u.account.groups},
	}
	wait, err := u.system.reap.start(cmd)
	if err != nil {
		return false, fmt.Errorf("its process cannot be started: %w", err)
	}
	ordersR.Close()
	linesW.Close()
	askingW.Close()
	fed := newFeed(orders)
	u.mu.Lock()
	u.feed, u.process, u.rested = fed, cmd.Process, len(u.jobs) == 0
	fed.put(userOrder{Jobs: u.jobs, Rest: u.rested, Drain: u.phase >= draining, End: u.phase == ending, Bounded: u.system.turns != nil, NotBefore: u.system.notBefore})
	u.mu.Unlock()
	var readers sync.WaitGroup
	readers.Go(func() { u.relay(lines) })
	readers.Go(func() {
		give := func(id string) { fed.put(userOrder{Turns: []string{id}}) }
		if err := giveTurns(u.system.turns, asking, give); err != nil {
			u.say("PROBLEM    its process is ended: %v", err)
			cmd.Process.Kill()
		}
	})
	err = wait()
	u.mu.Lock()
	rested = u.rested
	u.feed, u.process = nil, nil
	u.mu.Unlock()
	fed.close()
	for _, f := range []*os.File{lines, asking} {
		f.SetReadDeadline(time.Now().Add(showFor)) // whoever else has the other end is not waited for
	}
	readers.Wait()
	if err != nil {
		return rested, fmt.Errorf("its process ended: %w", err)
	}
	return rested, nil
}

// relay passes on what the process says, under the name of its user.
func (u *userServe) relay(from io.Reader) {
	const longest = 128 << 10
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		text := string(cli.Readable(lines.Bytes()))
		if at, rest, ok := strings.Cut(text, "  "); ok {
			if _, err := time.Parse(time.RFC3339, at); err == nil {
				text = rest // the time is ours
			}
		}
		job, text, ok := strings.Cut(text, "  ")
		if !ok {
			job, text = "serve", job
		}
		u.system.out.pass(u.account.name, job, text)
	}
	io.Copy(io.Discard, from) // a line that never ends, of no serve that we know
}

// feed writes orders to a process, which may not read them: nobody waits for it.
type feed struct {
	w    *os.File
	mu   sync.Mutex
	next userOrder
	news chan struct{}
	end  chan struct{}
}

func newFeed(w *os.File) *feed {
	f := &feed{w: w, news: make(chan struct{}, 1), end: make(chan struct{})}
	go f.write()
	return f
}

// put adds to what is to be told next.
func (f *feed) put(o userOrder) {
	f.mu.Lock()
	if o.Jobs != nil || o.Rest {
		f.next.Jobs, f.next.Rest = o.Jobs, o.Rest
	}
	f.next.Drain = f.next.Drain || o.Drain
	f.next.End = f.next.End || o.End
	f.next.Bounded = f.next.Bounded || o.Bounded
	if !o.NotBefore.IsZero() {
		f.next.NotBefore = o.NotBefore
	}
	f.next.Turns = append(f.next.Turns, o.Turns...)
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

func (f *feed) write() {
	enc := gob.NewEncoder(f.w)
	for {
		select {
		case <-f.news:
		case <-f.end:
			return
		}
		f.mu.Lock()
		o := f.next
		f.next = userOrder{}
		f.mu.Unlock()
		if enc.Encode(o) != nil {
			return // it has gone
		}
	}
}

// close ends the writing.
func (f *feed) close() {
	close(f.end)
	f.w.Close()
}
