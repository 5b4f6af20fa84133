package localstore

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	var buf [64]byte
	return string(bytes.TrimSpace(readProc("/proc/sys/kernel/random/boot_id", buf[:])))
}

// startTime is when the process started; !ok: there is none, or only its
// remains.
func startTime(pid int) (ticks uint64, ok bool) {
	var buf [1024]byte
	b := readProc("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	// The name, in parentheses, may have spaces and parentheses itself.
	_, rest, _ := cutLast(string(b), ") ")
	if rest == "" || rest[0] == 'Z' || rest[0] == 'X' {
		return 0, false
	}
	for range 19 { // to the 22nd field; the state is the 3rd
		_, rest, _ = strings.Cut(rest, " ")
	}
	field, _, _ := strings.Cut(rest, " ")
	ticks, err := strconv.ParseUint(field, 10, 64)
	return ticks, err == nil
}

// readProc reads what is short in /proc; of what cannot be read, nothing.
func readProc(path string, buf []byte) []byte {
	fd, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	n := 0
	err = retry(func() (err error) { n, err = syscall.Read(fd, buf); return err })
	if err != nil {
		return nil
	}
	return buf[:n]
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

// flocked are the descriptors whose open file has a flock(2) on it: of every
// process that inherited it, not of one that merely has the file open.
// Processes of other users cannot be looked into, except by root.
func flocked() []openFile {
	var found []openFile
	m := mounts{}
	for _, name := range list("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		dir := "/proc/" + name
		for _, n := range list(dir + "/fd") {
			// Most descriptors are of no file. The link and fdinfo are read
			// first: to stat a file on a dead network server would hang.
			path, err := os.Readlink(dir + "/fd/" + n)
			if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
				continue
			}
			fd, err := strconv.Atoi(n)
			if err != nil {
				continue
			}
			if dev := flockDevice(dir + "/fdinfo/" + n); dev != "" && !m.network(dir, dev) {
				found = append(found, openFile{pid, fd})
			}
		}
	}
	return found
}

// flockDevice is the device of the file that an open file has a flock(2) on, in
// hexadecimal, or nothing where it has none.
func flockDevice(fdinfo string) string {
	b, err := readFile(fdinfo)
	if err != nil || !bytes.Contains(b, []byte("FLOCK")) {
		return ""
	}
	for line := range bytes.Lines(b) {
		// lock:	1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		f := strings.Fields(string(line))
		if len(f) < 7 || f[2] != "FLOCK" {
			continue
		}
		if dev, _, ok := cutLast(f[6], ":"); ok {
			return dev
		}
	}
	return ""
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// mounts are the types of mounted file systems, by device as the kernel's list
// of locks has it.
type mounts map[string]string

// network tells whether the device is of a network file system, so that
// nothing of it may be touched. No store is on one.
func (m mounts) network(proc, dev string) bool {
	for _, of := range []string{"/proc/self", proc} {
		if _, ok := m[dev]; ok {
			break
		}
		b, _ := readFile(of + "/mountinfo")
		for line := range bytes.Lines(b) {
			before, after, ok := strings.Cut(string(line), " - ")
			f, g := strings.Fields(before), strings.Fields(after)
			if !ok || len(f) < 3 || len(g) == 0 {
				continue
			}
			var major, minor uint32
			if n, _ := fmt.Sscanf(f[2], "%d:%d", &major, &minor); n == 2 {
				m[fmt.Sprintf("%02x:%02x", major, minor)] = g[0]
			}
		}
	}
	t := m[dev]
	return slices.Contains(networkTypes[:], strings.TrimRight(t, "0123456789")) || strings.HasPrefix(t, "fuse.") && !slices.Contains(localFuse[:], t)
}

// networkTypes are file systems that wait for other hosts, without the number
// of their version.
var networkTypes = [...]string{
	"nfs", "cifs", "smb", "smbfs", "ceph", "9p", "afs", "lustre", "coda", "ncpfs", "ocfs", "gfs", "gpfs", "beegfs", "panfs",
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

// locks tells whether the open file behind the descriptor has a flock(2) on it.
func (o openFile) locks() bool {
	return flockDevice(fmt.Sprintf("/proc/%d/fdinfo/%d", o.pid, o.fd)) != ""
}

// findHolders are the descriptors that keep the lock, whatever has become of its
// file's name.
func (d *driver) findHolders(id lockID) []openFile {
	return slices.DeleteFunc(d.looks.flocked(d.flocked), func(o openFile) bool { return !o.is(id) })
}

// holders are the processes that hold the lock.
func (d *driver) holders(id lockID) []int {
	var pids []int
	for _, o := range d.findHolders(id) {
		if !slices.Contains(pids, o.pid) {
			pids = append(pids, o.pid)
		}
	}
	return pids
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
