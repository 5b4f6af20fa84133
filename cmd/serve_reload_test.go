package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// A crontab that changes is loaded anew, by itself and on HUP; what is wrong in
// it is named, and a file that cannot be used leaves what was served.
func TestServe_Reload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=one\n@every 1s  echo first\n")
	s := startServe(t, filepath.Join(dir, "store"), crontab)
	s.await(t, 0, "one", "| first")

	write(t, crontab, "# cronce: name=one\n@every 1s  echo second\n# cronce: name=two\n@every 1s  echo other\n")
	at := s.await(t, 0, "serve", "loaded", "2 jobs")
	s.await(t, at, "one", "| second")
	s.await(t, at, "two", "| other")

	write(t, crontab+".new", "# cronce: name=one\n@every 1s  echo third\n61 * * * * echo never\n")
	if err := os.Rename(crontab+".new", crontab); err != nil {
		t.Fatal(err)
	}
	s.cmd.Process.Signal(syscall.SIGHUP)
	at = s.await(t, at, "serve", "PROBLEM", "crontab:3:1", "61 is not in 0-59")
	at = s.await(t, at, "serve", "loaded", "1 job ")
	at = s.await(t, at, "one", "| third")

	write(t, crontab, "")
	at = s.await(t, at, "serve", "NOT LOADED", "is empty", "what was served goes on")
	s.await(t, at, "one", "| third")
	if err := os.Remove(crontab); err != nil {
		t.Fatal(err)
	}
	at = s.await(t, at, "serve", "NOT LOADED", "no such file")
	at = s.await(t, at, "one", "| third")
	write(t, crontab, "# nothing any more\n")
	s.await(t, at, "serve", "loaded", "0 jobs")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// Of several files each is loaded by itself: one that is emptied or removed is
// kept as it was, and no other with it.
func TestServe_ReloadEachFileByItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "one"), "# cronce: name=one\n@every 1s  echo first\n")
	two := write(t, filepath.Join(dir, "two"), "# cronce: name=two\n@every 1s  echo first\n")
	s := startServe(t, filepath.Join(dir, "store"), one, "--crontab", two)
	s.await(t, 0, "two", "| first")
	write(t, one, "")
	write(t, two, "# cronce: name=two\n@every 1s  echo second\n")
	at := s.await(t, s.await(t, 0, "serve", "NOT LOADED", "one is empty"), "serve", "loaded", "2 jobs")
	s.await(t, s.await(t, at, "one", "| first"), "two", "| second")
	if err := os.Remove(one); err != nil {
		t.Fatal(err)
	}
	write(t, two, "# cronce: name=two\n@every 1s  echo third\n")
	s.await(t, at, "serve", "NOT LOADED", "one: no such file")
	at = s.await(t, s.await(t, at, "two", "| third"), "one", "| first")
	write(t, one, "# cronce: name=one\n@every 1s  echo back\n")
	s.await(t, at, "one", "| back")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A crontab is rewritten again and again, by rename and in place, cut short and
// empty in between: no tick of the job that it always has is lost or run
// twice, and no half file is ever served.
func TestServe_ReloadStorm(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	text := func(n int) string {
		return fmt.Sprintf("# cronce: name=steady\n@every 1s  echo %d\n# cronce: name=half overlap=allow\n@every 1s  : WHOLE\n", n)
	}
	crontab := write(t, filepath.Join(dir, "crontab"), text(0))
	s := startServe(t, store, crontab)
	s.await(t, 0, "steady", "started")
	storm := time.Now()
	loads := 0
	for n := 1; time.Since(storm) < 10*time.Second; n++ {
		switch n % 4 {
		case 0:
			write(t, crontab+".new", text(n))
			if err := os.Rename(crontab+".new", crontab); err != nil {
				t.Fatal(err)
			}
		case 1:
			write(t, crontab, text(n))
		case 2: // in place, in pieces
			f, err := os.Create(crontab)
			if err != nil {
				t.Fatal(err)
			}
			whole := text(n)
			cut := strings.Index(whole, "WHOLE") + 2
			f.WriteString(whole[:cut])
			f.Sync()
			f.WriteString(whole[cut:])
			f.Close()
		case 3:
			write(t, crontab, "")
			write(t, crontab, text(n))
		}
		if n%50 == 0 {
			s.cmd.Process.Signal(syscall.SIGHUP)
			loads++
		}
		<-time.After(10 * time.Millisecond) // a hundred times a second
	}
	write(t, crontab, text(-1))
	s.await(t, s.await(t, s.lines(), "steady", "| -1"), "steady", "started")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	ticks := map[time.Time]int{}
	var from, to time.Time
	for _, r := range runsOf(t, store) {
		if r.Job == "steady" {
			ticks[r.Tick]++
			if from.IsZero() {
				from = r.Tick
			}
			to = r.Tick
		} else if r.Job != "half" {
			t.Errorf("a job that no whole crontab has: %+v", r)
		}
		if r.Outcome != cronce.Succeeded && r.Skip == "" {
			t.Errorf("a run of a half line: %+v", r)
		}
	}
	for tick := from; tick.Before(to); tick = tick.Add(time.Second) {
		if ticks[tick] != 1 && !s.says("steady", "MISSED") {
			t.Errorf("tick %s was decided %d times", cronce.Stamp(tick), ticks[tick])
		}
	}
	if loads == 0 || len(ticks) < 10 {
		t.Errorf("%d loads, %d ticks: nothing was tested", loads, len(ticks))
	}
}

// An @reboot line runs once a boot, whoever serves it and however often.
func TestServe_RebootOnceABoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=warm-up\n@reboot  echo warm\n# cronce: name=tick\n@every 1s true\n")
	for range 3 {
		s := startServe(t, store, crontab)
		s.await(t, s.await(t, 0, "tick", "started"), "tick", "succeeded")
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	var reboots []cronce.Run
	for _, r := range runsOf(t, store) {
		if r.Job == "warm-up" {
			reboots = append(reboots, r)
		}
	}
	if len(reboots) != 1 || reboots[0].Outcome != cronce.Succeeded {
		t.Errorf("runs of the @reboot line: %+v", reboots)
	}
}
