package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// clockBin is the folder with the programs whose clock a test sets.
var clockBin = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(bin, "clock")
	return dir, testenv.BuildWithClock(dir)
})

// A host is a machine with a store and a clock of its own. The clock stands
// still between one setting and the next, so that a slow machine sees the same
// as a quick one.
type host struct {
	*testing.T
	bin, store, did string
	clock           *testenv.Clock
}

// noon is when the hosts' clocks begin, so that an hour back is the same day.
var noon = time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)

// newHost makes a host. Its timers go so many times as fast as real ones.
func newHost(t *testing.T, timers int) *host {
	t.Helper()
	programs, err := clockBin()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	clock, err := testenv.NewClock(dir, noon, timers)
	if err != nil {
		t.Fatal(err)
	}
	return &host{T: t, bin: programs, store: filepath.Join(dir, "store"), did: filepath.Join(dir, "did"), clock: clock}
}

// set lets the clock stand at that time.
func (h *host) set(at time.Time) {
	h.Helper()
	if err := h.clock.Stand(at); err != nil {
		h.Fatal(err)
	}
}

// command is cronce on that host.
func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(h.bin, "cronce"), args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "CRONCE_STORE="+h.store, "DID="+h.did, h.clock.Env())
	return cmd
}

// A launch is a cronce run as cron starts it.
type launch struct {
	h        *host
	cmd      *exec.Cmd
	out, err bytes.Buffer
	ended    chan struct{}
}

// did is the work of jobs: it says for which tick it was done.
const did = `echo "$CRONCE_JOB $CRONCE_TICK $CRONCE_RUN_ID" >>"$DID"`

// launch starts a cronce run of the job, whose schedule is every minute.
func (h *host) launch(work string, flags ...string) *launch {
	h.Helper()
	args := append([]string{"run", "--schedule", "* * * * *"}, flags...)
	l := &launch{h: h, cmd: h.command(append(args, "job", "--", "sh", "-c", work)...), ended: make(chan struct{})}
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.err
	if err := l.cmd.Start(); err != nil {
		h.Fatal(err)
	}
	go func() {
		l.cmd.Wait()
		close(l.ended)
	}()
	return l
}

// ends waits for the end, which must have that exit code, and returns what was
// said on stderr.
func (l *launch) ends(code int) string {
	l.h.Helper()
	<-l.ended
	if got := l.cmd.ProcessState.ExitCode(); got != code {
		l.h.Errorf("%s, at %s: exit %d, want %d\n%s%s", l.cmd.Args[1:], l.h.clock.Now(), got, code, &l.out, &l.err)
	}
	return l.err.String()
}

// run is a launch to its end.
func (h *host) run(at time.Time, code int, flags ...string) string {
	h.Helper()
	h.set(at)
	return h.launch(did, flags...).ends(code)
}

// ran returns for which ticks the work of a job was done, in order.
func (h *host) ran(job string) []string {
	h.Helper()
	text, err := os.ReadFile(h.did)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	var ticks []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == job {
			ticks = append(ticks, f[1])
		}
	}
	return ticks
}

// expectRan fails unless the job's work was done for these ticks, once each
// and in this order, and the record says the same.
func (h *host) expectRan(job string, want ...time.Time) {
	h.Helper()
	if got := h.ran(job); !slices.Equal(got, stamps(want)) {
		h.Errorf("%s ran for\n%v, want\n%v", job, got, stamps(want))
	}
	var recorded []string
	for _, r := range runsOf(h.T, h.store) {
		if r.Job == job && r.Skip == "" {
			recorded = append(recorded, cronce.Stamp(r.Tick))
			if r.Outcome != cronce.Succeeded {
				h.Errorf("%s, tick %s: on record as %q", job, cronce.Stamp(r.Tick), r.Outcome)
			}
		}
	}
	slices.Sort(recorded)
	if sorted := slices.Sorted(slices.Values(stamps(want))); !slices.Equal(recorded, sorted) {
		h.Errorf("%s is on record for\n%v, want\n%v", job, recorded, sorted)
	}
}

