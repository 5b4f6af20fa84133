package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
)

// serve gets kill -9 while runs of every overlap policy go on. The next serve
// says that it sees them, deals with their ticks as the policies say and names
// them, and what they do until their end is on record as if nothing had been.
func TestServe_KilledServesRunsGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { endAllThatName(t, dir) })
	store := filepath.Join(dir, "store")
	makeFifo(t, filepath.Join(dir, "gate"))
	work := func(exit int) string {
		return fmt.Sprintf("echo up; read x <%s/gate; seq 1 15000; echo last; exit %d", dir, exit)
	}
	crontab := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf(`
# cronce: name=good
@every 1s  %s
# cronce: name=bad
@every 1s  %s
# cronce: name=waits overlap=wait=1h
@every 1s  %s
# cronce: name=beside overlap=allow
@every 2s  %s
# cronce: name=replaced
@every 1s  echo up; while :; do sleep 0.05; done
`, work(0), work(3), work(0), work(0)))
	jobs := []string{"good", "bad", "waits", "beside", "replaced"}
	first := startServe(t, store, crontab)
	for _, job := range jobs {
		first.await(t, 0, job, "| up")
	}
	first.cmd.Process.Kill()
	<-first.gone
	before := map[string]cronce.Run{}
	for _, r := range runsOf(t, store) {
		if r.Live() && r.Holder.PID != first.cmd.Process.Pid { // its guard has it
			before[r.Job] = r // of several, the last
		}
	}
	if len(before) != len(jobs) {
		t.Fatalf("running are %+v", before)
	}

	// The new release of the crontab says more of one job.
	text, err := os.ReadFile(crontab)
	if err != nil {
		t.Fatal(err)
	}
	write(t, crontab, strings.Replace(string(text), "name=replaced", "name=replaced overlap=replace", 1))
	next := startServe(t, store, crontab)
	for job, r := range before {
		next.await(t, 0, job, "goes on", r.ID, fmt.Sprintf("pid %d", r.Holder.PID))
	}
	for _, job := range []string{"good", "bad"} {
		next.await(t, 0, job, "skipped", "overlap", before[job].ID)
	}
	// One tick waits for the run, the others are skipped because of it.
	next.await(t, 0, "waits", "skipped", "overlap", before["waits"].ID)
	next.await(t, 0, "beside", "started")
	next.await(t, 0, "replaced", "started")
	if r := runOf(t, store, before["replaced"].ID); r.Outcome != cronce.Cancelled || !strings.Contains(r.Message, "asked to stop") {
		t.Errorf("replaced ended as %+v", r)
	}
	for _, job := range []string{"good", "bad", "waits", "beside"} {
		if r := runOf(t, store, before[job].ID); !r.Live() {
			t.Errorf("%s ended too early: %+v", job, r)
		}
	}

	// They end: as many words as may be read by then.
	if err := os.WriteFile(filepath.Join(dir, "gate"), []byte(strings.Repeat("go\n", 100)), 0); err != nil {
		t.Fatal(err)
	}
	next.await(t, 0, "good", "started") // which it can only when the run before has ended
	next.await(t, 0, "bad", "started")
	next.await(t, 0, "waits", "started")
	for job, want := range map[string]cronce.Result{
		"good":  {Outcome: cronce.Succeeded},
		"bad":   {Outcome: cronce.Failed, ExitCode: 3},
		"waits": {Outcome: cronce.Succeeded},
	} {
		r := runOf(t, store, before[job].ID)
		if r.Outcome != want.Outcome || r.ExitCode != want.ExitCode || !r.End.After(r.Start) {
			t.Errorf("%s ended as %+v", job, r)
		}
		printed := len("up\n") + len("last\n")
		for n := 1; n <= 15000; n++ {
			printed += len(fmt.Sprintln(n))
		}
		if r.OutputBytes != int64(printed) {
			t.Errorf("%s printed %d bytes, on record are %d", job, printed, r.OutputBytes)
		}
		out, err := exec.Command(filepath.Join(bin, "cronce"), "runs", "--id", r.ID, "--store", store).Output()
		if err != nil || !strings.HasSuffix(string(out), "\n14999\n15000\nlast\n") {
			t.Errorf("%s: the end of its output on record: %v %.200q", job, err, out[max(0, len(out)-100):])
		}
	}
}

