package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/all"
)

// A shape is how large a fleet is.
type shape struct {
	workers, serves               int
	quick, lengthy, bare, command int
	serverKills                   map[string]int // by store, how often its server is killed at most
}

var (
	// Redis rests for a minute after each: that is for the long form.
	short = shape{workers: 3, serves: 2, quick: 6, lengthy: 2, bare: 2, command: 2, serverKills: map[string]int{"postgres": 2, "mariadb": 1}}
	long  = shape{workers: 4, serves: 2, quick: 44, lengthy: 8, bare: 6, command: 6, serverKills: map[string]int{"redis": 2, "postgres": 9, "mariadb": 9}}
)

// A fleet is processes that share a store, with what hurts them.
type fleet struct {
	*testing.T
	dir     string
	server  server
	witness *witness
	jobs    []string
	clients []*member // the workers, then the serves

	pauses []span
	deaths map[string]time.Duration // by process: before it was killed, on CLOCK_BOOTTIME
	began  time.Time
	kept   *cronce.Store // the store, directly
}

// A span is when a process was stopped.
type span struct {
	who      string
	from, to time.Duration
}

// A member is a place in the fleet: one process at a time, behind one proxy.
type member struct {
	name   string
	proxy  *testenv.Proxy
	serves bool // it is cronced serve

	starts int
	who    string // the process that is there, or was last
	cmd    *exec.Cmd
	gone   chan struct{}
	down   bool // it was killed, and is to be started again
	still  bool // it is stopped
}

func newFleet(t *testing.T, s shape, server server, dir string) *fleet {
	f := &fleet{T: t, dir: dir, server: server, witness: newWitness(t), deaths: map[string]time.Duration{}}
	if *apart > 0 {
		s.serves, s.command, s.bare = 0, 0, 6 // the programs are not patched
	}
	for k, n := range map[string]int{quick: s.quick, lengthy: s.lengthy, bare: s.bare, command: s.command} {
		for i := range n {
			f.jobs = append(f.jobs, fmt.Sprintf("%s-%d", k, i))
		}
	}
	slices.Sort(f.jobs)
	store, err := all.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.kept = store
	for i := range s.workers + s.serves {
		m := &member{name: fmt.Sprintf("worker%d", i+1), proxy: testenv.NewProxy(t, server.URL())}
		if m.serves = i >= s.workers; m.serves {
			m.name = fmt.Sprintf("serve%d", i+1-s.workers)
		}
		f.clients = append(f.clients, m)
	}
	f.write("work", 0o755, strings.Replace(script, "\n", "\nDIR='"+dir+"'\n", 1))
	var crontab strings.Builder
	for i := range s.command {
		seconds := []string{"0.2", "2.5", "20"}[i%3] // the last is longer than a lease
		fmt.Fprintf(&crontab, "# cronce: name=%s-%d start-deadline=5s\n@every 1s  %s %s\n", command, i, path(dir, "work"), seconds)
	}
	f.write("crontab", 0o644, crontab.String())
	t.Cleanup(f.endAll)
	return f
}

func (f *fleet) write(name string, mode os.FileMode, text string) {
	if err := os.WriteFile(path(f.dir, name), []byte(text), mode); err != nil {
		f.Fatal(err)
	}
}

// serves is how many of the clients are cronced serve.
func (f *fleet) serves() (n int) {
	for _, m := range f.clients {
		if m.serves {
			n++
		}
	}
	return n
}

// begin starts all.
func (f *fleet) begin() {
	f.began = time.Now()
	for i := range f.clients {
		f.start(i)
	}
}

// start starts a client's process.
func (f *fleet) start(i int) {
	m := f.clients[i]
	m.starts++
	m.who = fmt.Sprintf("%s.%d", m.name, m.starts)
	log, err := os.OpenFile(path(f.dir, m.who+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		f.Fatal(err)
	}
	defer log.Close()
	var cmd *exec.Cmd
	if m.serves {
		cmd = exec.Command(filepath.Join(bin, "cronce"), "serve", "--crontab", path(f.dir, "crontab"))
		cmd.Env = append(os.Environ(), "CRONCE_STORE="+m.proxy.URL(), "TZ=UTC")
	} else {
		o := order{Store: m.proxy.URL(), Witness: f.witness.listen.Addr().String(), Who: m.who}
		for _, job := range f.jobs {
			if kind(job) != command {
				o.Jobs = append(o.Jobs, job)
			}
		}
		b, err := json.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		program, err := os.Executable()
		if err != nil {
			f.Fatal(err)
		}
		cmd = exec.Command(program)
		cmd.Env = append(os.Environ(), orderVariable+"="+string(b))
		if *apart > 0 { // one is behind the server's clock, one before it, the others are right
			offset := map[int]time.Duration{0: -*apart / 2, 1: *apart / 2}[i]
			cmd.Env = append(cmd.Env, "CRONCE_TEST_CLOCK=offset="+offset.String())
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	// What a terminal sends is not for it; and it does not outlive the test's thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	gone := make(chan struct{})
	m.cmd, m.gone, m.down = cmd, gone, false
	go func() {
		cmd.Wait()
		close(gone)
	}()
}

// kill kills a client's process.
func (f *fleet) kill(i int) {
	m := f.clients[i]
	f.deaths[m.who] = cronce.SinceBoot()
	m.down = true
	m.cmd.Process.Kill()
	<-m.gone
}

// killGuard kills a guard of a serve, if it has one now. What it has left the serve ends.
func (f *fleet) killGuard(i int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", f.clients[i].cmd.Process.Pid))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
				return
			}
		}
	}
}

