package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
)

// demo replays a night without and with cronce, by real processes. The
// processes are this program again, under names that are no commands for people.
func demo(ctx context.Context, args []string, stdout io.Writer) error {
	switch args[0] {
	case "demo-server":
		return demoServer(ctx, args[1:], stdout)
	case "demo-batch":
		return demoBatch(ctx, args[1:])
	}
	rest, err := cli.NewFlags("demo").Parse(args[1:])
	if err != nil {
		return err
	}
	nights := map[string]func(*stage) error{"crons": demoCrons, "notices": demoNotices}
	if len(rest) != 1 || nights[rest[0]] == nil {
		return cli.Misuse("demo", "which night? 'cronce demo crons' or 'cronce demo notices'")
	}
	s, err := newStage(ctx, stdout)
	if err != nil {
		return err
	}
	err = nights[rest[0]](s)
	return errors.Join(err, s.close())
}

// demoLimit is how long a demo takes at most.
const demoLimit = 55 * time.Second

// A stage is what a demo happens on: a temporary folder, a server on loopback
// and processes, all of which are gone after close.
type stage struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	out  io.Writer
	dir  string
	self string // this program's file
	url  string // of the server
	mux  *http.ServeMux

	server  http.Server
	serving sync.WaitGroup
	signals chan os.Signal

	mu      sync.Mutex
	changed chan struct{} // closed and renewed by change
	actors  []*actor
}

// An actor is a process of a demo.
type actor struct {
	name   string
	cmd    *exec.Cmd
	stderr bytes.Buffer  // once done
	done   chan struct{} // closed when it has ended
	err    error         // once done
}

func newStage(ctx context.Context, out io.Writer) (*stage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "cronce-demo-")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		listener.Close()
		return nil, err
	}
	s := &stage{
		out: out, dir: dir, self: self, url: "http://" + listener.Addr().String(),
		mux: http.NewServeMux(), changed: make(chan struct{}), signals: make(chan os.Signal, 1),
	}
	s.ctx, s.end = context.WithCancelCause(ctx)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(s.signals, sig)
		}
	}
	// A reader of the output that goes away must not keep us from tidying up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s.server.Handler = s.mux
	s.serving.Go(func() { s.server.Serve(listener) })
	s.serving.Go(s.watch)
	return s, nil
}

// watch ends the demo at a signal, or when it takes too long.
func (s *stage) watch() {
	timer := time.NewTimer(demoLimit)
	defer timer.Stop()
	select {
	case sig := <-s.signals:
		s.end(&cli.ExitError{Code: 128 + int(sig.(syscall.Signal)), Err: fmt.Errorf(
			"got %s: the demo's processes and its folder are removed", guard.SignalName(sig.(syscall.Signal)))})
	case <-timer.C:
		s.end(fmt.Errorf("the demo was not through after %s: this machine is too busy for it now", demoLimit))
	case <-s.ctx.Done():
	}
}

// close ends what is left and removes the folder. A guard is asked, so that it
// ends its command too; a process that does not listen is killed.
func (s *stage) close() error {
	s.end(errors.New("the demo is over"))
	s.mu.Lock()
	actors := s.actors
	s.mu.Unlock()
	for _, a := range actors {
		a.cmd.Process.Signal(syscall.SIGTERM)
	}
	patience := time.NewTimer(5 * time.Second)
	defer patience.Stop()
	for _, a := range actors {
		select {
		case <-a.done:
		case <-patience.C:
			patience.Reset(0) // nor for the others
			a.cmd.Process.Kill()
			<-a.done
		}
	}
	s.server.Close()
	s.serving.Wait()
	return os.RemoveAll(s.dir)
}

// start starts a process of the demo. stdin, if not nil, is its input.
func (s *stage) start(name, path string, args []string, stdin *os.File, stdout io.Writer) (*actor, error) {
	a := &actor{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	a.cmd.Env = append(os.Environ(), "TZ=UTC")
	if stdin != nil {
		a.cmd.Stdin = stdin
	}
	a.cmd.Stdout, a.cmd.Stderr = stdout, &a.stderr
	a.cmd.WaitDelay = time.Second
	// Ctrl-C at a terminal is for the demo, which ends them all in order.
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.change(func() { s.actors = append(s.actors, a) })
	s.serving.Go(func() {
		a.err = a.cmd.Wait()
		close(a.done)
		s.change(func() {})
	})
	return a, nil
}

// ended reports whether the process has ended.
func (a *actor) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// failure says how an ended process failed, nil if it did not.
func (a *actor) failure() error {
	if a.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", a.name, a.err, bytes.TrimSpace(a.stderr.Bytes()))
}

// change makes a change that until can see.
func (s *stage) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// until waits for a change after which the condition holds, or for the end of
// the demo.
func (s *stage) until(condition func() bool) error {
	for {
		s.mu.Lock()
		holds, changed := condition(), s.changed
		s.mu.Unlock()
		if holds {
			return nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// sleep is that long, or until the demo ends.
func (s *stage) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// printf prints for the person. Where nobody reads it, the demo ends.
func (s *stage) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil {
		s.end(err)
	}
}

// indented is the text, moved in by two.
func indented(text []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(bytes.TrimSpace(text)) {
		b.WriteString("  ")
		b.Write(line)
	}
	return b.String() + "\n"
}

// lineWriter hands over each line that is written to it.
type lineWriter struct {
	part []byte
	line func(string)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		end := bytes.IndexByte(w.part, '\n')
		if end < 0 {
			return len(p), nil
		}
		w.line(string(w.part[:end]))
		w.part = slices.Delete(w.part, 0, end+1)
	}
}
