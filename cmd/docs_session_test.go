package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A session is a shell on a machine that a page has for itself: absolute paths
// are those below its root, and what a test cannot have is a stand-in.
type session struct {
	*testing.T
	root  string
	cmd   *exec.Cmd
	in    io.Writer
	done  *bufio.Reader // the exit code of each command, and pids
	n     int
	names map[string]bool // placeholders that are set
}

// standIns take the place of programs that a test cannot run, or not on the
// machine that it runs on.
var standIns = map[string]string{
	// Building is not for here; the targets must be there.
	"make": `exec /usr/bin/make -n -C "$CRONCE_SOURCE" "$@" >/dev/null`,
	// There is one user.
	"sudo": `while :; do case $1 in -u) shift 2 ;; -* | *=*) shift ;; *) exec "$@" ;; esac; done`,
	// A table of the page's own.
	"crontab": `case $1 in -u) shift 2 ;; esac
case ${1:--} in
-l) exec cat "$SPOOL" ;;
-r) exec rm "$SPOOL" ;;
-e) [ -e "$SPOOL" ] || : >"$SPOOL"; exec ${VISUAL:-${EDITOR:-true}} "$SPOOL" ;;
-) exec cat >"$SPOOL" ;;
*) exec cp -- "$1" "$SPOOL" ;;
esac`,
	// There is no systemd, package list or container engine where tests run.
	"systemctl":  `exit 0`,
	"journalctl": `exit 0`,
	"apt-get":    `exit 0`,
	"docker":     `if [ "$1" = exec ]; then shift 2; exec "$@"; fi`,
}

var ownProgram = regexp.MustCompile(`/usr/local/bin/([a-z][a-z-]*)`)

// newSession begins one for a page. Programs in /usr/local/bin that the page
// speaks of are there and do nothing.
func newSession(t *testing.T, text string) *session {
	t.Helper()
	programs, err := clockBin()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{T: t, root: filepath.Join(t.TempDir(), "root"), names: map[string]bool{}}
	for _, dir := range []string{"home/ann", "usr/local/bin", "usr/bin", "etc/cron.d", "run/lock", "tmp", "var/lib", "var/log", "etc/systemd/system", "stand-ins"} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range standIns {
		s.program("stand-ins/"+name, script)
	}
	for _, m := range ownProgram.FindAllStringSubmatch(text, -1) {
		s.program("usr/local/bin/"+m[1], "exit 0")
	}
	for _, dir := range []string{"usr/local/bin", "usr/bin"} {
		for _, name := range []string{"cronce", "cronced"} {
			place := filepath.Join(s.root, dir, name)
			os.Remove(place)
			if err := os.Symlink(filepath.Join(programs, name), place); err != nil {
				t.Fatal(err)
			}
		}
	}
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(s.root, "home/ann")
	// The reader stands in the source, and has built it.
	for name, place := range map[string]string{"bin": programs, "packaging": source + "/packaging", "examples": source + "/examples"} {
		if err := os.Symlink(place, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.cmd = exec.Command("bash", "--noprofile", "--norc", "-s")
	s.cmd.Dir = home
	// It is just past the hour, whenever the test is run: hourly jobs are not late.
	hour := time.Now().Truncate(time.Hour).Add(time.Second)
	s.cmd.Env = []string{
		"CRONCE_TEST_CLOCK=offset=" + time.Until(hour).String(),
		"HOME=" + home, "USER=ann", "LOGNAME=ann", "TZ=UTC", "LC_ALL=C.UTF-8", "SHELL=/bin/sh",
		"PATH=" + s.root + "/stand-ins:" + s.root + "/usr/local/bin:" + os.Getenv("PATH"),
		"CRONCE_STORE=" + home + "/.local/state/cronce", "CRONCE_SOURCE=" + source, "SPOOL=" + s.root + "/spool",
		"GORACE=atexit_sleep_ms=0", "TMPDIR=" + s.root + "/tmp",
	}
	if err := os.MkdirAll(home+"/.local/state", 0o755); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.ExtraFiles = []*os.File{w}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.in, s.done = in, bufio.NewReader(r)
	fmt.Fprintln(in, running)
	t.Cleanup(func() {
		all := 0
		s.tell("kill $(jobs -p) 2>/dev/null; wait; echo 0 >&3", &all) // what runs in the background
		in.Close()
		s.cmd.Wait()
		r.Close()
	})
	return s
}

// running is for preparations: a run that goes on until the page has ended, of
// the job that is named last, behind flags of cronce run.
const running = `running() {
	local job=${!#} dir
	dir=$(mktemp -d) && mkfifo "$dir/started" && ln -s "$(command -v sleep)" "$dir/$job" || return
	cronce run "$@" -- sh -c ': >"$0/started"; exec "$0/$1" 600' "$dir" "$job" &
	read -r _ <"$dir/started" || :
}`

func (s *session) program(name, script string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.root, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		s.Fatal(err)
	}
}

var (
	absolute    = regexp.MustCompile(`(?m)(^|[\s'"=:(>,@])/(usr/local|usr/bin/cronce|etc|run|var|tmp|srv|opt|home)\b`)
	placeholder = regexp.MustCompile(`(^|[^$A-Z_{])([A-Z]{2,})(=|\b)`)
	assignment  = regexp.MustCompile(`(?m)^([A-Z]{2,})=`)
)

// inside puts a page's text into the sandbox: absolute paths, and placeholders
// as RUN that a preparation has set.
func (s *session) inside(text string) string {
	text = absolute.ReplaceAllString(text, "${1}"+s.root+"/$2")
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		s.names[m[1]] = true
	}
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		if p := placeholder.FindStringSubmatch(m); s.names[p[2]] && p[3] == "" {
			return p[1] + "$" + p[2]
		}
		return m
	})
}

