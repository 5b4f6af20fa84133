package localstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/cronce/cronce"
)

// The events of a journal, one a line.
const (
	evSegment = "segment" // the first line of a segment: what the earlier ones add up to
	evStart   = "start"   // a tick was decided as run, and the run has the lease
	evSkip    = "skip"    // a tick was decided as a skip
	evHanded  = "handed"  // a run's lease went to another process
	evOrphans = "orphans" // a run's own work has ended; what it left behind has not
	evEnd     = "end"     // a run ended, or was found lost
	evDefine  = "define"  // the job's definition changed
	evPause   = "pause"   // requests of people
	evResume  = "resume"  //
	evStop    = "stop"    //
	evRevoke  = "revoke"  //
	evPrune   = "prune"   //
	evEnded   = "ended"   // how a run ended, from elsewhere
	evForget  = "forget"  // segments are removed; ticks within Forgotten count as decided
	evSeen    = "seen"    // no lock of the job is held elsewhere, as long as the folders do not change
)

// record is one line of a journal. A reader ignores events and fields that it
// does not know.
type record struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"` // by this host's clock

	// start, skip, end
	ID      string            `json:"id,omitempty"`
	Tick    time.Time         `json:"tick,omitzero"`
	Slot    int               `json:"slot,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
	Fence   int64             `json:"fence,omitempty"`
	Holder  cronce.Holder     `json:"holder,omitzero"`
	Skip    cronce.SkipReason `json:"skip,omitempty"`
	Held    string            `json:"held,omitempty"`
	Lock    lockID            `json:"lock,omitzero"`
	Proc    procID            `json:"proc,omitzero"`
	Orphans bool              `json:"orphans,omitempty"` // in a snapshot: evOrphans was seen
	From    *procID           `json:"from,omitempty"`    // in a snapshot: the process before evHanded
	Outcome cronce.Outcome    `json:"outcome,omitempty"`
	Exit    int               `json:"exit,omitempty"`
	Signal  string            `json:"signal,omitempty"`
	Message string            `json:"message,omitempty"`
	Output  int64             `json:"output,omitempty"`
	Tries   int               `json:"attempts,omitempty"`

	// define and the requests
	Definition *cronce.Definition `json:"definition,omitempty"`
	By         string             `json:"by,omitempty"`
	Why        string             `json:"why,omitempty"`
	Runs       []string           `json:"runs,omitempty"` // whom a stop or revoke is for

	// segment, forget
	Format    int       `json:"format,omitempty"`
	Segment   int       `json:"segment,omitempty"`
	Job       string    `json:"job,omitempty"`
	Snapshot  *snapshot `json:"snapshot,omitempty"`
	Forgotten []span    `json:"forgotten,omitempty"`

	Seen *changes `json:"seen,omitempty"` // seen
}

// lockID is the lock file that guards a run. The inode tells whether the file
// of that name is still the one that was locked.
type lockID struct {
	File string `json:"file"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// snapshot is what a job's earlier segments add up to, so that a claim usually
// reads the newest one only.
type snapshot struct {
	Definition cronce.Definition `json:"definition,omitzero"`
	Since      time.Time         `json:"since,omitzero"`
	Fence      int64             `json:"fence,omitempty"`
	Success    time.Time         `json:"success,omitzero"`
	Paused     *cronce.Request   `json:"paused,omitempty"`
	Resumed    time.Time         `json:"resumed,omitzero"`
	Open       []record          `json:"open,omitempty"` // start records of live runs
	Last       *cronce.Run       `json:"last,omitempty"` // decided last
	Ran        *record           `json:"ran,omitempty"`  // the last start under job.lock
	// Decided covers the ticks decided in earlier segments: one outside these
	// spans was not decided there. Few spans, so that a tick from a day on
	// which the clock was wrong does not make every later one look old.
	Decided []span `json:"decided,omitempty"`
	// Forgotten covers the ticks of segments that were removed: one within
	// counts as decided. A single highest tick would do less: dropped while the
	// clock was years ahead, it would decide all the ticks until then.
	Forgotten []span `json:"forgotten,omitempty"`
	// Until is the latest time in earlier segments.
	Until time.Time `json:"until,omitzero"`
	Seen  changes   `json:"seen,omitzero"` // of the folders at the latest evSeen
}

// span is the time between two ticks, both included.
type span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// The longest texts that go into a record. An end record fits into
// endReserve, whatever the text: JSON takes at most six bytes for one.
const (
	maxMessage = 512
	maxText    = 256
	endReserve = 4096
	maxSignal  = 32
)

// cut shortens a text, between two characters.
func cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	for longest > 0 && !utf8.RuneStart(s[longest]) {
		longest--
	}
	return s[:longest]
}

