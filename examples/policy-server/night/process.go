package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A process is one that the night started.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // its file
	done chan struct{}
	err  error // once done
}

// start starts a process with these additions to the environment. It gets TERM
// if we end first.
func (n *night) start(name string, env []string, argv ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...), log: filepath.Join(n.dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Env = n.dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Ctrl-C is for us: we end them in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	n.processes = append(n.processes, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ready waits until the check passes, which is made again and again.
func (n *night) ready(p *process, check func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := check()
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at its start: %v", p.name, p.err)
		default:
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		}
		select {
		case <-n.ctx.Done():
			return n.ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// terminate asks the process to end.
func (p *process) terminate() { p.cmd.Process.Signal(syscall.SIGTERM) }

// drain asks the process to end, and waits until it has.
func (p *process) drain() error {
	p.terminate()
	return p.ended()
}

// ended waits for the end of a process that was asked to end.
func (p *process) ended() error {
	select {
	case <-p.done:
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s did not end within %s of TERM", p.name, patience)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with: %w", p.name, p.err)
	}
	return nil
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// endAll ends what is left, last started first.
func (n *night) endAll() (err error) {
	for i := len(n.processes) - 1; i >= 0; i-- {
		select {
		case <-n.processes[i].done:
		default:
			err = errors.Join(err, n.processes[i].drain())
		}
	}
	return err
}

// logs is the end of what each process has logged.
func (n *night) logs() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, p := range n.processes {
		text, err := os.ReadFile(p.log)
		if err != nil || len(text) == 0 || seen[p.log] {
			continue
		}
		seen[p.log] = true
		lines := strings.SplitAfter(string(text), "\n")
		fmt.Fprintf(&b, "-- %s\n%s", filepath.Base(p.log), strings.Join(lines[max(0, len(lines)-20):], ""))
	}
	return b.String()
}

// find finds a program that is not Go's.
func find(name string) (path string, err error) {
	for _, path := range []string{name, "/usr/sbin/" + name} { // which is on no user's PATH
		if path, err = exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is needed; on Debian: apt install %s", name, name)
}

// freePort picks a port below those that the kernel gives to connections: a
// server that is restarted wants the same one again.
func freePort() (address string, err error) {
	for range 100 {
		address = fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", err
}
