package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cronce/cronce"
)

// startCronce starts any command of cronce, as ann by sudo.
func (p *place) startCronce(args ...string) *cronceRun {
	p.t.Helper()
	return p.startAs("ann", args...)
}

// startAs starts a command of cronce as that person by sudo.
func (p *place) startAs(person string, args ...string) *cronceRun {
	p.t.Helper()
	return p.shell(`SUDO_USER=$1; export SUDO_USER; shift; exec "$@"`, append([]string{person, filepath.Join(bin, "cronce")}, args...)...)
}

// cronce is a command of cronce from its start to its end.
func (p *place) cronce(args ...string) ended { p.t.Helper(); return p.startCronce(args...).wait() }

// says fails the test unless it ended with that code, with all the words on
// stdout and stderr together.
func (e ended) says(t *testing.T, code int, words ...string) {
	t.Helper()
	if e.code != code || !hasAll(e.out+e.err, words) {
		t.Errorf("exit %d, stdout %q, stderr %q\nwant %d, %q", e.code, e.out, e.err, code, words)
	}
}

// requests are those that `cronce job show` has of the job.
func (p *place) requests(job string) []cronce.Request {
	p.t.Helper()
	got := p.cronce("job", "show", job, "-n", "1000", "--json")
	var shown struct{ Requests []cronce.Request }
	if err := json.Unmarshal([]byte(got.out), &shown); err != nil {
		p.t.Fatalf("%v: %+v", err, got)
	}
	return shown.Requests
}

// A run is asked to stop: its command gets TERM, and the record says who asked
// and why.
func TestRelease_AsksTheRunToStop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start("loud", "--", "sh", "-c", "trap 'echo stopped; exit 3' TERM; echo $$; while :; do sleep 0.01; done")
	pid := r.pid()
	run := p.last()
	p.cronce("release", "loud", "--why", "too loud").says(t, 0,
		"loud: asked to stop: run "+run.ID, fmt.Sprintf("pid %d (cronce)", r.cmd.Process.Pid), fmt.Sprintf("pid %d (sh)", pid),
		"loud: run "+run.ID+": cancelled after ", "loud: what held it has ended\n")
	r.wait().says(t, 3, "stopped\n", "asked to stop by ", " via sudo by ann: too loud")
	if r := p.last(); r.Outcome != cronce.Cancelled || r.ExitCode != 3 || !hasAll(r.Message, []string{"asked to stop by ", " via sudo by ann: too loud"}) {
		t.Errorf("on record: %+v", r)
	}
	asked := p.requests("loud")
	if len(asked) != 1 || asked[0].Kind != cronce.Stop || asked[0].Why != "too loud" || !slices.Equal(asked[0].Runs, []string{run.ID}) {
		t.Errorf("requests on record: %+v", asked)
	}
	p.cronce("release", "loud").says(t, 0, "loud: nothing holds it\n")
}

// A run of a serve is released, politely and by force, and serve goes on.
func TestRelease_UnderServe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	crontab := write(t, filepath.Join(p.dir, "crontab"), "# cronce: name=long\n@every 1s  trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.01; done\n")
	s := startServe(t, p.store, crontab)
	at := s.await(t, 0, "long", "| up")
	p.cronce("release", "long", "--why", "politely").says(t, 0, "asked to stop: run ", "(cronce)", ": cancelled after ")
	s.await(t, at, "long", "| asked")
	at = s.await(t, at, "long", "cancelled", "asked to stop by ", " via sudo by ann: politely")
	at = s.await(t, at, "long", "| up")
	got := p.cronce("release", "long", "--force", "--why", "at once")
	got.says(t, 0, "revoked: run ", ": cancelled after ", "the lease has ended: revoked by ", " via sudo by ann: at once")
	if strings.Contains(got.out, "cronced") {
		t.Errorf("serve is named as a process of the run: %s", got.out)
	}
	at = s.await(t, at, "long", "cancelled", "revoked by ", " via sudo by ann: at once")
	s.await(t, at, "long", "| up")
	if s.says("no more runs are started") {
		t.Error("the revocation has hit serve")
	}
}