// journals is how many files a job's journal has.
func (h *host) journals(job string) int {
	h.Helper()
	files, err := filepath.Glob(filepath.Join(h.store, "jobs", job, "journal.*"))
	if err != nil {
		h.Fatal(err)
	}
	return len(files)
}

// watchClaims lets one wait until a launch that is still to come has claimed
// the job so many times, and waits between that: each time the lock is opened.
func (h *host) watchClaims() (await func(l *launch, n int)) {
	h.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		h.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	h.Cleanup(func() { events.Close() })
	if _, err := syscall.InotifyAddWatch(fd, filepath.Join(h.store, "jobs", "job", "job.lock"), syscall.IN_OPEN); err != nil {
		h.Fatal(err)
	}
	return func(l *launch, n int) {
		h.Helper()
		go func() {
			<-l.ended
			events.Close()
		}()
		// Events that are alike are made one while nobody reads them.
		for buf := make([]byte, unsafe.Sizeof(syscall.InotifyEvent{})); n > 0; n-- {
			if _, err := events.Read(buf); err != nil {
				l.ends(0)
				h.Fatalf("it does not wait: %v\n%s", err, &l.err)
			}
		}
	}
}

// cron starts a job at its tick, and before cronce looks at the clock this is
// set back a little: it must not be taken for the tick before, which has run.
func TestClock_StepBackBeforeLaunchNamesTheSameTick(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	h.run(noon.Add(50*time.Millisecond), 0)
	for i := 1; i <= 3; i++ {
		tick := noon.Add(time.Duration(i) * time.Minute)
		await := h.watchClaims()
		h.set(tick.Add(50*time.Millisecond - 300*time.Millisecond))
		l := h.launch(did)
		await(l, 3) // it is too early, and it looks again
		if got := h.ran("job"); len(got) != i {
			t.Errorf("ran for %v before the clock had come to %s", got, tick)
		}
		h.set(tick)
		if said := l.ends(0); said != "" {
			t.Errorf("it says %q", said)
		}
		h.expectRan("job", ticks(noon, i+1)...)
	}
}

// ticks are so many minutes.
func ticks(from time.Time, n int) []time.Time {
	all := make([]time.Time, n)
	for i := range all {
		all[i] = from.Add(time.Duration(i) * time.Minute)
	}
	return all
}

// A tick up to half a minute ahead of the clock is waited for; a farther one is
// a clock that is wrong, and refused with nothing decided.
func TestClock_TickAheadIsWaitedForOrRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, 60)
	h.run(noon, 0)
	tick := noon.Add(time.Minute)
	h.set(tick.Add(-31 * time.Second))
	if said := h.launch(did, "--tick", cronce.Stamp(tick)).ends(78); !strings.Contains(said, "31s ahead") {
		t.Errorf("it says %q", said)
	}
	h.expectRan("job", noon)

	await := h.watchClaims()
	h.set(tick.Add(-30 * time.Second))
	l := h.launch(did, "--tick", cronce.Stamp(tick))
	await(l, 3)
	h.expectRan("job", noon)
	h.set(tick)
	l.ends(0)
	h.expectRan("job", noon, tick)
}

// What was started later than the start deadline is skipped as late: recorded
// by the first to come, taken for all others.
func TestClock_LaunchAfterStartDeadlineIsLateOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	late := noon.Add(time.Minute)
	h.run(noon.Add(30*time.Second), 0) // the last moment
	said := h.run(late.Add(30*time.Second+time.Millisecond), 0)
	if !strings.Contains(said, cronce.Stamp(late)) || !strings.Contains(said, "late") || strings.Count(said, "\n") != 1 {
		t.Errorf("it says %q", said)
	}
	if said := h.run(late.Add(31*time.Second), 75); said != "" {
		t.Errorf("one more says %q", said)
	}
	// It stays decided, should the clock have been wrong.
	h.run(late.Add(time.Second), 75)
	h.run(noon.Add(2*time.Minute), 0)
	h.expectRan("job", noon, noon.Add(2*time.Minute))
	skips := 0
	for _, r := range runsOf(t, h.store) {
		if r.Skip != "" {
			skips++
			if r.Skip != cronce.SkipLate || !r.Tick.Equal(late) {
				t.Errorf("skipped: %+v", r)
			}
		}
	}
	if skips != 1 {
		t.Errorf("%d skips on record, want 1", skips)
	}
}

