package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/cronce/cronce"
)

// BecomeReaper makes this process the parent of every descendant whose own
// parent ends: PR_SET_CHILD_SUBREAPER of prctl(2).
func BecomeReaper() error {
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return errno
	}
	return nil
}

// SinceBoot is the clock of deadlines, see [cronce.SinceBoot].
func SinceBoot() time.Duration { return cronce.SinceBoot() }

func descendants() []int { return Descendants(os.Getpid()) }

// Descendants returns the processes below that one, parents first. Those that
// have ended and wait to be collected are not among them.
func Descendants(of int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state ppid …: the name may have spaces and parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(string(fields[1]))
		children[parent] = append(children[parent], pid)
	}
	list := append([]int(nil), children[of]...)
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list
}

// LookPath finds a command as execvp(3) does: a name with a slash is a path,
// any other is looked for in path, a list as in PATH.
func LookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			denied = fmt.Errorf("%s is not executable: %w", file, fs.ErrPermission)
		case !filepath.IsAbs(file):
			return "./" + file, nil
		default:
			return file, nil
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%s is not in %s: %w", name, path, ErrNotFound)
}

// ErrNotFound says that a command is in none of the folders.
var ErrNotFound = errors.New("command not found")

// inForeground reports whether this process is in the foreground of its
// terminal, which sends its signals to the whole group.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}

// isText reports whether a file looks like a script: its beginning has no NUL.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 128)
	n, err := f.Read(head)
	return (err == nil || err == io.EOF) && bytes.IndexByte(head[:n], 0) < 0
}

var signalNames = [...]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL",
	syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
	syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGSTKFLT: "SIGSTKFLT",
	syscall.SIGCHLD: "SIGCHLD", syscall.SIGCONT: "SIGCONT", syscall.SIGSTOP: "SIGSTOP", syscall.SIGTSTP: "SIGTSTP",
	syscall.SIGTTIN: "SIGTTIN", syscall.SIGTTOU: "SIGTTOU", syscall.SIGURG: "SIGURG", syscall.SIGXCPU: "SIGXCPU",
	syscall.SIGXFSZ: "SIGXFSZ", syscall.SIGVTALRM: "SIGVTALRM", syscall.SIGPROF: "SIGPROF", syscall.SIGWINCH: "SIGWINCH",
	syscall.SIGIO: "SIGIO", syscall.SIGPWR: "SIGPWR", syscall.SIGSYS: "SIGSYS",
}

// SignalName is the signal's name, as SIGTERM.
func SignalName(s syscall.Signal) string {
	if 0 <= s && int(s) < len(signalNames) && signalNames[s] != "" {
		return signalNames[s]
	}
	return fmt.Sprintf("signal %d", int(s))
}
