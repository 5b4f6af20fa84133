package localstore

import (
	"fmt"
	"os"
	"slices"

	"github.com/cronce/cronce"
)

// live is a lock that somebody holds, with the run it was taken for.
type live struct {
	run      cronce.Run // without an ID where the journal knows no such run
	lock     lockID
	claimer  int  // the process that claimed it, 0 if that is gone
	orphans  bool // the run, or its own process, has ended; others keep the lock
	leftover bool // the run's end is on record
}

// try locks one of the job's lock files, or finds that it is held. Each is
// tried once in a section: a second open of ours would be shut out by the first.
func (s *section) try(name string) (*tried, error) {
	if t := s.held[name]; t != nil {
		return t, nil
	}
	fd, st, err := lockFile(s.dir + "/" + name)
	if err != nil && err != errBusy {
		return nil, err
	}
	t := &tried{fd: fd, id: lockID{File: name, Dev: uint64(st.Dev), Ino: st.Ino}}
	s.held[name] = t
	if fd >= 0 && isRunLock(name) && st.Size != int64(len(s.label(name))) {
		return t, s.mark(fd, name)
	}
	return t, nil
}

// survey finds which of the runs that have not ended still have their lock.
// The others are lost, and said so in the journal. own is the id of a claim
// that may be a repetition: its run is not lost while this process lives.
// With all, it also finds locks held by nobody on record.
func (s *section) survey(own string, all bool) ([]live, error) {
	var lives []live
	var lost, revoked []record
	now := s.d.now()
	known := map[lockID]bool{}
	for _, o := range s.st.Open {
		if !isRunLock(o.Lock.File) {
			lost = append(lost, o)
			continue
		}
		t, err := s.try(o.Lock.File)
		if err != nil {
			return nil, err
		}
		known[o.Lock] = true
		switch {
		case t.id != o.Lock:
			// Somebody deleted the file. Whoever had it locked has its inode.
			if pids := s.d.holders(o.Lock); len(pids) > 0 {
				lives = append(lives, s.alive(o, pids))
			} else {
				lost, revoked = append(lost, o), append(revoked, o)
			}
		case t.fd < 0:
			lives = append(lives, s.alive(o, nil))
		case o.ID == own && o.Proc == self():
			// The claim failed after its record was written, or it was not
			// possible to take the record back; now it can have its lease.
		default:
			lost = append(lost, o)
		}
	}
	if all {
		more, err := s.unknown(known)
		if err != nil {
			return nil, err
		}
		lives = append(lives, more...)
	}
	if len(lost) > 0 {
		ends := make([]record, len(lost))
		for i, o := range lost {
			ends[i] = record{Event: evEnd, At: now, ID: o.ID, Outcome: cronce.Lost}
		}
		if err := s.write(ends...); err != nil {
			return nil, err
		}
	}
	if len(revoked) > 0 {
		// Should they live unseen after all, their next renewal ends them.
		r := record{Event: evRevoke, At: now, Why: "its lock file was deleted"}
		for _, o := range revoked {
			r.Runs = append(r.Runs, o.ID)
		}
		if err := s.order(r); err != nil {
			return nil, err
		}
	}
	return lives, nil
}

// alive is the run of a start record whose lock is held. While the process
// that claimed it lives, it is the holder. Once that is gone, one of those that
// keep the lock is named in its place.
func (s *section) alive(o record, pids []int) live {
	l := live{run: o.run(s.job, nil), lock: o.Lock}
	if o.Proc == (procID{}) {
		return l
	}
	if !o.Proc.gone() {
		l.claimer, l.orphans = o.Proc.PID, o.Orphans
		return l
	}
	l.orphans = true
	if pids == nil {
		pids = s.d.holders(o.Lock)
	}
	if len(pids) > 0 {
		l.run.Holder.PID = pids[0]
	}
	return l
}

// unknown finds locks that are held without a run on record that lives: by
// what an ended run left behind, or by a run whose journal was deleted, or all
// of its folder.
func (s *section) unknown(known map[lockID]bool) ([]live, error) {
	var lives []live
	names := []string{jobLock}
	for name := range s.st.locks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t, err := s.try(name)
		if err != nil {
			return nil, err
		}
		if t.fd >= 0 || known[t.id] {
			continue
		}
		pids := s.d.holders(t.id)
		if len(pids) == 0 {
			// It may be free by now: a child that is just being started has
			// copies of all descriptors until it execs.
			delete(s.held, name)
			if t, err = s.try(name); err != nil {
				return nil, err
			}
			if t.fd >= 0 {
				continue
			}
		}
		l := live{run: cronce.Run{Job: s.job}, lock: t.id}
		if ran := s.st.Ran; ran != nil && ran.Lock == t.id {
			l.run, l.orphans, l.leftover = ran.run(s.job, nil), true, true
		}
		l.run.Holder.Host = hostname()
		if len(pids) > 0 {
			l.run.Holder.PID = pids[0]
		}
		lives = append(lives, l)
	}
	strays, err := s.strays(known)
	return append(lives, strays...), err
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// freeNumbered finds a free lock for a run that may run beside others.
func (s *section) freeNumbered() (*tried, error) {
	for n := 1; ; n++ {
		if n > 9999 {
			return nil, fmt.Errorf("job %q: more than %d runs at once", s.job, n)
		}
		t, err := s.try(numberedLock(n))
		if err != nil || t.fd >= 0 {
			s.st.locks[numberedLock(n)] = true
			return t, err
		}
	}
}