// freeze stops a client's process, and thaw lets it go on.
func (f *fleet) freeze(i int) {
	m := f.clients[i]
	m.still = true
	f.pauses = append(f.pauses, span{who: m.who, from: cronce.SinceBoot()})
	m.cmd.Process.Signal(syscall.SIGSTOP)
}

func (f *fleet) thaw(i int) {
	m := f.clients[i]
	m.still = false
	m.cmd.Process.Signal(syscall.SIGCONT)
	for n := range f.pauses {
		if f.pauses[n].who == m.who && f.pauses[n].to == 0 {
			f.pauses[n].to = cronce.SinceBoot()
		}
	}
}

// look starts processes again that have ended by themselves. They may: a worker that had
// to wait for long, lest its work goes on past its lease, and a serve that did not reach
// the store at its start.
func (f *fleet) look() {
	for i, m := range f.clients {
		select {
		case <-m.gone:
		default:
			continue
		}
		if m.down {
			continue
		}
		switch code := m.cmd.ProcessState.ExitCode(); {
		case m.serves && code == 69:
		case !m.serves && code == 70:
			f.Logf("%s ended by itself, as work went on past its lease", m.who)
		default:
			f.Errorf("%s ended by itself: %s", m.who, m.cmd.ProcessState)
		}
		f.deaths[m.who] = cronce.SinceBoot()
		f.start(i)
	}
}

// settle waits until every job has run once more, with nothing in its way.
func (f *fleet) settle() {
	f.Helper()
	deadline := time.After(3 * time.Minute)
	healed := cronce.SinceBoot()
	for {
		f.look()
		waits := map[string]bool{}
		for _, job := range f.jobs {
			waits[job] = true
		}
		saw, news := f.witness.saw()
		commands, err := told(f.dir)
		if err != nil {
			f.Fatal(err)
		}
		begun := map[string]bool{}
		for _, s := range append(saw, commands...) {
			switch {
			case s.What == started && s.At > healed:
				begun[s.Run] = true
			case s.What == ended && begun[s.Run]:
				delete(waits, s.Job)
			}
		}
		if len(waits) == 0 {
			return
		}
		select {
		case <-news:
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			f.Errorf("with all faults healed, these have not run for three minutes: %v", waits)
			return
		}
	}
}

// stop ends all processes in order.
func (f *fleet) stop() {
	for _, m := range f.clients {
		m.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.After(time.Minute)
	for _, m := range f.clients {
		select {
		case <-m.gone:
			if code := m.cmd.ProcessState.ExitCode(); code != 0 {
				f.Errorf("%s was told to end: %s", m.who, m.cmd.ProcessState)
			}
		case <-late:
			f.Errorf("%s was told to end, and does not", m.who)
			return
		}
	}
}

func (f *fleet) endAll() {
	for _, m := range f.clients {
		if m.cmd != nil {
			m.cmd.Process.Kill()
			<-m.gone
		}
	}
	f.witness.listen.Close()
	f.witness.served.Wait()
}

// history is what happened, as all sides have it.
func (f *fleet) history() *history {
	ctx, done := context.WithTimeout(f.Context(), time.Minute)
	defer done()
	h := &history{pauses: f.pauses, deaths: f.deaths}
	saw, _ := f.witness.saw()
	commands, err := told(f.dir)
	if err != nil {
		f.Fatal(err)
	}
	h.saw = append(slices.Clone(saw), commands...)
	if h.records, err = f.kept.Runs(ctx, cronce.RunQuery{}); err != nil {
		f.Fatal(err)
	}
	h.jobs = f.jobs
	return h
}

// logs is the ends of what the processes have said.
func (f *fleet) logs() string {
	var b strings.Builder
	paths, _ := filepath.Glob(path(f.dir, "*.log"))
	for _, p := range paths {
		text, _ := os.ReadFile(p)
		lines := strings.SplitAfter(string(text), "\n")
		fmt.Fprintf(&b, "%s ends with\n%s", filepath.Base(p), strings.Join(lines[max(0, len(lines)-15):], ""))
	}
	return b.String()
}
