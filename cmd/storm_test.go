package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// Marks are what the work of a job says of itself, in the order in which it
// comes.
type marks struct {
	*testing.T
	fifo, busy string
	started    chan mark // those of them that say start
	ended      chan struct{}
	all        []mark // once ended
}

// A mark is one of them.
type mark struct {
	word, run  string
	tick       time.Time
	pid, guard int
}

// markedWork leaves its marks. It holds a lock while it or a child of it lives,
// so that a second run beside it would be seen whatever was killed.
const markedWork = `mark() { echo "$1 $CRONCE_TICK $CRONCE_RUN_ID $$ $PPID" >>"$MARKS"; }
exec 9>>"$BUSY"
flock -n 9 || mark beside
mark start
[ -z "$LENGTH" ] || sleep "$LENGTH"
mark end
`

// newMarks takes in the marks that come to a place in the folder.
func newMarks(t *testing.T, dir string) *marks {
	t.Helper()
	m := &marks{T: t, fifo: filepath.Join(dir, "marks"), busy: filepath.Join(dir, "busy"),
		started: make(chan mark, 1000), ended: make(chan struct{})}
	if err := syscall.Mkfifo(m.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// For both, so that neither end ever waits for the other to open it.
	fifo, err := os.OpenFile(m.fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fifo.Close()
		<-m.ended
	})
	go m.read(fifo)
	return m
}

// env is what the work has to be told.
func (m *marks) env() []string { return []string{"MARKS=" + m.fifo, "BUSY=" + m.busy} }

// read takes in the marks up to one that says stop.
func (m *marks) read(fifo io.Reader) {
	defer close(m.ended)
	for lines := bufio.NewScanner(fifo); lines.Scan() && lines.Text() != "stop"; {
		var k mark
		var tick string
		_, err := fmt.Sscan(lines.Text(), &k.word, &tick, &k.run, &k.pid, &k.guard)
		if err == nil {
			k.tick, err = time.Parse(time.RFC3339, tick)
		}
		if err != nil {
			m.Errorf("the work said %q", lines.Text())
			continue
		}
		m.all = append(m.all, k)
		if k.word == "start" {
			m.started <- k
		}
	}
}

// stop ends the reading. It returns which run did the work of each tick, which
// must be one at most and none beside another, and which runs came to its end.
func (m *marks) stop() (starts map[string]mark, finished map[string]bool) {
	m.Helper()
	if err := os.WriteFile(m.fifo, []byte("stop\n"), 0); err != nil {
		m.Fatal(err)
	}
	<-m.ended
	starts, finished = map[string]mark{}, map[string]bool{}
	for _, k := range m.all {
		tick := cronce.Stamp(k.tick)
		switch k.word {
		case "beside":
			m.Errorf("tick %s: run %s was started beside another", tick, k.run)
		case "start":
			if other, twice := starts[tick]; twice {
				m.Errorf("tick %s ran twice: %s and %s", tick, other.run, k.run)
			}
			starts[tick] = k
		case "end":
			finished[k.run] = true
		}
	}
	return starts, finished
}

// compare compares what the work says with what is on record, and returns the
// decisions by tick. There must be one a tick, and one end a run.
func (m *marks) compare(store, job string, starts map[string]mark, finished map[string]bool) map[string]cronce.Run {
	m.Helper()
	decided := map[string]cronce.Run{}
	ends := endsOf(m.T, store, job)
	for _, r := range runsOf(m.T, store) {
		tick := cronce.Stamp(r.Tick)
		if _, twice := decided[tick]; twice {
			m.Errorf("tick %s was decided twice", tick)
		}
		decided[tick] = r
		start, ran := starts[tick]
		switch {
		case ran && start.run != r.ID:
			m.Errorf("tick %s: run %s has it, %s did the work", tick, r.ID, start.run)
		case r.Skip != "":
			if ran {
				m.Errorf("tick %s was skipped, and ran", tick)
			}
		case r.Live():
			m.Errorf("tick %s: still running on record: %+v", tick, r)
		case ends[r.ID] != 1:
			m.Errorf("tick %s: run %s has %d ends on record", tick, r.ID, ends[r.ID])
		case r.Outcome == cronce.Succeeded && !(ran && finished[r.ID]):
			m.Errorf("tick %s: run %s succeeded, and its work did not start and end", tick, r.ID)
		}
	}
	for tick, start := range starts {
		if _, ok := decided[tick]; !ok {
			m.Errorf("tick %s: run %s is not on record", tick, start.run)
		}
	}
	return decided
}