// serve and the guard get kill -9: the command goes on and its job stays
// guarded; when it has ended, its run is lost, once, and the next tick runs.
func TestServe_KilledGuardsRunIsLostOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { endAllThatName(t, dir) })
	store := filepath.Join(dir, "store")
	makeFifo(t, filepath.Join(dir, "gate"))
	crontab := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf("# cronce: name=work\n@every 1s  echo up; read x <%s/gate\n", dir))
	first := startServe(t, store, crontab)
	first.await(t, 0, "work", "| up")
	first.cmd.Process.Kill()
	<-first.gone
	run := onlyRun(t, store)
	if err := syscall.Kill(run.Holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	servers := []*server{startServe(t, store, crontab), startServe(t, store, crontab)}
	for _, s := range servers {
		s.await(t, 0, "work", "goes on", run.ID)
	}
	firstToSay(servers, "work", "skipped", "orphans", run.ID)
	if r := runOf(t, store, run.ID); !r.Live() {
		t.Errorf("lost while its command goes on: %+v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "gate"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	// Whoever of them has the next tick: it is another run.
	another := func(r cronce.Run) bool { return r.Live() && r.ID != run.ID }
	for !slices.ContainsFunc(runsOf(t, store), another) {
	}
	if r := runOf(t, store, run.ID); r.Outcome != cronce.Lost {
		t.Errorf("it ended as %+v", r)
	}
	if n := endsOf(t, store, "work")[run.ID]; n != 1 {
		t.Errorf("its end is on record %d times", n)
	}
}

// The machine stops while a run goes on, and starts again: with nobody left of
// it, the run is lost, once, the next tick runs, and so do the lines for a boot.
func TestServe_Reboot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { endAllThatName(t, dir) })
	store := filepath.Join(dir, "store")
	crontab := write(t, filepath.Join(dir, "crontab"), `
# cronce: name=work
@every 1s  echo up $$; exec sleep 1000
# cronce: name=boot
@reboot  echo booted
`)
	first := startServe(t, store, crontab)
	first.await(t, 0, "boot", "succeeded")
	up := first.await(t, 0, "work", "| up")
	first.mu.Lock()
	said := first.log[up]
	first.mu.Unlock()
	var command int
	if _, err := fmt.Sscan(said[strings.LastIndex(said, " "):], &command); err != nil {
		t.Fatal(err)
	}
	run := onlyRun(t, store)
	// All at once, as far as it matters: who is left could only record an end.
	first.cmd.Process.Signal(syscall.SIGSTOP)
	for _, pid := range []int{run.Holder.PID, command, first.cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	<-first.gone

	// Another boot is one with another id and time.
	id := write(t, filepath.Join(dir, "boot_id"), "01234567-89ab-4cde-8f01-23456789abcd\n")
	uptime := write(t, filepath.Join(dir, "uptime"), "5.00 9.00\n")
	unshare := []string{"-m"}
	if os.Getuid() != 0 {
		unshare = []string{"-r", "-m"}
	}
	cmd := exec.Command("unshare", append(unshare, "sh", "-ec",
		`mount --bind "$1" /proc/sys/kernel/random/boot_id; mount --bind "$2" /proc/uptime; exec "$3" serve --store "$4" --crontab "$5"`,
		"sh", id, uptime, filepath.Join(bin, "cronce"), store, crontab)...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	next := startServer(t, cmd)
	next.await(t, 0, "boot", "succeeded")
	next.await(t, 0, "work", "| up")
	if next.says("goes on") || next.says("work", "skipped", run.ID) {
		t.Error("it takes the run of the earlier boot for alive")
	}
	if r := runOf(t, store, run.ID); r.Outcome != cronce.Lost {
		t.Errorf("it ended as %+v", r)
	}
	if n := endsOf(t, store, "work")[run.ID]; n != 1 {
		t.Errorf("its end is on record %d times", n)
	}
}

// onlyRun is the one run that goes on.
func onlyRun(t *testing.T, store string) (run cronce.Run) {
	t.Helper()
	for _, r := range runsOf(t, store) {
		if r.Live() {
			if run.ID != "" {
				t.Fatalf("two runs go on: %+v and %+v", run, r)
			}
			run = r
		}
	}
	if run.ID == "" {
		t.Fatal("no run goes on")
	}
	return run
}
