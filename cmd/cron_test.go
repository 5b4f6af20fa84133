package cmd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// cronRate is how many times too fast the clock goes for cron: a minute takes
// two seconds.
const cronRate = 30

// cronScript makes a place for a cron of its own, in a mount namespace, and
// becomes it. It reads the time to begin with last, as making takes a while.
const cronScript = `set -e
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=1777 none /dev/shm
mount -t tmpfs -o mode=755 none /etc/cron.d
mount -t tmpfs -o mode=1730 none /var/spool/cron/crontabs
: >/run/none
[ ! -e /etc/crontab ] || mount --bind /run/none /etc/crontab
cp "$1" /var/spool/cron/crontabs/root
chmod 600 /var/spool/cron/crontabs/root
echo ready
read FAKETIME
export FAKETIME FAKETIME_FMT=%s LD_PRELOAD="$2"
exec cron -f
`

// A daemon is a cron.
type daemon struct {
	stop func()        // no more launches
	gone chan struct{} // and all that it launched has ended
	dir  string        // with a file for each launch
}

// startCron starts Debian's cron with a crontab of that line, its clock ahead
// of the host's by lead. Only root can do so: for anyone else a loop of ours
// launches what cron would, so that the rest is tested all the same.
func startCron(h *host, env []string, line, dir string, lead time.Duration) *daemon {
	h.Helper()
	if os.Getuid() != 0 {
		h.Log("not root: cron is played by the test")
		return playCron(h, env, line, dir, lead)
	}
	crontab := write(h.T, filepath.Join(dir, "crontab"), "MAILTO=\"\"\n"+strings.Join(env, "\n")+"\n* * * * * "+strings.ReplaceAll(line, "%", `\%`)+"\n")
	faketime, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(faketime) == 0 {
		h.Fatalf("libfaketime is needed to let cron's clock go faster (see .ci/packages): %v", err)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", cronScript, "sh", crontab, faketime[0])
	cmd.Env = append(os.Environ(), "TZ=UTC", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		h.Fatal(err)
	}
	// Whoever comes of cron inherits this: when it ends, all are gone.
	alive, inherited, err := os.Pipe()
	if err != nil {
		h.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{inherited}
	ready, readyW, err := os.Pipe()
	if err != nil {
		h.Fatal(err)
	}
	cmd.Stdout = readyW
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	readyW.Close()
	inherited.Close()
	d := &daemon{dir: dir, gone: make(chan struct{}), stop: func() {
		cmd.Process.Kill()
		cmd.Wait()
	}}
	go func() {
		defer close(d.gone)
		defer alive.Close()
		io.Copy(io.Discard, alive)
	}()
	h.Cleanup(func() {
		d.stop()
		<-d.gone
	})
	defer ready.Close()
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		h.Fatalf("no place for a cron: %v", err)
	}
	begin := h.clock.Now().Add(lead)
	fmt.Fprintf(in, "@%d.%09d x%d\n", begin.Unix(), begin.Nanosecond(), cronRate)
	in.Close()
	return d
}

// playCron launches the line each minute, as cron does.
func playCron(h *host, env []string, line, dir string, lead time.Duration) *daemon {
	d := &daemon{dir: dir, gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(h.Context())
	d.stop = cancel
	var launches sync.WaitGroup
	go func() {
		defer close(d.gone)
		defer launches.Wait()
		for minute := h.clock.Now().Add(lead).Truncate(time.Minute); ; {
			minute = minute.Add(time.Minute)
			select {
			case <-ctx.Done():
				return
			case <-time.After(minute.Sub(h.clock.Now().Add(lead)) / cronRate):
			}
			launches.Go(func() {
				cmd := exec.Command("/bin/sh", "-c", line)
				cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
				cmd.Run() // it says in its file how it ended
			})
		}
	}()
	h.Cleanup(func() {
		cancel()
		<-d.gone
	})
	return d
}

// A launched is what is known of a launch by cron: its file.
type launched struct {
	at   time.Time // by the host's clock, before cronce was started
	tick time.Time // that cronce named
	exit string
	text string
}

var tickNamed = regexp.MustCompile(`\btick (\d{4}-\S+Z)`)

// launches reads the files of a daemon that has gone.
func (d *daemon) launches(h *host) []launched {
	h.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "launch.*"))
	if err != nil {
		h.Fatal(err)
	}
	var all []launched
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			h.Fatal(err)
		}
		l := launched{text: string(b)}
		lines := strings.Split(strings.TrimSuffix(l.text, "\n"), "\n")
		ns, err := strconv.ParseInt(lines[0], 10, 64)
		if err != nil {
			h.Fatalf("%s: %v", l.text, err)
		}
		l.at = h.clock.At(time.Unix(0, ns))
		l.exit = lines[len(lines)-1]
		if m := tickNamed.FindStringSubmatch(l.text); m != nil {
			l.tick, _ = time.Parse(time.RFC3339, m[1])
		}
		all = append(all, l)
	}
	return all
}

