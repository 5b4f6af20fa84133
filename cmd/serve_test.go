package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
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
)

// server is a running `cronce serve`.
type server struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	log  []string
	more chan struct{} // closed and renewed with each line
	gone chan struct{}
	err  error // once gone
}

// startServe starts a serve and stops it with the test.
func startServe(t *testing.T, store, crontab string, args ...string) *server {
	t.Helper()
	return startServeFrom(t, bin, store, crontab, args...)
}

// startServeFrom starts the serve of another folder with programs.
func startServeFrom(t *testing.T, bin, store, crontab string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "cronce"), append([]string{"serve", "--store", store, "--crontab", crontab}, args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	return startServer(t, cmd)
}

// startServer starts a serve that is a command already.
func startServer(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd, more: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.mu.Lock()
			s.log = append(s.log, lines.Text())
			close(s.more)
			s.more = make(chan struct{})
			s.mu.Unlock()
		}
		s.err = cmd.Wait()
		close(s.gone)
	}()
	t.Cleanup(func() {
		// In order, so that no guard is left behind; a hung serve is killed.
		for range 2 {
			cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-s.gone:
			case <-time.After(time.Second / 2):
			}
		}
		select {
		case <-s.gone:
		case <-time.After(15 * time.Second):
			cmd.Process.Kill()
			<-s.gone
		}
		if t.Failed() {
			t.Logf("serve %d:\n%s", cmd.Process.Pid, strings.Join(s.log, "\n"))
		}
	})
	return s
}

// await returns the first line, from the given one on, that has all the words.
// It fails the test if serve ends without one, or says none for so long that it
// never will: what it said in place of it is then shown.
func (s *server) await(t *testing.T, from int, words ...string) int {
	t.Helper()
	never := time.After(5 * time.Minute)
	for at := from; ; {
		s.mu.Lock()
		for ; at < len(s.log); at++ {
			if hasAll(s.log[at], words) {
				s.mu.Unlock()
				return at
			}
		}
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-never:
			t.Fatalf("serve goes on without saying %q", words)
		case <-s.gone:
			s.mu.Lock()
			rest := len(s.log) > at
			s.mu.Unlock()
			if !rest {
				t.Fatalf("serve ended without saying %q", words)
			}
		}
	}
}

// said is what it has said, from one line up to another.
func (s *server) said(from, to int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log[from:to])
}

// lines is how many lines it has said.
func (s *server) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}

func hasAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

// stop sends the signal and returns serve's exit code.
func (s *server) stop(sig syscall.Signal) int {
	s.cmd.Process.Signal(sig)
	<-s.gone
	return s.cmd.ProcessState.ExitCode()
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// runsOf asks `cronce runs` for all that the store has.
func runsOf(t *testing.T, store string) []cronce.Run {
	t.Helper()
	return runsSaid(t, exec.Command(filepath.Join(bin, "cronce"), "runs", "--json", "-n", "0", "--store", store))
}

// runsSaid are the runs that a `cronce runs --json` tells of.
func runsSaid(t *testing.T, cmd *exec.Cmd) []cronce.Run {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cronce runs: %v", err)
	}
	var runs []cronce.Run
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var r cronce.Run
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// Two serves on one store and one crontab, one of them killed and started anew
// again and again: each tick is run once, by the word of the jobs themselves,
// and the store's records agree.
func TestServe_TwoServesRunEachTickOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, did := filepath.Join(dir, "store"), filepath.Join(dir, "did")
	crontab := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf(`
DID=%s
# cronce: name=quick
@every 1s  echo "quick $CRONCE_TICK $CRONCE_RUN_ID" >>"$DID"
# cronce: name=other
@every 2s  echo "other $CRONCE_TICK $CRONCE_RUN_ID" >>"$DID"; sleep 0.2
`, did))
	servers := []*server{startServe(t, store, crontab), startServe(t, store, crontab)}
	for _, s := range servers {
		s.await(t, 0, "serves 2 jobs")
	}
	all := slices.Clone(servers)
	start := time.Now()
	const kills = 5
	for range kills {
		firstToSay(servers, "succeeded")
		// The one that runs something now is killed, and another one started.
		i := firstToSay(servers, "started")
		servers[i].cmd.Process.Kill()
		<-servers[i].gone
		servers[i] = startServe(t, store, crontab)
		servers[i].await(t, 0, "serves 2 jobs")
		all = append(all, servers[i])
	}
	// One more run of each job finds what the last one left.
	for _, job := range []string{"quick", "other"} {
		firstToSay(servers, job, "started")
	}
	for _, s := range servers {
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("serve stopped with exit %d", code)
		}
	}
	end := time.Now()

	text, err := os.ReadFile(did)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]string{} // job and tick -> run
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		tick := f[0] + " " + f[1]
		if ran[tick] != "" {
			t.Errorf("%s ran twice: runs %s and %s", tick, ran[tick], f[2])
		}
		ran[tick] = f[2]
	}
	decided := map[string]cronce.Run{}
	for _, r := range runsOf(t, store) {
		tick := r.Job + " " + cronce.Stamp(r.Tick)
		if _, twice := decided[tick]; twice {
			t.Errorf("%s is on record twice", tick)
		}
		decided[tick] = r
		if r.Live() {
			t.Errorf("%s is on record as still running: %+v", tick, r)
		}
		if r.Skip == "" && r.Outcome == cronce.Succeeded && ran[tick] != r.ID {
			t.Errorf("%s succeeded on record as run %s, and the job says %q", tick, r.ID, ran[tick])
		}
	}
	for tick, id := range ran {
		if decided[tick].ID != id {
			t.Errorf("%s ran as %s, on record is %+v", tick, id, decided[tick])
		}
	}
	// One serve was there all the time: a tick that nobody decided is one that
	// a serve names as missed, because it could not look at the clock in time.
	for _, job := range []struct {
		name string
		step time.Duration
	}{{"quick", time.Second}, {"other", 2 * time.Second}} {
		for tick := start.Truncate(job.step).Add(job.step); tick.Before(end.Add(-job.step)); tick = tick.Add(job.step) {
			_, ok := decided[job.name+" "+cronce.Stamp(tick)]
			if !ok && !slices.ContainsFunc(all, func(s *server) bool { return s.says(job.name, "MISSED") }) {
				t.Errorf("%s: nobody decided tick %s", job.name, cronce.Stamp(tick))
			}
		}
	}
	if len(ran) < kills {
		t.Errorf("only %d runs: the test did not test much", len(ran))
	}
}