// The guard is killed with -9 and its command goes on: nobody can be asked to
// stop it, and --force ends it. The run is lost.
func TestRelease_ForceEndsWhatNobodyWatchesOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start("job", "--", "sh", "-c", "echo $$; exec sleep 1000")
	pid := r.pid()
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	run := p.last()
	r.signal(syscall.SIGKILL)
	<-r.done
	p.cronce("release", "job", "--wait", "0s").says(t, 75,
		"job: nobody can be asked to stop it (--force ends it): run "+run.ID+" that nothing watches over any more: pid ",
		"cronce: job \"job\" is still held 0s after the request, which stands: run "+run.ID, fmt.Sprintf("pid %d (", pid), "--force ends it")
	p.cronce("release", "job", "--force", "--why", "lost its guard").says(t, 0, "revoked: run "+run.ID, fmt.Sprintf("pid %d (", pid), ": lost after ")
	awaitEnd(t, pid)
	if r := p.last(); r.ID != run.ID || r.Outcome != cronce.Lost {
		t.Errorf("on record: %+v", r)
	}
	asked := p.requests("job")
	if len(asked) != 2 || asked[1].Kind != cronce.Revoke || asked[1].Why != "lost its guard" || !slices.Equal(asked[1].Runs, []string{run.ID}) {
		t.Errorf("requests on record: %+v", asked)
	}
	p.run("job", "--", "echo", "ran").want(t, 0, "ran\n")
}

// A run that ignores TERM holds its job for as long as its grace, however
// politely it is asked; --force does not wait for that.
func TestRelease_OfOneThatIgnoresTERM(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start("--grace=1h", "deaf", "--", "sh", "-c", `trap "" TERM; echo $$; while :; do sleep 0.01; done`)
	pid := r.pid()
	run := p.last()
	p.cronce("release", "deaf", "--wait", "1ms").says(t, 75, `cronce: job "deaf" is still held 1ms after the request, which stands: run `+run.ID, fmt.Sprintf("pid %d (cronce)", r.cmd.Process.Pid))
	p.cronce("release", "deaf", "--force").says(t, 0, "revoked: run "+run.ID, fmt.Sprintf("pid %d (sh)", pid))
	awaitEnd(t, pid)
	if got := r.wait(); got.code == 0 {
		t.Errorf("it ended with %+v", got)
	}
	if r := p.last(); r.Outcome != cronce.Cancelled || r.Signal != "SIGKILL" {
		t.Errorf("on record: %+v", r)
	}
}

// Whatever the job's overlap setting: what is triggered by hand neither waits
// for the run that goes on, nor ends it, nor runs beside it.
func TestTrigger_NeverOverlaps(t *testing.T) {
	t.Parallel()
	for i, overlap := range []string{"skip", "wait=1h", "replace", "allow"} {
		t.Run(overlap, func(t *testing.T) {
			p := newPlace(t)
			crontab := write(t, filepath.Join(p.dir, "crontab"), "# cronce: name=job overlap="+overlap+"\n0 3 * * * echo ran\n")
			scheduled, gate := p.hold(i, "job", "--overlap="+overlap)
			run := p.last()
			for _, args := range [][]string{{"--crontab", crontab}, {"--", "echo", "ran"}} {
				got := p.cronce(append([]string{"trigger", "job"}, args...)...)
				got.want(t, 75, "", "cronce: job: a run by hand is skipped: overlap: run "+run.ID, fmt.Sprintf("pid %d on ", scheduled.cmd.Process.Pid))
			}
			p.open(gate)
			scheduled.wait().want(t, 0, "")
			p.cronce("trigger", "job", "--crontab", crontab).want(t, 0, "ran\n")
			p.cronce("trigger", "job", "--", "sh", "-c", "echo ran; exit 9").want(t, 9, "ran\n")
		})
	}
}

// A run that was triggered keeps a scheduled one out as any other does, and a
// signal reaches its command.
func TestTrigger_IsARun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	crontab := write(t, filepath.Join(p.dir, "crontab"), "# cronce: name=job\n@every 1s  echo up; exec sleep 1000\n")
	byHand := p.startCronce("trigger", "job", "--crontab", crontab)
	byHand.line()
	run := p.last()
	if run.Holder.Via != "trigger" || !strings.HasSuffix(run.Holder.User, " via sudo by ann") || !run.Tick.IsZero() {
		t.Errorf("on record: %+v", run)
	}
	s := startServe(t, p.store, crontab)
	at := s.await(t, 0, "job", "skipped", "overlap: run "+run.ID)
	byHand.signal(syscall.SIGTERM)
	byHand.wait().says(t, 143)
	s.await(t, at, "job", "started")
	if i := slices.IndexFunc(runsOf(t, p.store), func(r cronce.Run) bool { return r.ID == run.ID }); runsOf(t, p.store)[i].Outcome != cronce.Cancelled {
		t.Errorf("on record: %+v", runsOf(t, p.store)[i])
	}
}

