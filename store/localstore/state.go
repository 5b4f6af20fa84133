package localstore

import (
	"slices"
	"time"

	"github.com/cronce/cronce"
)

// state is what a job's journal says, as far as the newest segment tells.
type state struct {
	job  string
	seq  int     // number of the newest segment, 0: there is none
	ino  uint64  // of its file
	size int64   // how far its complete lines reach
	read changes // of the folders when it was read
	all  []int   // numbers of all segments, ascending

	damage   error           // of the newest segment, for lenient readers
	snapshot                 // kept up to date
	head     snapshot        // as the newest segment begins
	begun    bool            // head is set
	decided  []*cronce.Run   // in the newest segment
	givers   []procID        // that handed runs over to others
	locks    map[string]bool // names of numbered lock files
	ran      record          // what Ran points to, once a run has started in this segment
}

func newState(job string) *state {
	return &state{job: job, locks: map[string]bool{}}
}

// apply adds one record.
func (s *state) apply(r *record) {
	if r.At.After(s.Until) {
		s.Until = r.At
	}
	switch r.Event {
	case evSegment:
		if s.begun || r.Snapshot == nil {
			return
		}
		s.begun, s.head = true, *r.Snapshot
		s.snapshot = s.head
		s.Open = slices.Clone(s.Open)
		for _, o := range s.Open {
			s.gives(o.From)
		}
		if r.At.After(s.Until) {
			s.Until = r.At
		}
	case evStart, evSkip:
		run := r.run(s.job, nil)
		s.decided, s.Last = append(s.decided, &run), &run
		if r.Event == evSkip {
			return
		}
		s.Open = append(s.Open, *r)
		s.Fence = max(s.Fence, r.Fence)
		if r.Lock.File == jobLock {
			s.ran = *r
			s.Ran = &s.ran
		} else if isNumberedLock(r.Lock.File) {
			s.locks[r.Lock.File] = true
		}
	case evHanded, evOrphans:
		i := s.open(r.ID)
		if i < 0 {
			return
		}
		o := &s.Open[i]
		if r.Event == evOrphans {
			o.Orphans = true
			return
		}
		if o.From == nil {
			o.From = clone(&o.Proc)
			s.gives(o.From)
		}
		o.Holder, o.Proc = r.Holder, r.Proc
		if run := s.decision(r.ID); run != nil {
			run.Holder = r.Holder
		}
	case evEnd:
		i := s.open(r.ID)
		if i < 0 {
			return
		}
		run := s.Open[i].run(s.job, r)
		s.Open = slices.Delete(s.Open, i, i+1)
		if kept := s.decision(r.ID); kept != nil {
			*kept = run
		} else if s.Last != nil && s.Last.ID == r.ID {
			last := run
			s.Last = &last
		}
		if run.Outcome == cronce.Succeeded {
			success := run.Tick
			if success.IsZero() {
				success = run.Start
			}
			if success.After(s.Success) {
				s.Success = success
			}
		}
	case evDefine:
		if r.Definition != nil {
			s.Definition, s.Since = *r.Definition, r.At
		}
	case evPause:
		s.Paused = &cronce.Request{Kind: cronce.Pause, Job: s.job, By: r.By, Why: r.Why, At: r.At}
	case evResume:
		s.Paused, s.Resumed = nil, r.At
	case evForget:
		s.Forgotten = r.Forgotten
	case evSeen:
		if r.Seen != nil {
			s.Seen = *r.Seen
		}
	}
}

// open is where in Open a run is, -1 if it has ended.
func (s *state) open(id string) int {
	for i := range s.Open {
		if s.Open[i].ID == id {
			return i
		}
	}
	return -1
}

// decision is the run or skip with that id, nil if the newest segment did not decide it.
func (s *state) decision(id string) *cronce.Run {
	for _, run := range slices.Backward(s.decided) {
		if run.ID == id {
			return run
		}
	}
	return nil
}

// gives notes a process that has handed a run over.
func (s *state) gives(p *procID) {
	if p != nil && !slices.Contains(s.givers, *p) {
		s.givers = append(s.givers, *p)
	}
}

// next is the snapshot with which the next segment begins.
func (s *state) next() snapshot {
	n := s.snapshot
	n.Open = slices.Clone(n.Open)
	ticks := make([]time.Time, 0, len(s.decided))
	for _, run := range s.decided {
		if !run.Tick.IsZero() {
			ticks = append(ticks, run.Tick)
		}
	}
	n.Decided = cover(s.head.Decided, ticks)
	return n
}

// history puts runs together from segments that are added newest first.
type history struct {
	job    string
	ends   map[string]record
	handed map[string]record
	runs   []cronce.Run // newest first
}

// add takes the records of a segment that keep selects. An end is always taken.
func (h *history) add(recs []record, keep func(record) bool) {
	if h.ends == nil {
		h.ends, h.handed = map[string]record{}, map[string]record{}
	}
	for _, r := range slices.Backward(recs) {
		later := h.ends
		if r.Event == evHanded {
			later = h.handed
		} else if r.Event != evEnd {
			continue
		}
		if _, ok := later[r.ID]; !ok {
			later[r.ID] = r
		}
	}
	for _, r := range slices.Backward(recs) {
		if !r.decided() || !keep(r) {
			continue
		}
		if to, ok := h.handed[r.ID]; ok {
			r.Holder = to.Holder
		}
		if end, ok := h.ends[r.ID]; ok {
			h.runs = append(h.runs, r.run(h.job, &end))
		} else {
			h.runs = append(h.runs, r.run(h.job, nil))
		}
	}
}
