package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Data says with which data a server is started again.
type Data int

const (
	// Kept is the data as the server left it.
	Kept Data = iota
	// Gone is none: a new server of its kind, with the same users and
	// an empty database.
	Gone
	// Stale is the data of the last Snapshot.
	Stale
)

// Kill ends the server and all its processes by SIGKILL, and returns when they
// have ended.
func (s *Server) Kill() { s.kill() }

// Stop suspends the server and all its processes (SIGSTOP): connections stay,
// new ones are taken by the kernel, nothing is answered. It returns when they
// stand still.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.freeze(); err != nil {
		s.t.Fatal(err)
	}
}

// Continue lets a stopped server go on (SIGCONT).
func (s *Server) Continue() {
	s.t.Helper()
	if err := s.thaw(); err != nil {
		s.t.Fatal(err)
	}
}

// Snapshot keeps a copy of the data as they are now, for Restart(Stale). The
// server stands still for that moment.
func (s *Server) Snapshot() {
	s.t.Helper()
	if err := s.snapshot(); err != nil {
		s.t.Fatal(err)
	}
}

// Restart kills the server, if it runs, and starts it again on the same port
// with the same settings and with that data; one that has none (PgBouncer, a
// sentinel) only Kept. It returns when the server answers.
func (s *Server) Restart(with Data) {
	s.t.Helper()
	s.kill()
	if err := s.restore(with); err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) kill() {
	if s.cmd == nil || s.ended() {
		return
	}
	pid := s.cmd.Process.Pid
	syscall.Kill(-pid, syscall.SIGSTOP) // or it could have another child in the meantime
	pids := family(pid)
	syscall.Kill(-pid, syscall.SIGKILL)
	for _, p := range pids {
		syscall.Kill(p, syscall.SIGKILL)
	}
	<-s.life.Done()
	// The others are not our children: the kernel says when they are gone.
	for _, p := range pids[1:] {
		for state(p) != 0 && state(p) != 'Z' {
			time.Sleep(time.Millisecond)
		}
	}
}

func (s *Server) freeze() error {
	pid := s.cmd.Process.Pid
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("%s cannot be stopped: %w", s.name, err)
	}
	if err := still(pid); err != nil {
		return err
	}
	for _, p := range family(pid)[1:] {
		syscall.Kill(p, syscall.SIGSTOP)
		if err := still(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) thaw() error {
	pids := family(s.cmd.Process.Pid)
	for _, p := range pids[1:] {
		syscall.Kill(p, syscall.SIGCONT)
	}
	if err := syscall.Kill(-pids[0], syscall.SIGCONT); err != nil {
		return fmt.Errorf("%s cannot go on: %w", s.name, err)
	}
	return nil
}

// still waits until a process that was told to is stopped, or has ended.
func still(pid int) error {
	for range 10000 {
		switch state(pid) {
		case 'T', 't', 'Z', 0:
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d does not stop", pid)
}

// snapshot copies what is on the disk and in the kernel's cache between two
// steps of the server: what a loss of power would leave, had it all reached
// the disk.
func (s *Server) snapshot() error {
	if err := s.freeze(); err != nil {
		return err
	}
	err := copyTree(s.path("data"), s.path("snapshot"))
	if thawed := s.thaw(); err == nil {
		err = thawed
	}
	return err
}

func (s *Server) restore(with Data) error {
	switch {
	case with == Kept:
		return nil
	case s.fresh == nil:
		return errors.New("it has no data that could be gone or stale")
	case with == Gone:
		if err := os.RemoveAll(s.path("data")); err != nil {
			return err
		}
		return s.fresh()
	}
	return copyTree(s.path("snapshot"), s.path("data"))
}

// copyTree makes a folder an exact copy of another.
func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return run(exec.Command("cp", "-a", from, to), "")
}

// family is a process and, after it, all that came from it and still has its
// parent.
func family(pid int) []int {
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pids[i]))
		for _, task := range tasks {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pids[i], task.Name()))
			for child := range strings.FieldsSeq(string(b)) {
				if p, err := strconv.Atoi(child); err == nil {
					pids = append(pids, p)
				}
			}
		}
	}
	return pids
}

// state is a process's state as /proc has it; 0: there is no such process.
func state(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	if !ok || rest == "" {
		return 0
	}
	return rest[0]
}
