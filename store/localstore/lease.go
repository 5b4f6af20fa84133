package localstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/cronce/cronce"
)

// Renew looks whether the run was asked to stop. The lease itself needs no
// renewal: the kernel keeps it.
func (d *driver) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	if err := ctx.Err(); err != nil {
		return l, err
	}
	j := journal{store: d.dir, job: l.Run.Job, dir: d.folder(l.Run.Job)}
	l.Run.Holder = cutHolder(l.Run.Holder)
	d.mu.Lock()
	have := d.leases[l.Run.ID]
	known := have != nil && have.holder == l.Run.Holder && (have.orphaned || !l.Orphaned)
	d.mu.Unlock()
	if !known {
		if err := d.adopt(ctx, j, l); err != nil {
			return l, diskError(d.dir, "", err)
		}
	}
	c, err := j.readControl()
	if err != nil {
		return l, diskError(d.dir, "", err)
	}
	if err := c.revoked(l.Run); err != nil {
		return l, err
	}
	l.Granted = d.now()
	if c.Stop.is(l.Run.ID) {
		l.Stop = &cronce.Request{Kind: cronce.Stop, Job: l.Run.Job, By: c.Stop.By, Why: c.Stop.Why, At: c.Stop.At}
	}
	return l, nil
}

// adopt looks into the journal for a lease that this driver did not give, or
// of which there is something to note. ErrLost: it has ended.
func (d *driver) adopt(ctx context.Context, j journal, l cronce.Lease) error {
	find := func(st *state) *record {
		i := slices.IndexFunc(st.Open, func(o record) bool { return o.ID == l.Run.ID })
		if i < 0 {
			return nil
		}
		return &st.Open[i]
	}
	st, err := j.load(nil)
	if errors.Is(err, syscall.ENOENT) {
		return cronce.ErrLost
	}
	if err != nil {
		return err
	}
	o := find(st)
	if o == nil {
		return cronce.ErrLost
	}
	if handed, orphaned := o.Holder != l.Run.Holder, l.Orphaned && !o.Orphans; (handed || orphaned) && !d.readOnly {
		s, err := d.enter(ctx, l.Run.Job, false, d.patience)
		if err != nil {
			if errors.Is(err, errNoJob) {
				err = cronce.ErrLost
			}
			return err
		}
		defer s.leave()
		if find(s.st) == nil {
			return cronce.ErrLost
		}
		if handed {
			s.note(record{Event: evHanded, At: d.now(), ID: l.Run.ID, Holder: l.Run.Holder, Proc: self()})
		}
		if orphaned {
			s.note(record{Event: evOrphans, At: d.now(), ID: l.Run.ID})
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := d.leases[l.Run.ID]; have != nil {
		have.holder, have.orphaned = l.Run.Holder, l.Orphaned
	} else if l.Lock != nil && isOpen(l.Lock) {
		d.leases[l.Run.ID] = &leased{file: l.Lock, holder: l.Run.Holder, orphaned: l.Orphaned}
	}
	return nil
}

// isOpen tells whether the file has not been closed.
func isOpen(f *os.File) bool {
	c, err := f.SyscallConn()
	return err == nil && c.Control(func(uintptr) {}) == nil
}

// maxOutput is how much of a run's output is kept.
const maxOutput = 64 << 10

// Finish records the end of a run, then closes its lock.
func (d *driver) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	if err := d.writable(); err != nil {
		return err
	}
	if !validRunID(l.Run.ID) {
		return fmt.Errorf("job %q: run id %q is not a UUID in lower case", l.Run.Job, l.Run.ID)
	}
	s, err := d.enter(ctx, l.Run.Job, false, d.endPatience)
	if errors.Is(err, errNoJob) {
		d.closeLease(l)
		return cronce.ErrLost // the job's folder was deleted; there is nothing left to write to
	}
	if err == nil {
		defer s.leave()
		err = s.finish(l.Run.ID, r)
	}
	if err == nil || errors.Is(err, cronce.ErrLost) {
		// Within the section, so that no claim sees the run ended and its lock held.
		d.closeLease(l)
		return err
	}
	return diskError(d.dir, "the end of run "+l.Run.ID+" is not on record", err)
}

func (s *section) finish(id string, r cronce.Result) error {
	if !slices.ContainsFunc(s.st.Open, func(o record) bool { return o.ID == id }) {
		run, ok, err := s.find(id)
		if err == nil && (!ok || run.Outcome == cronce.Lost) {
			err = cronce.ErrLost
		}
		return err // nil: it has been finished before
	}
	err := s.writeEnd(record{Event: evEnd, At: s.d.now(), ID: id, Outcome: r.Outcome, Exit: r.ExitCode,
		Signal: cut(r.Signal, maxSignal), Message: cut(r.Message, maxMessage), Output: r.OutputBytes, Tries: r.Attempts})
	if err == nil {
		s.keepOutput(id, r.Output)
	}
	return err
}

// keepOutput keeps the last part of a run's output in a file of its own. The
// record stands without it, so that a full disk cannot undo a success.
func (s *section) keepOutput(id string, tail []byte) {
	if len(tail) == 0 {
		return
	}
	tail = tail[max(0, len(tail)-maxOutput):]
	syscall.Mkdir(s.dir+"/output", 0o700)
	path := s.outputPath(id)
	fd, err := open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC)
	if err != nil {
		return
	}
	err = writeAll(fd, tail)
	syscall.Close(fd)
	if err != nil {
		syscall.Unlink(path) // half of it would look like all of it
	}
}

func (j journal) outputPath(id string) string { return j.dir + "/output/" + id }

// closeLease closes the lock of a lease. Processes that inherited it keep it,
// unless the lease says otherwise.
func (d *driver) closeLease(l cronce.Lease) {
	d.mu.Lock()
	have := d.leases[l.Run.ID]
	delete(d.leases, l.Run.ID)
	d.mu.Unlock()
	if have != nil {
		closeLease(have.file, l.FreeLock)
	}
	if l.Lock != nil {
		closeLease(l.Lock, l.FreeLock) // the same file, unless the lease was handed over
	}
}