// firstToSay waits until one of the servers says something new with all those
// words, and returns which.
func firstToSay(servers []*server, words ...string) int {
	from := make([]int, len(servers))
	for i, s := range servers {
		from[i] = s.lines()
	}
	for {
		mores := make([]chan struct{}, len(servers))
		for i, s := range servers {
			s.mu.Lock()
			mores[i] = s.more
			for ; from[i] < len(s.log); from[i]++ {
				if hasAll(s.log[from[i]], words) {
					s.mu.Unlock()
					return i
				}
			}
			s.mu.Unlock()
		}
		select {
		case <-mores[0]:
		case <-mores[1]:
		}
	}
}

// says reports whether it has said a line with all those words.
func (s *server) says(words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.log, func(line string) bool { return hasAll(line, words) })
}

// A run longer than its interval: the ticks within it are skipped, once each,
// with the holder on record, and the next tick runs.
func TestServe_OverlapIsSkippedAndRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	go1 := filepath.Join(dir, "go")
	if err := syscall.Mkfifo(go1, 0o600); err != nil {
		t.Fatal(err)
	}
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=slow start-deadline=1h\n@every 1s  read x <"+go1+"; echo read $x\n")
	s := startServe(t, store, crontab)
	skipped := s.await(t, s.await(t, s.await(t, 0, "slow", "started")+1, "slow", "skipped")+1, "slow", "skipped")
	if err := os.WriteFile(go1, []byte("word\n"), 0); err != nil { // as soon as the job reads
		t.Fatal(err)
	}
	s.await(t, s.await(t, s.await(t, skipped, "slow", "| read word"), "slow", "succeeded"), "slow", "started")

	runs := runsOf(t, store)
	first := runs[0]
	skips := 0
	for _, r := range runs[1:] {
		if r.Skip == "" {
			break
		}
		skips++
		if r.Skip != cronce.SkipOverlap || r.Held != first.ID {
			t.Errorf("a skip that does not name its reason and holder: %+v", r)
		}
	}
	if skips < 2 {
		t.Errorf("%d skips on record, at least 2 were seen", skips)
	}
}

// Command, environment and input reach the command byte for byte, also where they
// are no UTF-8.
func TestServe_BytesAsTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crontab := write(t, filepath.Join(dir, "crontab"), "V=v\xe9\n# cronce: name=raw\n@every 1s  { echo 'c\xe9'\"$V\"; cat; } | od -An -tx1%i\xe9\n")
	s := startServe(t, filepath.Join(dir, "store"), crontab)
	s.await(t, 0, "raw", "|  63 e9 76 e9 0a 69 e9 0a")
}