// Two cron daemons whose lines have cronce run in front, one with its clock a
// little ahead and one behind, and two serves of the same job, one of which is
// killed and started anew again and again: each tick runs once among all four.
func TestRun_CronDaemonsAndServesShareEachTick(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	h := newHost(t, cronRate)
	dir := filepath.Dir(h.store)
	m := newMarks(t, dir)
	work := write(t, filepath.Join(dir, "work"), markedWork)
	const length = "0.1"
	if err := h.clock.Go(noon.Add(-30*time.Second), cronRate); err != nil {
		t.Fatal(err)
	}
	began := time.Now()

	serves := write(t, filepath.Join(dir, "crontab"), fmt.Sprintf("LENGTH=%s\n%s\n# cronce: name=shared start-deadline=10m\n* * * * *  sh %s\n",
		length, strings.Join(m.env(), "\n"), work))
	startServe := func() *server {
		s := startServer(t, h.command("serve", "--crontab", serves))
		s.await(t, 0, "serves 1 job")
		return s
	}
	servers := []*server{startServe(), startServe()}
	all := append([]*server(nil), servers...)

	leads := []time.Duration{3 * time.Second, -3 * time.Second}
	var daemons []*daemon
	for i, lead := range leads {
		to := filepath.Join(dir, fmt.Sprint("cron", i))
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf(`exec >>%s/launch.$$ 2>&1; date +%%s%%N; %s run -v --schedule '* * * * *' --start-deadline 10m shared -- sh %s; echo $?`,
			to, filepath.Join(h.bin, "cronce"), work)
		env := append(m.env(), "TZ=UTC", "CRONCE_STORE="+h.store, "LENGTH="+length, h.clock.Env())
		daemons = append(daemons, startCron(h, env, line, to, lead))
	}

	// Ticks run until there are enough; meanwhile a serve is killed at any
	// moment of a minute, or of a run.
	const enough = 21
	killed := map[int]bool{}
	for ran := 1; ran <= enough; ran++ {
		<-m.started
		if ran%3 != 0 {
			continue
		}
		<-time.After(time.Duration(rnd.Int64N(int64(time.Minute / cronRate)))) // any moment will do
		i := rnd.IntN(len(servers))
		killed[servers[i].cmd.Process.Pid] = true
		servers[i].stop(syscall.SIGKILL)
		servers[i] = startServe()
		all = append(all, servers[i])
	}
	for _, d := range daemons {
		d.stop()
		<-d.gone
	}
	for _, s := range servers {
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("serve stopped with exit %d", code)
		}
	}
	took := time.Since(began)

	starts, finished := m.stop()
	decided := m.compare(h.store, "shared", starts, finished)
	var first, last time.Time
	by := map[string]int{}
	for tick, r := range decided {
		if r.Tick.Before(first) || first.IsZero() {
			first = r.Tick
		}
		if r.Tick.After(last) {
			last = r.Tick
		}
		switch {
		case r.Skip == cronce.SkipOverlap || r.Skip == cronce.SkipOrphans:
			by[string(r.Skip)]++
		case r.Skip == "" && r.Outcome == cronce.Succeeded:
			by[r.Holder.Via]++
		case r.Outcome == cronce.Lost && killed[r.Holder.PID]:
			by["lost"]++
		default:
			t.Errorf("tick %s: %+v", tick, r)
		}
	}
	// A tick that nobody decided was offered to nobody in time, and they say so.
	excuse := false
	for _, s := range all {
		excuse = excuse || s.says("shared", "MISSED") || s.says("shared", "NOT RUN")
	}
	for tick := first; tick.Before(last); tick = tick.Add(time.Minute) {
		if _, ok := decided[cronce.Stamp(tick)]; !ok && !excuse {
			t.Errorf("nobody decided tick %s", cronce.Stamp(tick))
		}
	}
	for i, d := range daemons {
		named := map[time.Time]bool{}
		early := 0
		for _, l := range d.launches(h) {
			switch l.exit {
			case "0", "75":
				// The slack is five seconds here. A launch takes its time, so
				// that it may also name a later tick.
				if due := l.at.Add(5 * time.Second).Truncate(time.Minute); l.tick.Before(due) {
					t.Errorf("cron %d, launched at %s, names tick %s:\n%s", i, l.at, cronce.Stamp(l.tick), l.text)
				}
				if named[l.tick] = true; l.at.Before(l.tick) {
					early++
				}
			case "69": // on a busy machine it can be that the turn to decide does not come in time
				by["refused"]++
			default:
				t.Errorf("cron %d, launched at %s:\n%s", i, l.at, l.text)
			}
		}
		t.Logf("cron %d, ahead by %s: %d ticks named, %d of them before their time", i, leads[i], len(named), early)
		if len(named) < enough/2 {
			t.Errorf("cron %d has named only %d ticks", i, len(named))
		}
	}
	t.Logf("%d ticks in %s, run by %v; %d serves killed", len(decided), took.Round(time.Millisecond), by, len(killed))
}
