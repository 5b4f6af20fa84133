package localstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// journal is the folder of one job.
type journal struct {
	store string
	job   string // empty: whatever its journal says
	dir   string
	// lenient readers show what can be read; a claim must not overlook a
	// decision.
	lenient bool
}

// section is the time in which this process, or one goroutine of it, holds a
// job's decide lock.
type section struct {
	journal
	d    *driver
	fd   int // of the folder, locked
	st   *state
	held map[string]*tried // lock files looked at so far

	began  changes // of the folders before this section, as this section knows
	looked bool    // no lock of this job is held on a file that is not in the folder
}

// tried is a lock file as found in this section: locked by it, or by others.
type tried struct {
	fd   int // -1: somebody else holds it
	id   lockID
	keep bool // it is somebody's now: leave does not unlock it
}

// errNoJob: the store has never seen the job.
var errNoJob = errors.New("no such job")

// enter takes the job's decide lock and brings its state up to date. Without
// create, a job that has no folder is errNoJob.
func (d *driver) enter(ctx context.Context, job string, create bool, patience time.Duration) (*section, error) {
	s := &section{journal: journal{store: d.dir, job: job, dir: d.folder(job)}, d: d, held: map[string]*tried{}}
	var err error
	for {
		s.fd, err = lockDir(ctx, d.dir, s.dir, patience)
		if !errors.Is(err, syscall.ENOENT) {
			break
		}
		if !create {
			return nil, errNoJob
		}
		if err := d.makeFolder(s.dir); err != nil {
			return nil, err
		}
	}
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil, notFolder(d.dir, s.dir)
	}
	if err != nil {
		return nil, err
	}
	if s.began, err = s.changes(); err != nil {
		s.leave()
		return nil, err
	}
	st := d.take(job)
	if st != nil && st.read != s.began {
		st = nil // its files may have been replaced, by others with the same inode numbers
	}
	if s.st, err = s.load(st); err != nil {
		s.st = nil
		s.leave()
		return nil, err
	}
	s.looked = s.st.seq > 0 && s.st.Seen == s.began
	return s, nil
}

// makeFolder makes the folder of a job, and durably so: its decisions are
// worth as much as its name.
func (d *driver) makeFolder(dir string) error {
	jobs := parent(dir)
	for _, p := range []string{jobs, dir} {
		err := syscall.Mkdir(p, 0o700)
		if err == syscall.EEXIST {
			if err := checkJobs(d.dir); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return &os.PathError{Op: "mkdir", Path: p, Err: err}
		}
		if err := syncDir(parent(p)); err != nil {
			return err
		}
	}
	return nil
}

// leave gives the decide lock back, and every lock file that was only tried.
func (s *section) leave() {
	for _, t := range s.held {
		if t.fd >= 0 && !t.keep {
			unlock(t.fd)
		}
	}
	if s.st != nil {
		s.settled()
		s.d.put(s.job, s.st)
	}
	unlock(s.fd)
}

// load reads what the journal has got since st was read, or all of its newest
// segment.
func (j journal) load(st *state) (*state, error) {
	if st != nil && st.seq > 0 {
		// Nobody has begun another segment, and this one only grew: its
		// lines up to st.size were complete, and complete lines stay.
		if _, err := stat(j.path(st.seq + 1)); errors.Is(err, syscall.ENOENT) {
			if ok, err := j.readMore(st); ok || err != nil {
				return st, err
			}
		}
	}
	st = newState(j.job)
	names, err := readDir(j.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := segmentNumber(name); ok {
			st.all = append(st.all, n)
		} else if isNumberedLock(name) {
			st.locks[name] = true
		}
	}
	slices.Sort(st.all)
	for len(st.all) > 0 {
		st.seq = st.all[len(st.all)-1]
		if _, err := j.readMore(st); err != nil {
			return nil, err
		}
		if st.begun {
			return st, nil
		}
		// Its first line was never completed, so nothing in it was ever
		// answered: whoever began it died in that moment. It is begun again.
		st.all = st.all[:len(st.all)-1]
		st.seq = 0
		st.size, st.ino = 0, 0
	}
	return st, nil
}

// readMore adds the lines that the newest segment has beyond st.size. !ok: the
// file is not the one that st was read from.
func (j journal) readMore(st *state) (ok bool, err error) {
	path := j.path(st.seq)
	fd, err := open(path, syscall.O_RDONLY)
	if errors.Is(err, syscall.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer syscall.Close(fd)
	is, err := fstat(fd)
	if err != nil {
		return false, err
	}
	if st.begun && (is.Ino != st.ino || is.Size < st.size) {
		return false, nil
	}
	st.ino = is.Ino
	if st.begun && is.Size == st.size {
		return true, nil
	}
	b, err := readFrom(fd, st.size)
	if err != nil {
		return false, err
	}
	other := "" // whose journal it is instead
	size, err := readLines(b, !st.begun, func(r *record) {
		switch {
		case other != "":
			return
		case !st.begun && j.job == "":
			st.job = r.Job
		case !st.begun && r.Job != j.job:
			other = r.Job
			return
		}
		st.apply(r)
	})
	if err = j.explain(path, err); err != nil && j.lenient && st.begun {
		st.damage, err = err, nil
	}
	if err != nil {
		return false, err
	}
	if other != "" {
		return false, &cronce.ConfigError{Store: j.store, What: fmt.Sprintf("%s is the journal of job %q, not of %q", path, other, j.job),
			Cure: "move that folder away"}
	}
	st.size += size
	return true, nil
}

func (j journal) path(segment int) string { return j.dir + "/" + segmentName(segment) }

// records reads an older segment, to its last complete line.
func (j journal) records(segment int) ([]record, error) {
	b, err := readFile(j.path(segment))
	if err != nil {
		return nil, err
	}
	recs, _, err := j.parse(j.path(segment), b, true)
	return recs, err
}

// parse is parseLines with errors for people; what can be read comes with them.
func (j journal) parse(path string, b []byte, whole bool) (recs []record, size int64, err error) {
	recs, size, err = parseLines(b, whole)
	return recs, size, j.explain(path, err)
}

// explain makes an error of readLines one for people.
func (j journal) explain(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDamaged):
		return &cronce.ConfigError{Store: j.store, What: path + " is " + err.Error(),
			Cure: "that line may have been a decision: look at it, then mend or delete it"}
	}
	return &cronce.ConfigError{Store: j.store, What: path + ": " + err.Error(),
		Cure: "use the cronce that wrote it, or a newer one"}
}

