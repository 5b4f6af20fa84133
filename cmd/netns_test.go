package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// A network is a switch with hosts at it, each of which is a network namespace. Nothing
// of the machine's own network is touched. The namespaces are held by processes that end
// with their input, so that nothing is left however the test ends.
type network struct {
	*testing.T
	pid   int // who holds the switch's namespace
	hosts int
}

// gateway is the switch's own address, where hosts reach what newNetwork lets in.
const gateway = "10.77.0.1"

// newNetwork makes a network. Only root can: ok is false for anyone else.
func newNetwork(t *testing.T) (n *network, ok bool) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("not root: no hosts are made whose network could be cut; TestShared_StoreAway is without one")
		return nil, false
	}
	n = &network{T: t}
	n.pid = n.namespace(fmt.Sprintf("ip link add switch type bridge; ip addr add %s/24 dev switch; ip link set switch up", gateway))
	return n, true
}

// namespace makes a network namespace, sets it up, and returns who holds it.
func (n *network) namespace(script string) (pid int) {
	n.Helper()
	cmd := exec.Command("unshare", "-n", "sh", "-c", "set -e; ip link set lo up; "+script+"; echo ready; exec cat")
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		n.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		n.Fatalf("no network namespace: %v (iproute2 is needed: make packages)", err)
	}
	return cmd.Process.Pid
}

// at is a command in a namespace.
func at(pid int, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", pid), "--"}, args...)...)
}

func (n *network) ip(pid int, args ...string) {
	n.Helper()
	if out, err := at(pid, append([]string{"ip"}, args...)...).CombinedOutput(); err != nil {
		n.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

// wired is a host of the network, with a cable to the switch.
type wired struct {
	net   *network
	pid   int
	cable string // the switch's end
}

func (n *network) host() *wired {
	n.Helper()
	n.hosts++
	h := &wired{net: n, pid: n.namespace("true"), cable: fmt.Sprintf("host%d", n.hosts)}
	n.ip(n.pid, "link", "add", h.cable, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(h.pid))
	n.ip(n.pid, "link", "set", h.cable, "master", "switch", "up")
	n.ip(h.pid, "addr", "add", fmt.Sprintf("10.77.0.%d/24", 1+n.hosts), "dev", "eth0")
	n.ip(h.pid, "link", "set", "eth0", "up")
	return h
}

// unplug takes the cable out: nothing comes or goes, and nobody is told.
func (h *wired) unplug() { h.net.ip(h.net.pid, "link", "set", h.cable, "down") }
func (h *wired) plug()   { h.net.ip(h.net.pid, "link", "set", h.cable, "up") }

// setns is the number of that system call, which package syscall lacks.
var setns = map[string]uintptr{"amd64": 308, "arm64": 268}[runtime.GOARCH]

// letIn has the server at that URL reached from the hosts, and returns its URL for them.
func (n *network) letIn(target string) string {
	n.Helper()
	u, err := url.Parse(target)
	if err != nil {
		n.Fatal(err)
	}
	server := u.Host
	type listening struct {
		net.Listener
		err error
	}
	made := make(chan listening)
	go func() {
		// A socket is of the namespace of the thread that makes it, and this thread ends
		// with the goroutine.
		runtime.LockOSThread()
		l, err := func() (net.Listener, error) {
			f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.pid))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if _, _, errno := syscall.RawSyscall(setns, f.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
				return nil, os.NewSyscallError("setns", errno)
			}
			return net.Listen("tcp", net.JoinHostPort(gateway, u.Port()))
		}()
		made <- listening{l, err}
	}()
	l := <-made
	if l.err != nil {
		n.Fatal(l.err)
	}
	var passing sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	passing.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				c.Close()
				continue
			}
			mu.Lock()
			open = append(open, c, up)
			mu.Unlock()
			pass := func(from, to net.Conn) {
				io.Copy(to, from)
				from.Close()
				to.Close()
			}
			passing.Go(func() { pass(c, up) })
			passing.Go(func() { pass(up, c) })
		}
	})
	n.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		passing.Wait()
	})
	u.Host = net.JoinHostPort(gateway, u.Port())
	return u.String()
}

// Two hosts, one of which is cut from the store while its job runs: the job is stopped,
// with its child in another session, before the other host starts it. When the first is
// there again, no tick runs twice.
func TestShared_HostCutOff(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(testing.TB) string{"redis": testenv.Redis, "postgres": testenv.Postgres, "mysql": testenv.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n, ok := newNetwork(t)
			if !ok {
				return
			}
			direct := open(t)
			f := newFleet(t, direct)
			here, there := n.host(), n.host()
			f.url = n.letIn(direct)
			// The kernel is the witness: what goes on has the lock.
			crontab := write(t, filepath.Join(f.dir, "crontab"), fmt.Sprintf(`
# cronce: name=often start-deadline=20s
@every 1s  echo "$CRONCE_TICK" >>%[1]s/did
# cronce: name=long overlap=wait=1h
@every 1s  exec 9>>%[1]s/lock; flock -n 9 || echo TWICE; test -e %[1]s/second && echo second && exit; %[2]s
`, f.dir, f.holdOn()))
			serve := func(h *wired) *server {
				cmd := at(h.pid, filepath.Join(bin, "cronce"), "serve", "--crontab", crontab)
				cmd.Env = f.command().Env
				return startServer(t, cmd)
			}
			first := serve(here)
			first.await(t, 0, "long", "| up")
			next := serve(there)
			next.await(t, 0, "often", "started")
			here.unplug()
			write(t, filepath.Join(f.dir, "second"), "")
			next.await(t, 0, "long", "| second")
			cut := first.lines()
			here.plug()
			at := first.await(t, 0, "back")
			first.await(t, max(at, cut), "often", "started")
			for _, s := range []*server{first, next} {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("exit %d", code)
				}
				for _, line := range s.log {
					if strings.Contains(line, "TWICE") {
						t.Errorf("two runs at once: %s", line)
					}
				}
			}
			if !f.gone() {
				t.Error("work of the host that was cut off goes on")
			}
			ran := map[string]int{}
			did, err := os.ReadFile(filepath.Join(f.dir, "did"))
			if err != nil {
				t.Fatal(err)
			}
			for tick := range strings.Lines(string(did)) {
				if ran[tick]++; ran[tick] > 1 {
					t.Errorf("tick %s ran twice", tick)
				}
			}
			f.url = direct
			decided := map[string]bool{}
			for _, r := range f.runs(t) {
				tick := r.Job + " " + cronce.Stamp(r.Tick)
				if decided[tick] {
					t.Errorf("%s was decided twice", tick)
				}
				decided[tick] = true
			}
		})
	}
}