// The clock goes back an hour under a crontab of cronce run, and cron starts
// everything again: no tick that ran runs again, and the first new one does.
func TestClock_HourBackRunsNoTickAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	const minutes = 75
	all := ticks(noon, minutes)
	for _, tick := range all {
		h.run(tick, 0)
	}
	if n := h.journals("job"); n < 2 {
		t.Errorf("the journal has %d file: the test does not test much", n)
	}
	for _, tick := range all[minutes-60:] {
		if said := h.run(tick, 0); said != "" {
			t.Errorf("tick %s, a second time: %s", cronce.Stamp(tick), said)
		}
	}
	next := noon.Add(minutes * time.Minute)
	h.run(next, 0)
	h.expectRan("job", append(all, next)...)
}

// The clock goes a year ahead, long enough for history to grow old and be
// dropped, and back: later ticks run as ever, and nothing runs twice, not even
// what is forgotten.
func TestClock_YearAheadAndBackBlocksNothingRunsNothingTwice(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	before, ahead := ticks(noon, 75), ticks(noon.AddDate(1, 0, 0), 75)
	for _, tick := range before {
		h.run(tick, 0)
	}
	for _, tick := range ahead {
		h.run(tick, 0)
	}
	known := runsOf(t, h.store)
	if known[0].Tick.Equal(noon) {
		t.Errorf("of %d runs none is forgotten: the test does not test much", len(known))
	}
	for i := 0; i < len(before); i += 4 {
		code := 75 // nobody knows how it ended
		if !before[i].Before(known[0].Tick) {
			code = 0
		}
		h.run(before[i], code)
	}
	after := ticks(before[len(before)-1].Add(time.Minute), 5)
	for _, tick := range after {
		h.run(tick, 0)
	}
	for i := 0; i < len(ahead); i += 4 {
		h.run(ahead[i], 0)
	}
	want := slices.Concat(stamps(before), stamps(ahead), stamps(after))
	if got := h.ran("job"); !slices.Equal(got, want) {
		t.Errorf("ran for\n%v, want\n%v", got, want)
	}
}

func stamps(ticks []time.Time) []string {
	var all []string
	for _, tick := range ticks {
		all = append(all, cronce.Stamp(tick))
	}
	return all
}

// The clock is set by a year while a command runs: neither its timeout nor its
// record suffers, and the job is as guarded as before.
func TestClock_StepsDoNotEndWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l := h.launch("read x <"+fifo+"; "+did, "--timeout", "10m")
	gate, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once it stands there
	if err != nil {
		t.Fatal(err)
	}
	for _, tick := range []time.Time{noon.AddDate(1, 0, 0), noon.Add(-time.Hour), noon.Add(time.Minute)} {
		if said := h.run(tick, 0); !strings.Contains(said, "overlap") {
			t.Errorf("at %s beside it: %q", tick, said)
		}
	}
	gate.Close()
	l.ends(0)
	h.run(noon.Add(2*time.Minute), 0)
	h.expectRan("job", noon, noon.Add(2*time.Minute))
}

// A launch waits for the left-overs of a killed run to go, and the clock goes
// back an hour meanwhile: it does not wait for an hour, nor decides a tick that
// is far ahead now, nor is that tick lost when the clock is right again.
func TestClock_HourBackWhileLaunchWaitsIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	killed := h.launch("read x <" + fifo)
	gate, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once it stands there
	if err != nil {
		t.Fatal(err)
	}
	killed.cmd.Process.Kill()
	killed.ends(-1)

	await := h.watchClaims()
	h.set(noon.Add(time.Minute))
	l := h.launch(did)
	await(l, 3) // it waits
	h.set(noon.Add(-time.Hour))
	if said := l.ends(78); !strings.Contains(said, "ahead") {
		t.Errorf("it says %q", said)
	}
	gate.Close()
	h.run(noon.Add(time.Minute), 0)
	if got := h.ran("job"); !slices.Equal(got, stamps(ticks(noon.Add(time.Minute), 1))) {
		t.Errorf("ran for %v", got)
	}
}