// write makes the records durable: when it returns nil they are, and when it
// returns an error they are not there, unless the disk refuses even to take
// them back. It leaves room behind them for the end of every run that lives.
func (s *section) write(recs ...record) error {
	if len(recs) == 0 {
		return nil
	}
	if s.st.seq == 0 || s.st.size >= s.d.segmentBytes {
		return s.begin(recs)
	}
	var b bytes.Buffer
	for _, r := range recs {
		if err := r.encode(&b); err != nil {
			return err
		}
	}
	return s.append(recs, b.Bytes(), appendDurable)
}

// note writes what matters only while this machine is up, as which process has
// a run now. It takes no time for an fsync, and no error: without room for it,
// the run goes on all the same.
func (s *section) note(r record) {
	var b bytes.Buffer
	if s.st != nil && s.st.seq > 0 && r.encode(&b) == nil {
		s.append([]record{r}, b.Bytes(), appendNote)
	}
}

// How to append: with room behind it for the ends of runs, and fsync; with
// room, and no fsync; into that room, with fsync.
const (
	appendDurable = iota
	appendNote
	appendEnd
)

// writeEnd is write for the end of a run. It begins no segment and reserves
// nothing: its room has been reserved when the run started.
func (s *section) writeEnd(r record) error {
	var b bytes.Buffer
	if err := r.encode(&b); err != nil {
		return err
	}
	return s.append([]record{r}, b.Bytes(), appendEnd)
}

// append adds lines to the newest segment.
func (s *section) append(recs []record, lines []byte, how int) (err error) {
	st := s.st
	fd, err := open(s.path(st.seq), syscall.O_WRONLY|syscall.O_APPEND)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	is, err := fstat(fd)
	if err != nil {
		return err
	}
	if is.Ino != st.ino || is.Size < st.size {
		return fmt.Errorf("%s was replaced meanwhile: %w", s.path(st.seq), syscall.ESTALE)
	}
	if is.Size > st.size {
		// The rest of a line whose writer died in it.
		if err := syscall.Ftruncate(fd, st.size); err != nil {
			return err
		}
	}
	if how != appendEnd {
		if err := reserve(fd, st.size, int64(len(lines))+s.room(recs)); err != nil {
			return err
		}
	}
	if err = writeAll(fd, lines); err == nil && how != appendNote {
		err = s.d.fsync(fd)
	}
	if err != nil {
		if e := syscall.Ftruncate(fd, st.size); e != nil {
			s.st = nil // read it again; the lines may be there to stay
		}
		return err
	}
	st.size += int64(len(lines))
	for i := range recs {
		st.apply(&recs[i])
	}
	return nil
}

// room is how much to keep free for the ends of runs: of those that live once
// recs are written.
func (s *section) room(recs []record) int64 {
	n := len(s.st.Open)
	for _, r := range recs {
		switch r.Event {
		case evStart:
			n++
		case evEnd:
			n--
		}
	}
	return int64(n) * endReserve
}

// begin begins a new segment with these records, and drops old ones by the
// rules of retention.
func (s *section) begin(recs []record) error {
	st := newState(s.job)
	st.seq, st.locks = s.st.seq+1, s.st.locks
	if n := len(s.st.all); n > 0 {
		st.seq = max(st.seq, s.st.all[n-1]+1)
	}
	now := s.d.now()
	snap := s.st.next()
	drop := s.expired(now, &snap)
	path := s.path(st.seq)
	fd, err := open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if s.looked {
		// Now that the folder has its name.
		if snap.Seen, err = s.settledAt(); err != nil {
			return err
		}
	}
	lines := append([]record{{Event: evSegment, At: now, Format: formatNumber, Segment: st.seq, Job: s.job, Snapshot: &snap}}, recs...)
	var b bytes.Buffer
	for _, r := range lines {
		if err := r.encode(&b); err != nil {
			return err
		}
	}
	if err = reserve(fd, 0, int64(b.Len())+s.room(recs)); err == nil {
		err = writeAll(fd, b.Bytes())
	}
	if err == nil {
		err = s.d.fsync(fd)
	}
	if err == nil {
		err = s.d.fsync(s.fd)
	}
	if err == nil && len(s.st.all) == 0 {
		// The folder is new: whoever made it may not have come to this.
		err = syncDir(parent(s.dir))
		if e := syncDir(s.store); err == nil {
			err = e
		}
	}
	var is syscall.Stat_t
	if err == nil {
		is, err = fstat(fd)
	}
	if err != nil {
		if e := syscall.Unlink(path); e != nil {
			s.st = nil
		}
		return err
	}
	for i := range lines {
		st.apply(&lines[i])
	}
	st.ino, st.size, st.all = is.Ino, int64(b.Len()), append(s.st.all, st.seq)
	s.st = st
	s.remove(drop)
	return nil
}