// The first TERM lets the run end; nothing new is started.
func TestServe_FirstSignalWaitsSecondEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=long\n@every 1s  trap 'echo stopped; exit 3' TERM; echo up; while :; do sleep 0.01; done\n")
	store := filepath.Join(dir, "store")
	s := startServe(t, store, crontab)
	s.await(t, 0, "long", "| up")
	s.cmd.Process.Signal(syscall.SIGTERM)
	waiting := s.await(t, 0, "serve", "waiting for those that go on")
	// One that comes at once is taken for the same request (timeout(1) sends two).
	<-time.After(time.Second / 2)
	s.cmd.Process.Signal(syscall.SIGINT)
	s.await(t, waiting, "long", "| stopped")
	s.await(t, waiting, "long", "cancelled")
	if code := s.stop(syscall.Signal(0)); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	started := 0
	for _, r := range runsOf(t, store) {
		if r.Skip == "" {
			started++
			if r.Outcome != cronce.Cancelled {
				t.Errorf("the run ended as %q: %+v", r.Outcome, r)
			}
		}
	}
	if started != 1 {
		t.Errorf("%d runs started, want 1", started)
	}
}

// On a disk that fills up the runs that have started end on record, no more
// are started, and the reason is said; when there is room again it goes on.
// A store that cannot be written at the start is refused.
func TestServe_FullAndReadOnlyDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=filler\n@every 1s  cat /dev/zero >>"+dir+"/disk/fill 2>/dev/null; echo filled\n")
	// A mount of our own, which ends with us. serve runs in it, and what we
	// run in it is told to the shell that holds it.
	in, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tell.Close() })
	unshare := []string{"-m"}
	if os.Getuid() != 0 {
		unshare = []string{"-r", "-m"}
	}
	holder := exec.Command("unshare", append(unshare, "sh", "-ec", `mkdir disk; mount -t tmpfs -o size=256k,mode=700 none disk; exec sh`)...)
	holder.Dir, holder.Stdin = dir, in
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.Stderr = holder.Stdout
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	answers := bufio.NewScanner(out)
	sh := func(command string) string {
		fmt.Fprintf(tell, "( %s ) 2>&1; echo \"exit $?\"; echo .\n", command)
		var answer []string
		for answers.Scan() && answers.Text() != "." {
			answer = append(answer, answers.Text())
		}
		return strings.Join(answer, "\n")
	}
	cronceIn := filepath.Join(bin, "cronce")
	log := filepath.Join(dir, "log")
	write(t, log, "")
	sh(fmt.Sprintf("%s serve --store disk/store --crontab %s >%s 2>&1 & echo $! >pid", cronceIn, crontab, log))
	awaitFile := func(from int, words ...string) int {
		t.Helper()
		for {
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n")[from:] {
				if hasAll(line, words) {
					return from + i + 1
				}
			}
			if sh("kill -0 $(cat pid)") != "exit 0" {
				t.Fatalf("serve ended without saying %q:\n%s", words, text)
			}
		}
	}
	at := awaitFile(0, "filler", "NOT RUN", "disk is full", "not started")
	sh("rm disk/fill")
	awaitFile(awaitFile(at, "filler", "started"), "filler", "succeeded")
	sh("kill $(cat pid)")
	awaitStopped := func() {
		for sh("kill -0 $(cat pid)") == "exit 0" {
		}
	}
	awaitStopped()
	if got := sh(cronceIn + " runs --store disk/store -n 0 | grep -c -e running -e lost"); got != "0\nexit 1" {
		t.Errorf("runs are not on record with their end:\n%s", sh(cronceIn+" runs --store disk/store -n 0"))
	}
	if text, _ := os.ReadFile(log); strings.Contains(string(text), "PROBLEM") {
		t.Errorf("a run's end was not recorded:\n%s", text)
	}

	sh("rm -f disk/fill; mount -o remount,ro disk")
	got := sh(cronceIn + " serve --store disk/store --crontab " + crontab)
	if !strings.HasSuffix(got, "exit 78") || !strings.Contains(got, "read-only") || !strings.Contains(got, "disk/store") {
		t.Errorf("on a read-only disk serve says:\n%s", got)
	}
	sh("mount -o remount,rw disk; cat /dev/zero >disk/fill")
	got = sh(cronceIn + " serve --store disk/other --crontab " + crontab)
	if !strings.HasSuffix(got, "exit 69") || !strings.Contains(got, "disk is full") || !strings.Contains(got, "disk/other") {
		t.Errorf("on a full disk serve says:\n%s", got)
	}
	tell.Close()
	holder.Wait()
}