// While a job is paused each of its ticks is skipped, once, among two serves;
// then it goes on.
func TestPause_UnderServe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	crontab := write(t, filepath.Join(p.dir, "crontab"), "# cronce: name=job\n@every 1s  echo ran\n# cronce: name=other\n@every 1s  echo ran\n")
	servers := []*server{startServe(t, p.store, crontab), startServe(t, p.store, crontab)}
	firstToSay(servers, "job", "succeeded")
	p.cronce("pause", "job", "--why", "migration").says(t, 0, "job: paused: its ticks are skipped")
	for range 3 {
		i := firstToSay(servers, "job", "skipped", "paused by ", " via sudo by ann at ", ": migration")
		firstToSay(servers, "other", "started")
		if s := servers[i]; s.says("job", "NOT RUN") {
			t.Error("a paused tick was refused")
		}
	}
	p.cronce("status", "job").says(t, 0, "paused by ", " via sudo by ann since ", ": migration")
	p.cronce("resume", "job").says(t, 0, "job: resumed; it was paused by ", ": migration; next tick ")
	firstToSay(servers, "job", "started")

	var words []string
	decided := map[time.Time]int{}
	for _, r := range runsOf(t, p.store) {
		if r.Job != "job" {
			continue
		}
		decided[r.Tick]++
		if r.Skip == cronce.SkipOverlap || r.Skip == cronce.SkipOrphans || r.Skip == cronce.SkipLate {
			continue // a second is short on a busy machine
		}
		if word := string(r.Skip); len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	if want := []string{"", "paused", ""}; !slices.Equal(words, want) {
		t.Errorf("decided as %q, want %q: run, then paused, then run", words, want)
	}
	for tick, n := range decided {
		if n != 1 {
			t.Errorf("tick %s is decided %d times", cronce.Stamp(tick), n)
		}
	}
	if asked := p.requests("job"); !slices.EqualFunc(asked[len(asked)-2:], []cronce.RequestKind{cronce.Pause, cronce.Resume}, func(r cronce.Request, k cronce.RequestKind) bool { return r.Kind == k }) {
		t.Errorf("requests on record: %+v", asked)
	}
}

// Many who do the same at once: it is done once, and each is told.
func TestOperations_SeveralAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run("job", "--", "true").want(t, 0, "")
	const persons = 6
	atOnce := func(args ...string) []ended {
		all := make([]*cronceRun, persons)
		for i := range all {
			all[i] = p.startAs(fmt.Sprintf("person%d", i), args...)
		}
		out := make([]ended, persons)
		for i, r := range all {
			out[i] = r.wait()
		}
		return out
	}
	did := 0
	for i, got := range atOnce("pause", "job") {
		switch {
		case strings.HasPrefix(got.out, "job: paused: "):
			did++
			if asked := p.requests("job"); !strings.HasSuffix(asked[0].By, fmt.Sprintf(" via sudo by person%d", i)) {
				t.Errorf("person%d was told to have paused it, on record is %+v", i, asked)
			}
		default:
			got.says(t, 0, "job: paused already, by ", " via sudo by person")
		}
	}
	if asked := p.requests("job"); did != 1 || len(asked) != 1 {
		t.Errorf("%d were told to have paused it; on record: %+v", did, asked)
	}
	for _, got := range atOnce("resume", "job") {
		if got.code != 0 || !strings.HasPrefix(got.out, "job: resumed; ") && got.out != "job: it is not paused\n" {
			t.Errorf("resume: %+v", got)
		}
	}
	if asked := p.requests("job"); len(asked) != 2 || asked[1].Kind != cronce.Resume {
		t.Errorf("on record: %+v", asked)
	}

	gate := p.gate("gate")
	var running []*cronceRun
	for range persons {
		running = append(running, p.startCronce("trigger", "job", "--", "sh", "-c", "read x <"+gate+"; echo ran"))
	}
	held := slices.IndexFunc(running, func(r *cronceRun) bool { return r.cmd.Process.Pid == p.holder("job") })
	if held < 0 {
		t.Fatal("none of them holds the job")
	}
	for i, r := range running {
		if i != held {
			r.wait().says(t, 75, "a run by hand is skipped: overlap")
		}
	}
	p.open(gate)
	running[held].wait().want(t, 0, "ran\n")

	r := p.start("job", "--", "sh", "-c", "echo up; exec sleep 1000")
	r.line()
	for _, got := range atOnce("release", "job") {
		if got.code != 0 || !strings.HasSuffix(got.out, "job: what held it has ended\n") && got.out != "job: nothing holds it\n" {
			t.Errorf("release: %+v", got)
		}
	}
	r.wait().says(t, 143, "asked to stop by ")
	r = p.start("job", "--", "sh", "-c", "echo up; exec sleep 1000")
	r.line()
	for _, got := range atOnce("release", "--force", "job") {
		if got.code != 0 {
			t.Errorf("release --force: %+v", got)
		}
	}
	r.wait().says(t, 70, "lease was taken away by ")
	if r := p.last(); r.Outcome != cronce.Cancelled {
		t.Errorf("on record: %+v", r)
	}
}

