package localstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// The test binary is also the other processes of the tests: what it is then
// stands in this variable.
const roleVar = "CRONCE_LOCALSTORE_TEST_ROLE"

// beganVar tells those processes when the tests began, so that all mean the
// same tick by a number.
const beganVar = "CRONCE_LOCALSTORE_TEST_BEGAN"

func TestMain(m *testing.M) {
	role := roles[os.Getenv(roleVar)]
	if role == nil {
		os.Exit(m.Run())
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

var roles map[string]func(args []string) error

func init() {
	roles = map[string]func([]string) error{
		"claimer": claimer, "holder": holder, "beside": beside, "container": container, "guard": guard, "wedged": wedged, "program": program, "stopped": stopped,
	}
}

// child is such a process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// start starts the test binary in a role. It is killed at the test's end.
func start(t *testing.T, role string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), roleVar+"="+role, beganVar+"="+began.Format(time.RFC3339))
	c.cmd.Stderr = os.Stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.kill() })
	return c
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// read is the next line that the child writes.
func (c *child) read() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the child has ended: %v", c.lines.Err())
	}
	return c.lines.Text()
}

// kill ends the child and waits until it is gone, and its locks with it.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// client opens the store named in a role's arguments.
func client(dir string) (*driver, *cronce.Store, error) {
	d, err := openDriver(Options{Dir: dir}, thisHost())
	if err != nil {
		return nil, nil, err
	}
	return d, cronce.NewStore(d), nil
}

// claimer claims ticks as it is told: lines of a tick, the time at which to
// claim it, so that many do it at once, and whether the work is to go on until
// it is killed. The work is a line in a file.
func claimer(args []string) error {
	dir, effects := args[0], args[1]
	_, s, err := client(dir)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(effects, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var tick, nanos int64
		var forEver bool
		if _, err := fmt.Sscan(in.Text(), &tick, &nanos, &forEver); err != nil {
			return err
		}
		c := claimOf("job", time.Unix(tick, 0))
		time.Sleep(time.Until(time.Unix(0, nanos)))
		l, err := s.Claim(context.Background(), c)
		var taken *cronce.TakenError
		if errors.As(err, &taken) {
			fmt.Println("taken")
			continue
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(file, tick, l.Run.ID); err != nil {
			return err
		}
		fmt.Println("won", l.Run.ID)
		if forEver {
			in.Scan()
			return nil
		}
		if err := s.Finish(context.Background(), l, cronce.Result{Outcome: cronce.Succeeded, Output: []byte("done")}); err != nil {
			return err
		}
		fmt.Println("done", l.Run.ID)
	}
	return nil
}

// holder claims a tick and holds it until its input ends.
func holder(args []string) error { return hold(args[0], claimOf("job", tick(10))) }

// beside is a holder that would let others run beside it.
func beside(args []string) error {
	c := claimOf("job", tick(10))
	c.Overlap.Policy = cronce.OverlapAllow
	return hold(args[0], c)
}

func hold(dir string, c cronce.Claim) error {
	_, s, err := client(dir)
	if err != nil {
		return err
	}
	l, err := s.Claim(context.Background(), c)
	if err != nil {
		return err
	}
	fmt.Println("won", l.Run.ID)
	io.Copy(io.Discard, os.Stdin)
	if err := s.Finish(context.Background(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		fmt.Println("finish:", err)
		return nil
	}
	fmt.Println("finished")
	return nil
}

// container is a holder that sees file systems of its own: one over the folder
// that is named second, if any.
func container(args []string) error {
	runtime.LockOSThread() // a namespace is the thread's, until it execs
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if len(args) > 1 {
		if err := syscall.Mount("none", args[1], "tmpfs", 0, "size=1m"); err != nil {
			return err
		}
	}
	os.Setenv(roleVar, "holder")
	return syscall.Exec("/proc/self/exe", append(os.Args[:1], args...), os.Environ())
}

// guard claims a tick and starts work that inherits the lock, then waits for
// it and records its end.
func guard(args []string) error {
	_, s, err := client(args[0])
	if err != nil {
		return err
	}
	l, err := s.Claim(context.Background(), claimOf("job", tick(10)))
	if err != nil {
		return err
	}
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{l.Lock}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println("won", l.Run.ID, cmd.Process.Pid)
	cmd.Wait()
	if err := s.Finish(context.Background(), l, cronce.Result{Outcome: cronce.Cancelled, Signal: "SIGTERM"}); err != nil {
		return err
	}
	fmt.Println("finished")
	return nil
}

// wedged claims a tick and cannot be asked to do anything.
func wedged(args []string) error {
	signal.Ignore(syscall.SIGTERM)
	c := claimOf("job", tick(10))
	c.Holder.Guard = true
	return hold(args[0], c)
}

// program claims a tick for a job that does not listen, one of several of its own.
func program(args []string) error { return holder(args) }

// stopped takes the decide lock of a job and is stopped while it has it.
func stopped(args []string) error {
	d, _, err := client(args[0])
	if err != nil {
		return err
	}
	s, err := d.enter(context.Background(), "job", true, time.Minute)
	if err != nil {
		return err
	}
	// To this very thread: of a signal for the process another one takes notice,
	// and this one goes on meanwhile.
	runtime.LockOSThread()
	syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
	s.leave()
	fmt.Println("left")
	return nil
}
