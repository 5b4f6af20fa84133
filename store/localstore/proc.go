package localstore

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// procID names a process for ever, as a pid alone does not: pids are used
// again, and mean something else in another container.
type procID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`
	NS    string `json:"ns,omitempty"` // pid namespace
}

// self is this process.
var self = sync.OnceValue(func() procID {
	p := procID{PID: os.Getpid(), Boot: bootID()}
	p.Start, _ = startTime(p.PID)
	p.NS, _ = os.Readlink("/proc/self/ns/pid")
	return p
})

func bootID() string {
	b, _ := readFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(b))
}

// startTime is when the process started; !ok: there is none, or only its
// remains.
func startTime(pid int) (ticks uint64, ok bool) {
	b, err := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name, in parentheses, may have spaces and parentheses itself.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0, false
	}
	ticks, err = strconv.ParseUint(f[19], 10, 64)
	return ticks, err == nil
}

// gone tells whether that process has certainly ended. A process in another
// pid namespace cannot be seen from here and does not count as gone.
func (p procID) gone() bool {
	me := self()
	if p.Boot != me.Boot {
		return true
	}
	if p.NS != me.NS {
		return false
	}
	start, ok := startTime(p.PID)
	return !ok || start != p.Start
}

// openFile is a descriptor of a process.
type openFile struct{ pid, fd int }

// findOpen looks through /proc for descriptors whose file match selects by the
// path the kernel shows for it, " (deleted)" at its end where it has no name
// any more. Processes of other users cannot be looked into, except by root.
func findOpen(match func(path string) bool) []openFile {
	var found []openFile
	for _, name := range list("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		dir := "/proc/" + name + "/fd"
		for _, n := range list(dir) {
			// The link is read first, as to stat a file on a dead network
			// server would hang.
			if path, err := os.Readlink(dir + "/" + n); err == nil && match(path) {
				if fd, err := strconv.Atoi(n); err == nil {
					found = append(found, openFile{pid, fd})
				}
			}
		}
	}
	return found
}

// list is the names in a folder, none if it cannot be read.
func list(dir string) []string {
	names, _ := readDir(dir)
	return names
}

// id is the file, without a name.
func (o openFile) id() (lockID, bool) {
	st, err := stat(fmt.Sprintf("/proc/%d/fd/%d", o.pid, o.fd))
	return lockID{Dev: uint64(st.Dev), Ino: st.Ino}, err == nil
}

// is tells whether the descriptor is that very file.
func (o openFile) is(id lockID) bool {
	mine, ok := o.id()
	return ok && mine.Dev == id.Dev && mine.Ino == id.Ino
}

// locks tells whether the open file behind the descriptor has a flock(2) on it:
// true for every process that inherited it, false for one that merely has the
// file open.
func (o openFile) locks() bool {
	b, err := readFile(fmt.Sprintf("/proc/%d/fdinfo/%d", o.pid, o.fd))
	return err == nil && bytes.Contains(b, []byte("FLOCK"))
}

// findHolders are the descriptors that keep the lock, also where its file has
// been deleted since.
func findHolders(id lockID) []openFile {
	file := "/" + id.File
	found := findOpen(func(path string) bool {
		return strings.HasSuffix(strings.TrimSuffix(path, " (deleted)"), file)
	})
	return slices.DeleteFunc(found, func(o openFile) bool { return !o.is(id) || !o.locks() })
}

// holders are the processes that hold the lock.
func holders(id lockID) []int {
	var pids []int
	for _, o := range findHolders(id) {
		if !slices.Contains(pids, o.pid) {
			pids = append(pids, o.pid)
		}
	}
	return pids
}

// ghosts are the locks of a job that are held in a folder which has been
// deleted from under their holders.
func ghosts(dir string) []openFile {
	found := findOpen(func(path string) bool {
		name, ok := strings.CutPrefix(path, dir+"/")
		if !ok {
			return false
		}
		name, ok = strings.CutSuffix(name, " (deleted)")
		return ok && (name == jobLock || isNumberedLock(name))
	})
	return slices.DeleteFunc(found, func(o openFile) bool { return !o.locks() })
}

// describeFlocker names the process that holds the lock on an open file.
func describeFlocker(fd int) string {
	st, err := fstat(fd)
	if err != nil {
		return "a process"
	}
	b, _ := readFile("/proc/locks")
	for line := range bytes.Lines(b) {
		// 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		f := strings.Fields(string(line))
		if len(f) < 6 || f[1] != "FLOCK" || f[4] == "-1" || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			continue
		}
		comm, err := readFile("/proc/" + f[4] + "/comm")
		if err != nil {
			continue
		}
		what := "pid " + f[4] + " (" + string(bytes.TrimSpace(comm)) + ")"
		if state := procState(f[4]); state == "T" || state == "t" {
			what += ", which is stopped,"
		}
		return what
	}
	return "another process"
}

func procState(pid string) string {
	b, err := readFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 0 {
		return f[0]
	}
	return ""
}