// endsOf returns how often each run ends in the job's journal.
func endsOf(t *testing.T, store, job string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store, "jobs", job, "journal.*"))
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var r struct{ Event, ID string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Errorf("%s: %v in %s", file, err, line)
			}
			if r.Event == "end" {
				ends[r.ID]++
			}
		}
	}
	return ends
}

// A storm is many processes that all want to run one job.
type storm struct {
	*testing.T
	*marks
	rnd   *rand.Rand
	store string
	said  *os.File // what the processes say
	first time.Time
}

// stormRounds is how many rounds of a crowd of stormCrowd there are.
func stormRounds() int {
	if testenv.Race {
		return 12
	}
	return 200
}

const stormCrowd = 50

func newStorm(t *testing.T) *storm {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	s := &storm{T: t, marks: newMarks(t, dir), rnd: rand.New(rand.NewPCG(seed, 0)), store: filepath.Join(dir, "store"),
		first: time.Now().Add(-time.Hour).Truncate(time.Second)}
	var err error
	if s.said, err = os.OpenFile(filepath.Join(dir, "said"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.said.Close() })
	s.run(0) // from here on there is a folder to lock
	return s
}

// command is a cronce run for that tick, whose work takes so long.
func (s *storm) command(tick int, length time.Duration) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "cronce"), "run", "--schedule", "@every 1s", "--start-deadline", "24h", "--warn-at", "24h",
		"--tick", s.tick(tick), "storm", "--", "sh", "-c", markedWork)
	cmd.Env = append(os.Environ(), "TZ=UTC", "CRONCE_STORE="+s.store, "LENGTH=")
	cmd.Env = append(cmd.Env, s.env()...)
	if length > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("LENGTH=%.3f", length.Seconds()))
	}
	cmd.Stderr = s.said
	return cmd
}

// tick is the name of the tick of that number.
func (s *storm) tick(n int) string {
	return cronce.Stamp(s.first.Add(time.Duration(n) * time.Second))
}

// run is one tick by one process, which nothing is in the way of.
func (s *storm) run(tick int) {
	s.Helper()
	if err := s.command(tick, 0).Run(); err != nil {
		s.Fatalf("tick %d by one process: %v\n%s", tick, err, s.hears())
	}
	<-s.started
}

// hears returns what the processes have said since it was last called.
func (s *storm) hears() string {
	s.Helper()
	said, err := os.ReadFile(s.said.Name())
	if err == nil {
		err = s.said.Truncate(0)
	}
	if err != nil {
		s.Fatal(err)
	}
	return string(said)
}