// holder waits until somebody holds the job, and returns its pid.
func (p *place) holder(job string) int {
	p.t.Helper()
	for {
		var state cronce.JobState
		got := p.cronce("status", job, "--json")
		if err := json.Unmarshal([]byte(got.out), &state); err != nil {
			p.t.Fatalf("%v: %+v", err, got)
		}
		if len(state.Live) > 0 {
			return state.Live[0].Holder.PID
		}
	}
}

// Root makes a store for a user, which that user's programs then find; nobody
// else can.
func TestStoreInit_ForAUser(t *testing.T) {
	p := newPlace(t)
	user, unshare := "nobody", []string{"-m"}
	if os.Getuid() != 0 {
		user, unshare = "root", []string{"-r", "-m"} // as root of a namespace without other users
	}
	script := `
		mount -t tmpfs -o mode=755 none /var/lib; unset CRONCE_STORE
		[ "$2" != root ] || mount -t tmpfs none /root # of the true root, which this one cannot look into
		cd /
		"$1" store init --user "$2" && "$1" store init --user "$2" && stat -c '%a %U' /var/lib/cronce /var/lib/cronce/*
		cd /var/lib/cronce/*; mkdir jobs; chown 1 .
		"$1" store init --user "$2"; echo "exit $?"`
	got := p.startCommand(exec.Command("unshare", append(unshare, "sh", "-c", script, "sh", filepath.Join(bin, "cronce"), user)...)).wait()
	id, err := exec.Command("id", "-u", user).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := "/var/lib/cronce/" + strings.TrimSpace(string(id))
	want := fmt.Sprintf("%s is ready for user %s\n%[1]s is ready for user %[2]s\n755 root\n700 %[2]s\n", dir, user)
	if !strings.HasPrefix(got.out, want) {
		t.Errorf("it went as %+v\nwant %q", got, want)
	}
	if os.Getuid() == 0 && (!strings.HasSuffix(got.out, "exit 78\n") || !strings.Contains(got.err, "it is there already, and belongs to user 1")) {
		t.Errorf("over another user's folder: %+v", got)
	}
}

// Who sits at the terminal is on record, whoever they have become since.
func TestOperations_NameWhoSitsAtTheTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run("job", "--", "true").want(t, 0, "")
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	var n, unlock uint32
	for request, arg := range map[uintptr]*uint32{syscall.TIOCGPTN: &n, syscall.TIOCSPTLCK: &unlock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ptmx.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	path := fmt.Sprintf("/dev/pts/%d", n)
	want := fmt.Sprintf(" (uid %d)@", os.Getuid())
	// A login that the kernel knows of comes first.
	loginuid, err := os.ReadFile("/proc/self/loginuid")
	if root := os.Getuid() == 0; root && (err != nil || string(loginuid) == "4294967295") {
		if err := os.Chown(path, 1, -1); err != nil {
			t.Fatal(err)
		}
		want = " logged in as daemon"
	}
	tty, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := exec.Command(filepath.Join(bin, "cronce"), "pause", "job", "--store", p.store)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "SUDO_USER=") || strings.HasPrefix(kv, "LOGNAME=") })
	cmd.Stdin = tty // the output goes elsewhere, as into a file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if asked := p.requests("job"); len(asked) != 1 || !strings.Contains(asked[0].By, want) {
		t.Errorf("on record: %+v, want %q", asked, want)
	}
}
