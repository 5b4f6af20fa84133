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
	ticks   []time.Time
	last    time.Time
}

// maxDrops is how many segments are removed in one section, so that no claim
// waits long for it.
const maxDrops = 16

// removable looks into a segment: ok where no run of it lives. One that cannot
// be read is not removed either: nobody knows which ticks it decided.
func (s *section) removable(n int) (o old, ok bool) {
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
		if slices.ContainsFunc(s.st.Open, func(l record) bool { return l.ID == r.ID }) {
			return o, false
		}
		if !r.Tick.IsZero() {
			o.ticks = append(o.ticks, r.Tick)
		}
		o.runs = append(o.runs, r.ID)
	}
	return o, true
}

// expired are the segments that retention removes when the next one is begun
// with snap, in which it notes their ticks.
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
		o, ok := s.removable(n)
		if !ok {
			continue
		}
		if !tooMuch && (s.d.keepAge < 0 || now.Sub(o.last) <= s.d.keepAge) {
			break
		}
		total -= sizes[i]
		drop = append(drop, o)
		snap.Forgotten = cover(snap.Forgotten, o.ticks)
	}
	return drop
}

// remove removes segments, once what stands for their ticks is durable, and the
// output of their runs.
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
func (d *driver) Prune(ctx context.Context, job string, before time.Time) (int, error) {
	if err := d.writable(); err != nil {
		return 0, err
	}
	folders, err := d.folders(job)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, j := range folders {
		st, err := d.read(&j)
		var refused *cronce.ConfigError
		if errors.As(err, &refused) {
			continue // Jobs says so
		}
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
	if len(s.st.decided) > 0 && s.st.Until.Before(before) {
		// All of the newest segment may go; only a closed one can.
		if o, ok := s.removable(s.st.seq); ok && o.last.Before(before) {
			if err := s.begin(nil); err != nil {
				return 0, false, err
			}
		}
	}
	var drop []old
	forgotten := s.st.Forgotten
	for _, n := range s.st.all {
		if n == s.st.seq || len(drop) == maxDrops {
			break
		}
		if o, ok := s.removable(n); ok && o.last.Before(before) {
			drop = append(drop, o)
			pruned += len(o.runs)
			forgotten = cover(forgotten, o.ticks)
		}
	}
	if len(drop) > 0 {
		if err := s.write(record{Event: evForget, At: d.now(), Forgotten: forgotten}); err != nil {
			return 0, false, err
		}
	}
	s.remove(drop)
	return pruned, len(drop) == maxDrops, nil
}
