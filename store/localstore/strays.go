package localstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/cronce/cronce"
)

// A run's lock may be on a file that is not in its job's folder any more:
// somebody deleted or moved the file, the folder or the store. Such a stray is
// known by its content, through /proc. That is slow, so it is looked for only
// when something in the folders has changed that no section did.

// label is a line of a lock file: which lock it is, and of which store. A store
// that was moved adds a line.
type label struct {
	Lock  string `json:"lock"`
	Job   string `json:"job"`
	Store string `json:"store"`
	Named string `json:"named,omitempty"` // the store as it was asked for, where that is a symbolic link
}

// maxLabels is how much of a lock file is read.
const maxLabels = 64 << 10

func (s *section) label(name string) []byte {
	l := label{Lock: name, Job: s.job, Store: s.d.dir}
	if s.d.named != s.d.dir {
		l.Named = s.d.named
	}
	out := &line{writing: true}
	if object(out, &l, (*label).fields); !out.foreign {
		return append(out.out, '\n')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(l) // of strings, into memory
	return b.Bytes()
}

func (l *label) fields(out *line) {
	text(out, "lock", &l.Lock, always)
	text(out, "job", &l.Job, always)
	text(out, "store", &l.Store, always)
	text(out, "named", &l.Named, ifSet)
}

// mine tells whether the label is of a lock of this job and store.
func (s *section) mine(l label) bool {
	// A path that is not UTF-8 is written as JSON can have it.
	here := func(dir string) bool {
		return dir != "" && (dir == string([]rune(s.d.dir)) || dir == string([]rune(s.d.named)))
	}
	return l.Job == s.job && isRunLock(l.Lock) && (here(l.Store) || here(l.Named))
}

// readLabels reads what an open lock file says of itself.
func readLabels(fd int) ([]label, error) {
	st, err := fstat(fd)
	if err != nil || st.Size == 0 || st.Size > maxLabels {
		return nil, err
	}
	b, err := readFrom(fd, 0)
	var labels []label
	for line := range bytes.Lines(b) {
		var l label
		if json.Unmarshal(line, &l) == nil {
			labels = append(labels, l)
		}
	}
	return labels, err
}

// mark writes the label into a lock file that has not got it yet. The decide
// lock keeps others from doing the same.
func (s *section) mark(fd int, name string) error {
	labels, err := readLabels(fd)
	if err != nil || slices.ContainsFunc(labels, s.mine) {
		return err
	}
	st, err := fstat(fd)
	if err != nil {
		return err
	}
	if len(labels) == 0 && st.Size > 0 {
		if err := syscall.Ftruncate(fd, 0); err != nil {
			return err
		}
		st.Size = 0
	}
	b := s.label(name)
	for len(b) > 0 {
		n, err := syscall.Pwrite(fd, b, st.Size)
		if err != nil && err != syscall.EINTR {
			return &os.PathError{Op: "write", Path: s.dir + "/" + name, Err: err}
		}
		if err == nil && n == 0 {
			return syscall.EIO
		}
		b, st.Size = b[max(n, 0):], st.Size+int64(max(n, 0))
	}
	return nil
}

// changes are when the names in the folders of a job were last changed, in
// nanoseconds: of the store, of all jobs, and of the job's own files. The
// kernel sets these times (ctime), and nobody can set them back.
type changes struct {
	Store  int64 `json:"store"`
	Jobs   int64 `json:"jobs"`
	Folder int64 `json:"folder"`
}

// changes looks at the folders.
func (j journal) changes() (c changes, err error) {
	for _, folder := range []struct {
		path    string
		changed *int64
	}{{j.store, &c.Store}, {parent(j.dir), &c.Jobs}, {j.dir, &c.Folder}} {
		st, err := lstat(folder.path)
		if err != nil {
			return c, &os.PathError{Op: "stat", Path: folder.path, Err: err}
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return c, notFolder(j.store, folder.path)
		}
		*folder.changed = st.Ctim.Nano()
	}
	return c, nil
}

// settledAt are the changes that were made before this section, and by it.
func (s *section) settledAt() (changes, error) {
	folder, err := fstat(s.fd)
	return changes{s.began.Store, s.began.Jobs, folder.Ctim.Nano()}, err
}

// settled notes at the end of a section that no stray is to be looked for
// until a folder is changed again. What changed meanwhile in the job's own
// folder was done by this section: it has the decide lock.
func (s *section) settled() {
	now, err := s.settledAt()
	if err != nil {
		s.st = nil
		return
	}
	if s.looked && s.st.seq > 0 && s.st.Seen != now {
		s.note(record{Event: evSeen, At: s.d.now(), Seen: &now})
	}
	if s.st != nil {
		s.st.read = now
	}
}

// strays are the locks of this job that are held on files which its folder does
// not have, those in known aside. What finds none is not repeated until a folder
// is changed.
func (s *section) strays(known map[lockID]bool) ([]live, error) {
	if s.looked {
		return nil, nil
	}
	here := map[lockID]bool{} // without a name
	for id := range known {
		here[lockID{Dev: id.Dev, Ino: id.Ino}] = true
	}
	for name, t := range s.held {
		here[lockID{Dev: t.id.Dev, Ino: t.id.Ino}] = true
		if isRunLock(name) {
			if err := s.markHeld(name, t); err != nil {
				return nil, err
			}
		}
	}
	owner, err := fstat(s.fd)
	if err != nil {
		return nil, err
	}
	var lives []live
	for _, o := range s.d.looks.flocked(s.d.flocked) {
		id, ok := s.stray(o, owner.Uid)
		if !ok || here[lockID{Dev: id.Dev, Ino: id.Ino}] {
			continue
		}
		here[lockID{Dev: id.Dev, Ino: id.Ino}] = true // of its processes, one is named
		lives = append(lives, live{lock: id, run: cronce.Run{Job: s.job, Holder: cronce.Holder{Host: hostname(), PID: o.pid}}})
	}
	s.looked = len(lives) == 0
	return lives, nil
}

// markHeld writes the label of a lock file of this folder where it has another:
// the store was moved.
func (s *section) markHeld(name string, t *tried) error {
	if t.fd >= 0 {
		return s.mark(t.fd, name)
	}
	fd, err := open(s.dir+"/"+name, syscall.O_RDWR)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return s.mark(fd, name)
}

// stray tells whether a descriptor of some process is of a lock of this job,
// and of which.
func (s *section) stray(o openFile, owner uint32) (id lockID, ok bool) {
	// A file of somebody else can say what it likes.
	path := fmt.Sprintf("/proc/%d/fd/%d", o.pid, o.fd)
	st, err := stat(path)
	if err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Uid != owner || st.Size > maxLabels {
		return id, false
	}
	id = lockID{Dev: uint64(st.Dev), Ino: st.Ino}
	var labels []label
	if st.Size > 0 {
		// Not by open, which follows no link.
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		if err != nil {
			return id, false
		}
		labels, err = readLabels(fd)
		syscall.Close(fd)
		if err != nil {
			return id, false
		}
	}
	i := slices.IndexFunc(labels, s.mine)
	if i < 0 {
		// One that was emptied: it may be known by the place where it was.
		link, err := os.Readlink(path)
		if err != nil || len(labels) > 0 {
			return id, false
		}
		id.File, ok = s.lockAt(link)
		return id, ok
	}
	id.File = labels[i].Lock
	return id, !elsewhere(o.pid, labels[i].Store+"/jobs/"+folderName(s.job)+"/"+id.File, id)
}

// lockAt is the lock of this job that has, or had, that path.
func (s *section) lockAt(path string) (name string, ok bool) {
	path = string(bytes.TrimSuffix([]byte(path), []byte(" (deleted)")))
	if parent(path) != s.dir {
		return "", false
	}
	name = path[len(s.dir)+1:]
	return name, isRunLock(name)
}

// elsewhere tells whether the process sees other files than this one, as in a
// container, and has the lock file at its place there: then it is of a store
// of its own that has the same path.
func elsewhere(pid int, path string, id lockID) bool {
	root := fmt.Sprintf("/proc/%d/root", pid)
	same := true
	for _, name := range []string{"ns/mnt", "root"} {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name))
		ours, err2 := os.Readlink("/proc/self/" + name)
		same = same && (err != nil || err2 != nil || its == ours)
	}
	if same {
		return false
	}
	st, err := stat(root + path)
	return err == nil && uint64(st.Dev) == id.Dev && st.Ino == id.Ino
}
