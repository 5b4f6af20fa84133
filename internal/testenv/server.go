package testenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTime is how long a server may take until it answers.
const startTime = time.Minute

// password is the one of every user of every server of this process.
var password = strings.ToLower(rand.Text())

// Server is a server process on loopback, with a folder and a port that it
// keeps over restarts. What is done to it fails the test where it cannot be
// done, and so belongs on the test's goroutine.
type Server struct {
	t    testing.TB // nil where tests share it
	name string
	user string // who runs it, where we are root and it refuses root; "" is ourselves
	dir  string // its folder: the log, settings, data
	port int

	argv   []string
	within []string     // what stands in front of the command line: the namespace that it runs in
	ready  func() error // nil once it answers, to who knows the password
	fresh  func() error // makes data, a folder in dir; nil: it has none

	cmd  *exec.Cmd
	life context.Context // until it has ended
}

// newServer makes a server's folder.
func newServer(t testing.TB, name, user string) (*Server, error) {
	root, err := home()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(root, name+"-")
	if err != nil {
		return nil, err
	}
	s := &Server{t: t, name: name, user: user, dir: dir}
	if os.Geteuid() != 0 {
		s.user = ""
	}
	return s, s.own(dir)
}

// begin starts a server for the first time, on whatever port is free, and has
// it end with the test. configure makes argv and what it speaks of for a port;
// it is asked again if that was taken.
func (s *Server) begin(configure func() error) error {
	if s.t != nil {
		s.t.Cleanup(s.end)
	}
	if s.fresh != nil {
		if err := s.fresh(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		if err := configure(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		err = s.start()
		if err == nil || !strings.Contains(s.Log(), "ddress already in use") {
			return err
		}
		s.kill()
		if err := os.Remove(s.path("log")); err != nil {
			return err
		}
	}
}

// end shows the log of a server whose test has failed, and leaves nothing.
func (s *Server) end() {
	s.show(s.t)
	s.kill()
	os.RemoveAll(s.dir)
}

func (s *Server) show(t testing.TB) {
	if t.Failed() {
		lines := strings.SplitAfter(s.Log(), "\n")
		t.Logf("the log of %s on %s ends with\n%s", s.name, s.Addr(), strings.Join(lines[max(0, len(lines)-30):], ""))
	}
}

// start starts the server and waits until it answers.
func (s *Server) start() error {
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	groups := filepath.Join(filepath.Dir(s.dir), "groups")
	argv := append([]string{"sh", "-c", registered, groups}, s.within...)
	cmd := s.command(append(argv, s.as(s.argv)...))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	life, over := context.WithCancel(context.Background())
	s.cmd, s.life = cmd, life
	go func() {
		defer over()
		cmd.Wait()
		os.Remove(filepath.Join(groups, strconv.Itoa(cmd.Process.Pid)))
	}()
	return s.awaitAnswer()
}

// awaitAnswer waits until the server answers.
func (s *Server) awaitAnswer() error {
	deadline := time.Now().Add(startTime)
	for {
		err := s.answers()
		if err == nil && !s.ended() {
			return nil
		}
		select {
		case <-s.life.Done():
			return fmt.Errorf("%s ended (%s) instead of answering; it said\n%s", s.name, s.cmd.ProcessState, s.Log())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w; it said\n%s", s.name, err, s.Log())
		}
	}
}

func (s *Server) answers() error {
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return err
	}
	c.Close()
	return s.ready()
}

// ended reports whether the server does not run.
func (s *Server) ended() bool { return s.life.Err() != nil }

// await waits until the check passes, which is made again and again.
func await(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(startTime)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Addr is where it listens: 127.0.0.1 and the port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port is the port where it listens, the same after a restart.
func (s *Server) Port() int { return s.port }

// Log is what the server has logged so far.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.path("log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(b)
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// write writes one of the server's files, for it alone to read.
func (s *Server) write(name, text string) error {
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		return err
	}
	return s.own(s.path(name))
}

// own gives a file or folder to who runs the server.
func (s *Server) own(path string) error {
	if s.user == "" {
		return nil
	}
	return run(exec.Command("chown", s.user+":", path), "")
}

// as is the command line as the user who runs the server.
func (s *Server) as(argv []string) []string {
	if s.user == "" {
		return argv
	}
	return append([]string{"setpriv", "--reuid=" + s.user, "--regid=" + s.user, "--init-groups", "--"}, argv...)
}

// client is a command that asks the server, and is not kept waiting by one
// that has ended: somebody else may have its port.
func (s *Server) client(argv ...string) *exec.Cmd { return s.commandUntil(s.life, argv) }

// command is a command in the server's folder that knows nothing of the
// test's own environment.
func (s *Server) command(argv []string) *exec.Cmd {
	return s.commandUntil(context.Background(), argv)
}

func (s *Server) commandUntil(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program(argv[0]), argv[1:]...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + searched(), "HOME=" + s.dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	return cmd
}

// tool runs a command to its end as who runs the server.
func (s *Server) tool(argv ...string) error { return run(s.command(s.as(argv)), "") }

// run runs a command to its end. What it said is in the error.
func run(cmd *exec.Cmd, stdin string) error {
	_, err := output(cmd, stdin)
	return err
}

// output runs a command to its end and returns what it wrote, without the
// last newline.
func output(cmd *exec.Cmd, stdin string) (string, error) {
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &log
	err := cmd.Start()
	if err == nil {
		late := time.AfterFunc(startTime, func() { cmd.Process.Kill() }) // it asks a server that is stopped
		err = cmd.Wait()
		late.Stop()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", filepath.Base(cmd.Args[0]), err, out.String(), log.String())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// searched is where programs are: who is not root often lacks the sbin ones,
// and Debian keeps those of Postgres aside.
var searched = sync.OnceValue(func() string {
	path := os.Getenv("PATH") + ":/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, dir := range versions {
		path += ":" + dir
	}
	return path
})

// program is a program's path, or the bare name where it is not installed.
func program(name string) string {
	for _, dir := range filepath.SplitList(searched()) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return name
}

// need fails the test where one of the programs is not installed.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if program(name) == name {
			t.Fatalf("%s is not installed: make packages installs what the tests need", name)
		}
	}
}

var ports sync.Map // those that this process has had

// freePort is a port on which nobody listens now, and which no client's
// connection takes in the meantime: it is below those that the kernel gives
// away by itself. Who is quicker all the same is seen when the server starts.
func freePort() (int, error) {
	for range 1000 {
		port := 10000 + mathrand.IntN(20000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		l.Close()
		if _, had := ports.LoadOrStore(port, true); !had {
			return port, nil
		}
	}
	return 0, errors.New("no port from 10000 to 29999 is free on 127.0.0.1")
}
