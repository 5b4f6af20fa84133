package cronce

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// Outcome is how a run ended. It is empty while the run lives, and for a skip.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timed_out"
	Cancelled Outcome = "cancelled"
	Lost      Outcome = "lost" // its lease ended with no word from it
)

// SkipReason is why a tick was decided as not to be run.
type SkipReason string

// The reasons.
const (
	SkipOverlap        SkipReason = "overlap"         // another run of the job was alive
	SkipOrphans        SkipReason = "orphans"         // only left-over children of an ended run were
	SkipLate           SkipReason = "late"            // offered after the start deadline
	SkipPaused         SkipReason = "paused"          // the job was paused
	SkipStoreRestarted SkipReason = "store-restarted" // the store may have lost the decision
)

// Holder is who has, or had, the lease of a job.
type Holder struct {
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	User string `json:"user,omitempty"`
	Via  string `json:"via,omitempty"` // the program: "serve", "run", …
	// Guard: the process is there for this run alone, and may be ended with it
	// by a [Revoke]. One that is not, as a program with a [Scheduler], is only
	// asked to end the run.
	Guard bool `json:"guard,omitempty"`
}

// String names the holder for people: ann@web1, pid 4242.
func (h Holder) String() string { return fmt.Sprintf("%s@%s, pid %d", h.User, h.Host, h.PID) }

// elsewhere reports whether this is known to be another process than that.
func (h Holder) elsewhere(that Holder) bool {
	return h.PID != 0 && (h.PID != that.PID || h.Host != that.Host)
}

// Run is the record of one decided tick (or of a run by hand): an execution,
// or a skip with its reason.
type Run struct {
	ID      string    `json:"id"`
	Job     string    `json:"job"`
	Tick    time.Time `json:"tick,omitzero"` // zero: run by hand
	Slot    int       `json:"slot,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Fence   int64     `json:"fence,omitempty"`
	Holder  Holder    `json:"holder,omitzero"`

	Skip  SkipReason `json:"skip,omitempty"` // set: it was not run
	Held  string     `json:"held,omitempty"` // for a skip: the run id of the holder
	Start time.Time  `json:"start"`          // when it was decided, by the store's clock
	End   time.Time  `json:"end,omitzero"`   // zero while it lives
	// Expires is when the lease of a run that lives ends, unless it is renewed. Zero
	// where leases do not expire.
	Expires time.Time `json:"expires,omitzero"`
	Result
}

// Live reports whether the run started and has not ended.
func (r Run) Live() bool { return r.Skip == "" && r.Outcome == "" }

// AsOf is the run at that time of its store: one whose lease has ended by then is lost,
// also while no claim of the job has put that on record.
func (r Run) AsOf(now time.Time) Run {
	if r.Live() && !r.Expires.IsZero() && !r.Expires.After(now) {
		r.Outcome, r.End = Lost, r.Expires
	}
	return r
}

// Result is what a run reports at its end.
type Result struct {
	Outcome     Outcome `json:"outcome,omitempty"`
	ExitCode    int     `json:"exit,omitempty"`
	Signal      string  `json:"signal,omitempty"` // as SIGKILL, where a signal ended it
	Message     string  `json:"message,omitempty"`
	Output      []byte  `json:"-"`                  // the last part of its output
	OutputBytes int64   `json:"output,omitempty"`   // how much it wrote in all
	Attempts    int     `json:"attempts,omitempty"` // how often it was tried, where that is more than once
}

// Lease is the exclusive right to run a job now. It is a value: whoever has
// it can renew and finish it, nobody else can.
type Lease struct {
	Run Run
	// Granted is the store's time at the claim or the last renewal.
	Granted time.Time
	// TTL is how long after Granted the lease ends without a renewal; zero on
	// a store whose leases end with their holder's processes.
	TTL time.Duration
	// Sent is when the request was sent that the store granted it for, on
	// [SinceBoot]. [Store] sets it; the time that is left counts from it.
	Sent time.Duration
	// Stop is set when the holder is asked to end its run.
	Stop *Request
	// PreviousSuccess is the tick of the last run that succeeded, if any
	// (its start, for a run by hand).
	PreviousSuccess time.Time
	// Lock, on a store whose leases end with their holder's processes, keeps
	// the job guarded for as long as any process has it open: hand it down to
	// the work. Finish closes it. Nil on every other store.
	Lock *os.File
	// Orphaned, set by the holder before a Renew, tells the store that the
	// run's own work has ended and only what it left behind goes on. It stays.
	Orphaned bool
	// FreeLock, set by the holder, makes Finish free the lock also where other
	// processes still have it open (orphans=leave).
	FreeLock bool
}

// RequestKind names what a person asks of a job.
type RequestKind string

// The requests.
const (
	Define RequestKind = "define" // keep this definition from now on
	Pause  RequestKind = "pause"  // decide every tick as skipped
	Resume RequestKind = "resume" // take a pause back
	Stop   RequestKind = "stop"   // ask the holders to end their runs
	Revoke RequestKind = "revoke" // let the holders' leases not be renewed
	// take a pruning watermark that lies ahead of the store's clock back to it
	ResetWatermark RequestKind = "reset-watermark"
	// it is on record only: old runs were forgotten, see Store.Prune
	Prune RequestKind = "prune"
	// it is on record only: how a run ended that the store knows as lost, by the process that
	// watched over it and reached the store too late. Runs has the run's id, Why how it ended
	Ended RequestKind = "ended"
)

// Request is what was asked of a job, and by whom.
type Request struct {
	Kind       RequestKind `json:"kind"`
	Job        string      `json:"job"`
	Definition Definition  `json:"definition,omitzero"` // with Define
	By         string      `json:"by,omitempty"`        // user@host, for people
	Why        string      `json:"why,omitempty"`
	At         time.Time   `json:"at,omitzero"` // by the store's clock; set by the store
	// Runs are whom a Stop or Revoke is for: those that lived when it was made,
	// as far as they are on record. Set by the store, but for Ended.
	Runs []string `json:"runs,omitempty"`
}

// byWhom ends a sentence with who asked, and why.
func (r Request) byWhom() string {
	var s string
	if r.By != "" {
		s += " by " + r.By
	}
	if r.Why != "" {
		s += ": " + r.Why
	}
	return s
}

// JobState is what a store knows of a job now.
type JobState struct {
	Job        string     `json:"job"`
	Definition Definition `json:"definition"`
	Since      time.Time  `json:"since"` // when the definition was first seen
	Paused     *Request   `json:"paused,omitempty"`
	Resumed    time.Time  `json:"resumed,omitzero"` // when a pause was last taken back
	Live       []Run      `json:"live,omitempty"`   // runs that have not ended, oldest first
	Last       *Run       `json:"last,omitempty"`   // the run or skip decided last
	Fence      int64      `json:"fence"`            // the highest given
	// Problem is why the store refuses to decide for the job, as a damaged
	// record; empty: it does not. What the other fields say is what can be read.
	Problem string `json:"problem,omitempty"`
}

// AsOf is the state at that time of its store: runs are as [Run.AsOf] has them, and those
// whose lease has ended are not among the live ones.
func (s JobState) AsOf(now time.Time) JobState {
	s.Live = slices.DeleteFunc(slices.Clone(s.Live), func(r Run) bool { return !r.AsOf(now).Live() })
	if s.Last != nil {
		last := s.Last.AsOf(now)
		s.Last = &last
	}
	return s
}