// write makes a file that the page shows.
func (s *session) write(name, text string) string {
	s.Helper()
	path := filepath.Join(s.root, name)
	if !filepath.IsAbs(name) {
		path = filepath.Join(s.root, "home/ann", name)
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
	return path
}

// run types a command and returns what it prints, and its exit code.
func (s *session) run(command string) (string, int) {
	s.Helper()
	chunk := s.chunk(command)
	out := chunk + ".out"
	code := 0
	s.tell(fmt.Sprintf(". '%s' </dev/null >'%s' 2>&1; echo $? >&3", chunk, out), &code)
	text, err := os.ReadFile(out)
	if err != nil {
		s.Fatal(err)
	}
	return strings.ReplaceAll(string(text), s.root, ""), code
}

// patience is for a busy machine.
const patience = time.Minute

// tell gives the shell a line, which writes a number to descriptor 3.
func (s *session) tell(line string, answer *int) {
	s.Helper()
	watchdog := time.AfterFunc(patience, func() { syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer watchdog.Stop()
	_, err := fmt.Fprintln(s.in, line)
	if err == nil {
		_, err = fmt.Fscanln(s.done, answer)
	}
	if err != nil {
		s.Fatalf("the shell does not go on: %v\n%s", err, line)
	}
}

// serve types a command that goes on until it is stopped, and waits for lines
// like these, in that order. With the page it is stopped, in order.
func (s *session) serve(command string, lines []string) (string, bool) {
	s.Helper()
	chunk := s.chunk("exec " + command)
	if err := syscall.Mkfifo(chunk+".out", 0o600); err != nil {
		s.Fatal(err)
	}
	pid := 0
	s.tell(fmt.Sprintf("( . '%s' ) </dev/null >'%s.out' 2>&1 & echo $! >&3", chunk, chunk), &pid)
	out, err := os.OpenFile(chunk+".out", os.O_RDONLY, 0)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		code := 0
		if s.tell(fmt.Sprintf("kill %d; wait %d; echo $? >&3", pid, pid), &code); code != 0 {
			s.Errorf("%s, stopped with TERM: exit %d", command, code)
		}
		out.Close()
	})
	var said []string
	watchdog := time.AfterFunc(patience, func() { out.Close() })
	defer watchdog.Stop()
	scan := bufio.NewScanner(out)
	for len(lines) > 0 && scan.Scan() {
		line := strings.ReplaceAll(scan.Text(), s.root, "")
		said = append(said, line)
		if matches(lines[:1], []string{line}) {
			lines = lines[1:]
		}
	}
	go func() {
		for scan.Scan() { // so that it does not wait for a reader
		}
	}()
	return strings.Join(said, "\n"), len(lines) == 0
}

// chunk is a file with a command.
func (s *session) chunk(command string) string {
	s.Helper()
	s.n++
	path := filepath.Join(filepath.Dir(s.root), fmt.Sprintf("command%d", s.n))
	if err := os.WriteFile(path, []byte(command+"\n"), 0o644); err != nil {
		s.Fatal(err)
	}
	return path
}

// complete reports whether a shell would not ask for another line.
func complete(command string) bool {
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(command + "\n")
	out, err := cmd.CombinedOutput()
	return err == nil && len(out) == 0
}
