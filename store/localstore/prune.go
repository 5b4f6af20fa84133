package localstore

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// old is a segment that can be removed.
type old struct {
	segment int
	runs    []string // decided in it
	last    time.Time
	highest time.Time // tick
}

// maxDrops is how many segments are removed in one section, so that no claim
// waits long for it.
const maxDrops = 16

// removable looks into a closed segment: ok where no run of it lives and no
// tick of it lies ahead. (A tick may do so after the clock was wrong; were it
// dropped, the watermark would decide all the ticks up to it.) A segment that
// cannot be read is not removed either: nobody knows which ticks it decided.
func (s *section) removable(n int, now time.Time) (o old, ok bool) {
	recs, err := s.records(n)
	if err != nil {
		return o, false
	}
	o.segment = n
	for _, r := range recs {
		if r.At.After(o.last) {
			o.last = r.At
		}
		if !r.decided() {
			continue
		}
		if r.Tick.After(now) || slices.ContainsFunc(s.st.Open, func(l record) bool { return l.ID == r.ID }) {
			return o, false
		}
		if r.Tick.After(o.highest) {
			o.highest = r.Tick
		}
		o.runs = append(o.runs, r.ID)
	}
	return o, true
}

// expired are the segments that retention removes when the next one is begun
// with snap, in which it raises the watermark.
func (s *section) expired(now time.Time, snap *snapshot) []old {
	var total int64
	sizes := make([]int64, len(s.st.all))
	for i, n := range s.st.all {
		if st, err := stat(s.path(n)); err == nil {
			sizes[i] = st.Size
			total += st.Size
		}
	}
	var drop []old
	for i, n := range s.st.all {
		tooMuch := s.d.keepBytes > 0 && total > s.d.keepBytes
		if len(drop) == maxDrops || !tooMuch && s.d.keepAge < 0 {
			break
		}
		o, ok := s.removable(n, now)
		if !ok {
			continue
		}
		if !tooMuch && (s.d.keepAge < 0 || now.Sub(o.last) <= s.d.keepAge) {
			break
		}
		total -= sizes[i]
		drop = append(drop, o)
		if o.highest.After(snap.Dropped) {
			snap.Dropped = o.highest
		}
	}
	snap.Decided = slices.DeleteFunc(snap.Decided, func(p span) bool { return !p.To.After(snap.Dropped) })
	return drop
}

// remove removes segments, once the watermark that stands for their ticks is
// durable, and the output of their runs.
func (s *section) remove(drop []old) {
	for _, o := range drop {
		for _, id := range o.runs {
			if validRunID(id) {
				syscall.Unlink(s.outputPath(id))
			}
		}
		syscall.Unlink(s.path(o.segment))
		s.st.all = slices.DeleteFunc(s.st.all, func(n int) bool { return n == o.segment })
	}
}

// Prune removes segments of which every run was decided before that time.
func (d *driver) Prune(ctx context.Context, before time.Time) (int, error) {
	if err := d.writable(); err != nil {
		return 0, err
	}
	folders, err := d.folders("")
	if err != nil {
		return 0, err
	}
	total := 0
	for _, j := range folders {
		st, err := d.read(&j)
		if err != nil {
			return total, err
		}
		for more := st != nil; more; {
			var n int
			if n, more, err = d.pruneJob(ctx, j.job, before); err != nil {
				return total, diskError(d.dir, "", err)
			}
			total += n
		}
	}
	return total, nil
}

// pruneJob removes some segments of a job; more: there may be others.
func (d *driver) pruneJob(ctx context.Context, job string, before time.Time) (pruned int, more bool, err error) {
	s, err := d.enter(ctx, job, false, d.patience)
	if errors.Is(err, errNoJob) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer s.leave()
	if len(s.st.runs) > 0 && s.st.Until.Before(before) {
		// All of the newest segment may go; only a closed one can.
		if o, ok := s.removable(s.st.seq, d.now()); ok && o.last.Before(before) {
			if err := s.begin(nil); err != nil {
				return 0, false, err
			}
		}
	}
	var drop []old
	highest := s.st.Dropped
	for _, n := range s.st.all {
		if n == s.st.seq || len(drop) == maxDrops {
			break
		}
		if o, ok := s.removable(n, d.now()); ok && o.last.Before(before) {
			drop = append(drop, o)
			pruned += len(o.runs)
			if o.highest.After(highest) {
				highest = o.highest
			}
		}
	}
	if highest.After(s.st.Dropped) {
		if err := s.write(record{Event: evWatermark, At: d.now(), Dropped: highest}); err != nil {
			return 0, false, err
		}
	}
	s.remove(drop)
	return pruned, len(drop) == maxDrops, nil
}

// ResetWatermark takes back to now the time up to which a job's ticks count as
// decided because their history was dropped. It is for the day after a clock
// was wrong, when claims are refused because that time lies ahead.
func ResetWatermark(ctx context.Context, o Options, job string) error {
	d, err := openDriver(o, thisHost())
	if err != nil {
		return err
	}
	if err := d.writable(); err != nil {
		return err
	}
	if err := cronce.CheckName(job); err != nil {
		return err
	}
	return d.resetWatermark(ctx, job)
}

func (d *driver) resetWatermark(ctx context.Context, job string) error {
	s, err := d.enter(ctx, job, false, d.patience)
	if errors.Is(err, errNoJob) {
		return nil
	}
	if err != nil {
		return diskError(d.dir, "", err)
	}
	defer s.leave()
	now := d.now()
	if !s.st.Dropped.After(now) {
		return nil
	}
	return diskError(d.dir, "", s.write(record{Event: evWatermark, At: now, Dropped: now}))
}
