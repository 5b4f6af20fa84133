package testenv

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// silent checks that a server takes a connection but does not say a word, for
// as long as it takes to be sure that it would have.
func silent(t *testing.T, addr, question string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	c.Write([]byte(question))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is stopped, and a client reads %d bytes, %v", n, err)
	}
}

// refused checks that nobody listens.
func refused(t *testing.T, addr string) {
	t.Helper()
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing %s: %v, not refused", addr, err)
	}
}

// hurt does to a server all that can be done to it. put adds one thing to its
// data, and count says how many there are.
func hurt(t *testing.T, s *Server, put func(), count func() string) {
	t.Helper()
	expect := func(want, when string) {
		t.Helper()
		if got := count(); got != want {
			t.Errorf("%s there is %q, not %q", when, got, want)
		}
	}
	addr := s.Addr()
	put()
	s.Snapshot()
	put()
	expect("2", "while it runs")

	pids := family(s.cmd.Process.Pid)
	s.Stop()
	for _, p := range pids {
		if st := state(p); st != 'T' && st != 'Z' && st != 0 {
			t.Errorf("process %d of a stopped server is in state %q", p, st)
		}
	}
	silent(t, addr, "PING\r\n")
	s.Continue()
	expect("2", "when it goes on")

	s.Stop() // a server that is stopped can be killed too
	pids = family(s.cmd.Process.Pid)
	s.Kill()
	refused(t, addr)
	for _, p := range pids {
		if st := state(p); st != 0 && st != 'Z' {
			t.Errorf("process %d outlives the server in state %q", p, st)
		}
	}
	s.Restart(Kept)
	expect("2", "after a restart")
	s.Restart(Stale)
	expect("1", "after a restart from a snapshot")
	s.Restart(Gone)
	expect("0", "after a restart without data")
	if s.Addr() != addr {
		t.Errorf("it has moved from %s to %s", addr, s.Addr())
	}
	if strings.Contains(s.Log(), password) {
		t.Errorf("the password is in its log")
	}
	for _, p := range family(s.cmd.Process.Pid) {
		if line, _ := os.ReadFile("/proc/" + strconv.Itoa(p) + "/cmdline"); strings.Contains(string(line), password) {
			t.Errorf("the password is in its command line: %q", line)
		}
	}
}

// A port that somebody takes at the last moment costs a second try, not the
// test.
func TestServerPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port

	need(t, "redis-server", "redis-cli")
	s, err := newServer(t, "redis", "")
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	s.ready = func() error { return redisSays(s, false, "PONG", "PING") }
	if err := s.begin(func() error {
		if tries++; tries == 1 {
			s.port = port
		}
		s.argv = []string{"redis-server", s.path("conf")}
		return s.write("conf", "bind 127.0.0.1\nport "+strconv.Itoa(s.port)+"\nrequirepass "+password+"\n")
	}); err != nil {
		t.Fatal(err)
	}
	if tries != 2 || s.port == port {
		t.Errorf("it listens on %d after %d tries", s.port, tries)
	}
}

// A server that cannot start says why in the error.
func TestServerDoesNotStart(t *testing.T) {
	need(t, "redis-server")
	s, err := newServer(t, "redis", "")
	if err != nil {
		t.Fatal(err)
	}
	s.ready = func() error { return errors.New("never") }
	err = s.begin(func() error {
		s.argv = []string{"redis-server", s.path("conf")}
		return s.write("conf", "no-such-setting yes\n")
	})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v", err)
	}
}

// A test process that is killed leaves no server and no folder, even if its
// servers are stopped.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv("TESTENV_LEFT") != "" {
		s := StartPostgres(t)
		s.Stop()
		root, _ := home()
		pids := ""
		for _, p := range family(s.cmd.Process.Pid) {
			pids += " " + strconv.Itoa(p)
		}
		os.Stdout.WriteString("left " + root + pids + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledTestLeavesNothing$")
	cmd.Env = append(os.Environ(), "TESTENV_LEFT=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Wait() })
	t.Cleanup(func() { cmd.Process.Kill() })
	var left []string
	for lines := bufio.NewScanner(out); left == nil && lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "left "); ok {
			left = strings.Fields(after)
		}
	}
	if len(left) < 4 {
		t.Fatalf("the other test has %q", left)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "servers and folder to be gone", func() error {
		for _, text := range left[1:] {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			if st := state(pid); st != 0 && st != 'Z' {
				return errors.New("process " + text + " is there")
			}
		}
		if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
			return errors.New(left[0] + " is there")
		}
		return nil
	})
}

// Servers of a test end with it.
func TestServerEndsWithTest(t *testing.T) {
	var s *RedisServer
	t.Run("test", func(t *testing.T) { s = StartRedis(t) })
	refused(t, s.Addr())
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
	root, err := home()
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(root, "groups", "*"))
	if err != nil || slices.Contains(names, filepath.Join(root, "groups", strconv.Itoa(s.cmd.Process.Pid))) {
		t.Errorf("it is still registered: %v, %v", names, err)
	}
}