// serve has a job, and a marker that runs whenever the clock was looked at. It
// returns functions that set the clock, forward and back, and wait until serve
// has seen that.
func (h *host) serve(schedule string) (s *server, set, back func(time.Time)) {
	h.Helper()
	crontab := write(h.T, filepath.Join(filepath.Dir(h.did), "crontab"),
		"# cronce: name=job\n"+schedule+"  "+did+"\n# cronce: name=marker overlap=allow\n@every 1s  "+did+"\n")
	s = startServer(h.T, h.command("serve", "--crontab", crontab))
	s.await(h.T, 0, "serves 2 jobs")
	set = func(at time.Time) {
		h.Helper()
		from := s.lines()
		h.set(at)
		// What is due is offered in the order of ticks, the marker's first.
		s.await(h.T, s.await(h.T, from, "marker", "started", cronce.Stamp(at)), "marker", "succeeded")
	}
	back = func(at time.Time) {
		h.Helper()
		// A tick at the very time that the clock was set to is not to come any more.
		from := s.lines()
		if err := h.clock.Go(at, 5); err != nil {
			h.Fatal(err)
		}
		s.await(h.T, from, "marker", "started", at.Add(2*time.Second).Format("2006-01-02T15:"))
	}
	return s, set, back
}

// serve goes on while the clock goes back an hour: no tick that ran runs again,
// and the first new one does.
func TestClock_ServeRunsNoTickAgainAfterHourBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, 4)
	h.set(noon.Add(-time.Minute))
	s, set, back := h.serve("*/20 * * * *")
	var want []time.Time
	for minutes := 0; minutes <= 60; minutes += 20 {
		tick := noon.Add(time.Duration(minutes) * time.Minute)
		from := s.lines()
		set(tick)
		s.await(t, from, "job", "succeeded")
		want = append(want, tick)
	}
	back(noon.Add(2 * time.Second)) // an hour
	for minutes := 20; minutes <= 60; minutes += 20 {
		set(noon.Add(time.Duration(minutes)*time.Minute + time.Second))
	}
	next := noon.Add(80 * time.Minute)
	from := s.lines()
	set(next)
	s.await(t, from, "job", "succeeded")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("serve stopped with exit %d", code)
	}
	h.expectRan("job", append(want, next)...)
}

// serve goes on while the clock goes a year ahead and back: the newest tick of
// the year runs, later ticks run as ever, and nothing runs twice.
func TestClock_ServeGoesOnAfterYearAheadAndBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, 4)
	h.set(noon.Add(-time.Minute))
	s, set, back := h.serve("*/20 * * * *")
	year := noon.AddDate(1, 0, 0)
	var want []time.Time
	runs := func(tick time.Time) {
		t.Helper()
		from := s.lines()
		set(tick)
		s.await(t, from, "job", "succeeded")
		want = append(want, tick)
	}
	runs(noon)
	runs(year)
	if !s.says("job", "MISSED", cronce.Stamp(noon.Add(20*time.Minute)), cronce.Stamp(year.Add(-20*time.Minute))) {
		t.Error("nothing is said of the year that was missed")
	}
	runs(year.Add(20 * time.Minute))
	back(noon.Add(-time.Second))
	runs(noon.Add(20 * time.Minute))
	runs(noon.Add(40 * time.Minute))
	set(year.Add(time.Second)) // the year has really passed
	set(year.Add(20*time.Minute + time.Second))
	runs(year.Add(40 * time.Minute))
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("serve stopped with exit %d", code)
	}
	h.expectRan("job", want...)
}