// crowd starts all commands as fast as it can. With gate they are held up
// until all are there, at the lock that only one at a time can have.
func (s *storm) crowd(commands []*exec.Cmd, gate bool) {
	s.Helper()
	if gate {
		folder, err := os.Open(filepath.Join(s.store, "jobs", "storm"))
		if err != nil {
			s.Fatal(err)
		}
		defer folder.Close()
		if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
			s.Fatal(err)
		}
	}
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for part := range slices.Chunk(commands, len(commands)/4+1) {
		wg.Go(func() {
			for _, cmd := range part {
				if err := cmd.Start(); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if failed != nil {
		s.Fatal(failed)
	}
}

// startOf waits for the work of that tick to start, unless the round ends
// without.
func (s *storm) startOf(tick int, over <-chan struct{}) (mark, bool) {
	for {
		select {
		case m := <-s.started:
			if cronce.Stamp(m.tick) == s.tick(tick) {
				return m, true
			}
		case <-over:
			return mark{}, false
		}
	}
}

// reckon ends the storm with one more tick, which must run, and returns the
// decisions by tick.
func (s *storm) reckon(ticks int) map[string]cronce.Run {
	s.Helper()
	s.run(ticks) // nothing is stuck
	starts, finished := s.stop()
	decided := s.compare(s.store, "storm", starts, finished)
	for n := range ticks + 1 {
		if _, ok := decided[s.tick(n)]; !ok {
			s.Errorf("tick %d, %s, was not decided", n, s.tick(n))
		}
	}
	return decided
}

// Fifty cronce run for one tick at once, round after round: each tick runs
// exactly once, and all the others end in silence and without an error. Where
// two ticks are wanted at once one of them may be skipped, but never do two
// runs live at a time.
func TestRun_CrowdRunsEachTickExactlyOnce(t *testing.T) {
	s := newStorm(t)
	began := time.Now()
	rounds, tick, processes := stormRounds(), 1, 0
	pairs := map[string]bool{} // ticks that another one was wanted beside
	for round := range rounds {
		pair := round%5 == 4
		length := time.Duration(s.rnd.IntN(2)) * time.Duration(s.rnd.IntN(20)) * time.Millisecond
		commands := make([]*exec.Cmd, stormCrowd)
		for i := range commands {
			if commands[i] = s.command(tick, length); pair && i%2 == 1 {
				commands[i] = s.command(tick+1, length)
			}
		}
		s.crowd(commands, s.rnd.IntN(2) == 0)
		processes += len(commands)
		for _, cmd := range commands {
			if err := cmd.Wait(); err != nil && !pair {
				t.Errorf("tick %d: %v", tick, err)
			}
		}
		if !pair {
			if said := s.hears(); said != "" {
				t.Errorf("tick %d: %s", tick, said)
			}
			tick++
			continue
		}
		s.hears() // who skips one says so
		pairs[s.tick(tick)], pairs[s.tick(tick+1)] = true, true
		tick += 2
	}
	took := time.Since(began)
	skips := 0
	for n, r := range s.reckon(tick) {
		switch {
		case pairs[n] && r.Skip == cronce.SkipOverlap:
			skips++
		case r.Outcome != cronce.Succeeded:
			t.Errorf("tick %s: %+v", n, r)
		}
	}
	if skips > len(pairs)/2 {
		t.Errorf("of %d ticks in pairs %d were skipped", len(pairs), skips)
	}
	t.Logf("%d processes for %d ticks in %s; %d ticks in pairs, %d of them skipped", processes, tick-1, took.Round(time.Millisecond), len(pairs), skips)
}

// The same while guards, the commands they guard, both, and any others are
// killed at any moment: each tick runs at most once, never do two runs live at
// a time (the command of a killed guard included), each run of a killed guard
// is found lost, once, and afterwards the job runs as ever.
func TestRun_KilledCrowdRunsEachTickAtMostOnce(t *testing.T) {
	s := newStorm(t)
	began := time.Now()
	rounds, processes := stormRounds(), 0
	killed := map[int]bool{} // pids
	kills := map[string]int{}
	for round := range rounds {
		tick := round + 1
		// The one that runs is killed within its work, its command, or both. A
		// command without its guard is there for the next crowd to find.
		target := []string{"guard", "command", "both", ""}[s.rnd.IntN(4)]
		length := time.Duration(s.rnd.IntN(30)) * time.Millisecond
		moment := time.Duration(s.rnd.Int64N(int64(length + time.Millisecond)))
		if target == "guard" {
			length += 200 * time.Millisecond
		}
		commands := make([]*exec.Cmd, stormCrowd)
		for i := range commands {
			commands[i] = s.command(tick, length)
		}
		s.crowd(commands, s.rnd.IntN(2) == 0)
		processes += len(commands)
		guards := map[int]*os.Process{}
		for _, cmd := range commands {
			guards[cmd.Process.Pid] = cmd.Process
		}
		over := make(chan struct{})
		var killers sync.WaitGroup
		// Some of them, whatever they are doing.
		if s.rnd.IntN(2) == 0 {
			for range 1 + s.rnd.IntN(8) {
				victim := commands[s.rnd.IntN(len(commands))].Process
				soon := time.Duration(s.rnd.Int64N(int64(60 * time.Millisecond)))
				killed[victim.Pid] = true
				kills["any"]++
				killers.Go(func() {
					<-time.After(soon) // any moment will do
					victim.Kill()
				})
			}
		}
		if target != "" {
			killers.Go(func() {
				m, ok := s.startOf(tick, over)
				if !ok {
					return
				}
				command, err := os.FindProcess(m.pid)
				<-time.After(moment)
				kills[target]++
				// It may be gone, and the work have another parent.
				if guard := guards[m.guard]; guard != nil && target != "command" {
					killed[m.guard] = true
					guard.Kill()
				}
				if target != "guard" && err == nil {
					command.Kill()
				}
			})
		}
		for _, cmd := range commands {
			cmd.Wait()
		}
		close(over)
		killers.Wait()
		for len(s.started) > 0 {
			<-s.started
		}
	}
	took := time.Since(began)
	outcomes := map[string]int{}
	for tick, r := range s.reckon(rounds + 1) {
		outcomes[string(r.Outcome)+string(r.Skip)]++
		switch {
		case r.Outcome == cronce.Lost && !killed[r.Holder.PID]:
			t.Errorf("tick %s: run %s is lost, and its guard was not killed", tick, r.ID)
		case r.Outcome == cronce.Failed && r.Signal != "SIGKILL":
			t.Errorf("tick %s: %+v", tick, r)
		}
	}
	if least := kills["guard"] / 2; outcomes["lost"] < least {
		t.Errorf("%d runs are lost, at least %d were killed", outcomes["lost"], least)
	}
	t.Logf("%d processes for %d ticks in %s; killed %v; ended as %v", processes, rounds, took.Round(time.Millisecond), kills, outcomes)
}