func cutHolder(h cronce.Holder) cronce.Holder {
	h.Host, h.User, h.Via = cut(h.Host, maxText), cut(h.User, maxText), cut(h.Via, maxText)
	return h
}

// run is the run, or skip, that a start or skip record tells of, ended as end
// says if it is not nil.
func (r record) run(job string, end *record) cronce.Run {
	run := cronce.Run{
		ID: r.ID, Job: job, Tick: r.Tick, Slot: r.Slot, Attempt: r.Attempt, Fence: r.Fence, Holder: r.Holder,
		Skip: r.Skip, Held: r.Held, Start: r.At,
	}
	if r.Skip != "" {
		run.End = r.At
	}
	if end != nil {
		run.End = end.At
		run.Result = cronce.Result{Outcome: end.Outcome, ExitCode: end.Exit, Signal: end.Signal,
			Message: end.Message, OutputBytes: end.Output, Attempts: end.Tries}
	}
	return run
}

// decided tells whether the record decides a tick, or a run by hand.
func (r record) decided() bool { return r.Event == evStart || r.Event == evSkip }

// errDamaged is a journal that cannot be trusted any more.
var errDamaged = errors.New("damaged")

// parseLines reads the records of a segment, see readLines.
func parseLines(b []byte, whole bool) (recs []record, size int64, err error) {
	recs = make([]record, 0, bytes.Count(b, []byte{'\n'}))
	size, err = readLines(b, whole, func(r *record) { recs = append(recs, *r) })
	return recs, size, err
}

// readLines reads the lines of a segment and hands each record on, in one place
// in memory. size is how far they reach: what comes after it is the rest of a
// write that never ended and was never answered. A damaged line before the end is
// an error, as it may have been a decision; the records that can be read are
// handed on all the same.
//
// whole: b is a segment from its first line on, not a continuation. A segment
// without a complete first line has no records; its size is 0. Nobody may write to b
// afterwards, as the records have their texts there: each claim reads a segment, and a
// copy of each line would take a fifth of that time.
func readLines(b []byte, whole bool, each func(*record)) (size int64, err error) {
	var r record
	var room line
	left := unsafe.String(unsafe.SliceData(b), len(b))
	torn, first := false, whole
	for line := 1; left != ""; line++ {
		n := strings.IndexByte(left, '\n') + 1
		if n == 0 {
			break
		}
		text := strings.TrimSpace(left[:n])
		left = left[n:]
		switch {
		case text == "":
		case r.decode(&room, text) != nil || r.Event == "":
			if strings.TrimSpace(left) == "" && strings.IndexByte(text, 0) >= 0 {
				// A page that a power failure left unwritten, within the last line.
				torn = true
			} else if err == nil {
				err = fmt.Errorf("%w: line %d is not a record: %.80q", errDamaged, line, text)
			}
		case first && (r.Event != evSegment || r.Snapshot == nil || r.Job == ""):
			if err == nil {
				err = fmt.Errorf("%w: line %d should be the head of the segment", errDamaged, line)
			}
		case first && r.Format != formatNumber:
			return 0, fmt.Errorf("its format is %d, this program knows %d", r.Format, formatNumber)
		default:
			first = false
			each(&r)
		}
		if torn {
			break
		}
		size += int64(n)
	}
	return size, err
}

// maxSpans is how many spans a snapshot has at most.
const maxSpans = 8

// cover adds ticks to spans and merges the nearest until they are few.
func cover(spans []span, ticks []time.Time) []span {
	all := slices.Clone(spans)
	for _, t := range ticks {
		all = append(all, span{t, t})
	}
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			if s.To.After(out[n-1].To) {
				out[n-1].To = s.To
			}
			continue
		}
		out = append(out, s)
	}
	for len(out) > maxSpans {
		nearest := 1
		for i := 2; i < len(out); i++ {
			if out[i].From.Sub(out[i-1].To) < out[nearest].From.Sub(out[nearest-1].To) {
				nearest = i
			}
		}
		out[nearest-1].To = out[nearest].To
		out = slices.Delete(out, nearest, nearest+1)
	}
	return out
}

// covers tells whether the tick may be in the spans.
func covers(spans []span, tick time.Time) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return !tick.Before(s.From) && !tick.After(s.To) })
}

// segmentName and segmentNumber convert between the number of a segment and
// the name of its file.
func segmentName(n int) string {
	digits := strconv.Itoa(n)
	return "journal." + "000000"[min(len(digits), 6):] + digits + ".jsonl"
}

func segmentNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "journal.")
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, ".jsonl"); !ok || len(digits) < 6 {
		return 0, false
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1e8 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n > 0 && (len(digits) == 6 || digits[0] != '0')
}
