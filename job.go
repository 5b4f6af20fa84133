package cronce

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cronce/cronce/schedule"
)

// MaxNameBytes is the longest job name, in bytes of UTF-8.
const MaxNameBytes = 200

// Job is a named piece of work: when it is due and how its runs are governed.
// The zero value of every policy is its default.
type Job struct {
	Name     string // unique in its store; UTF-8, at most MaxNameBytes
	Schedule string // as schedule.Parse reads it; empty: only run by hand
	Zone     string // IANA name; empty: the host's zone (see LocalZone)
	Seconds  schedule.Seconds

	Overlap       Overlap       // what to do when a run is still going
	Timeout       time.Duration // a run is stopped after this; 0: never
	Grace         time.Duration // between TERM and KILL; 0: DefaultGrace
	Orphans       Orphans       // what to do with processes that a run leaves behind
	Retries       int           // how often a run that failed is tried again, under the same lease
	RetryDelay    time.Duration // before each; 0: DefaultRetryDelay
	WarnAt        time.Duration // a run that goes on for longer is worth a warning; 0: half the interval
	Catchup       Catchup       // what to do with ticks that passed while no program was there to offer them
	CatchupWindow time.Duration // how far back; 0: the interval, at most an hour
	Jitter        time.Duration // a tick is offered up to this much later, by a hash of job and tick
	StartDeadline time.Duration // an older tick is skipped as late; 0: half the interval, at most an hour
	OnLost        OnLost        // what to do with a tick whose run was lost
	Idempotent    bool          // to run a tick twice does no harm
	Lease         time.Duration // on a store whose leases expire, for how long one is given; 0: DefaultTTL
}

// DefaultGrace is the time between the request to stop and the kill.
const DefaultGrace = 10 * time.Second

// DefaultRetryDelay is the time between a failure and the next attempt.
const DefaultRetryDelay = 10 * time.Second

// CheckName says what is wrong with a job's name, if anything: it must be
// valid UTF-8 of 1 to MaxNameBytes bytes, without control characters and
// without space at either end.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a job needs a name")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("job name of %d bytes: at most %d are allowed", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("job name %q is not valid UTF-8", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("job name %q begins or ends with space", name)
	}
	for _, r := range name {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return fmt.Errorf("job name %q has the control character %U", name, r)
		}
	}
	return nil
}

// Check says which setting of the job does not go with the others, if any: the
// error is a *SettingError.
func (j Job) Check() error {
	if j.OnLost == OnLostRerun && !j.Idempotent {
		return &SettingError{Key: "on-lost", Value: j.OnLost.String(),
			Err: errors.New("it needs idempotent=yes: a run that was lost may have done its work, all or in part, and is then run again")}
	}
	return nil
}

// Parse checks the job and returns its schedule in its zone.
// A job without a schedule is an error here.
func (j Job) Parse() (*schedule.Schedule, error) {
	if err := CheckName(j.Name); err != nil {
		return nil, err
	}
	if err := j.Check(); err != nil {
		return nil, fmt.Errorf("job %q: %w", j.Name, err)
	}
	if j.Schedule == "" {
		return nil, fmt.Errorf("job %q has no schedule", j.Name)
	}
	zone, err := LoadZone(j.Zone)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", j.Name, err)
	}
	s, err := schedule.Parse(j.Schedule, schedule.Options{Zone: zone, Name: j.Name, Seconds: j.Seconds})
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", j.Name, err)
	}
	return s, nil
}

// Definition is what two programs must agree on to share a job's ticks.
// Its parts are canonical text; two definitions are the same when ==.
type Definition struct {
	Schedule string `json:"schedule,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Policies string `json:"policies,omitempty"` // "key=value …" of every policy that is not the default
}

// String shows the definition on one line.
func (d Definition) String() string {
	s := d.Schedule
	if s == "" {
		s = "no schedule"
	}
	if d.Zone != "" {
		s += " in " + d.Zone
	}
	if d.Policies != "" {
		s += " with " + d.Policies
	}
	return s
}

// Definition returns the job's definition. The job must be valid.
func (j Job) Definition() Definition {
	d := Definition{Schedule: strings.Join(strings.Fields(j.Schedule), " "), Zone: j.Zone}
	if d.Zone == "" && d.Schedule != "" {
		d.Zone = LocalZone()
	}
	var b strings.Builder
	for _, s := range settings {
		if !s.policy {
			continue
		}
		if v := s.get(j); v != "" {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(s.Key + "=" + v)
		}
	}
	d.Policies = b.String()
	return d
}

// ForOneRun returns the definition without the settings that only what stays running can follow.
// A program that runs a job once, for a tick, agrees with one that serves it where these are
// the same of both.
func (d Definition) ForOneRun() Definition {
	words := strings.Fields(d.Policies)
	for _, s := range settings {
		if s.Serve {
			words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, s.Key+"=") })
		}
	}
	d.Policies = strings.Join(words, " ")
	return d
}

// Deadline is how old that tick of the job may be when it is offered: the job's
// own StartDeadline, or half the interval that the tick begins, at most an hour.
func (j Job) Deadline(s *schedule.Schedule, tick time.Time) time.Duration {
	if j.StartDeadline > 0 {
		return j.StartDeadline
	}
	// Exactly at a tick the interval is from the one before to the one after.
	return min(s.Interval(tick.Add(time.Nanosecond))/2, time.Hour)
}

// Warning is how long a run of that tick may go on before that is worth a
// warning: the job's own WarnAt, or half the interval that the tick begins.
func (j Job) Warning(s *schedule.Schedule, tick time.Time) time.Duration {
	if j.WarnAt > 0 {
		return j.WarnAt
	}
	return s.Interval(tick.Add(time.Nanosecond)) / 2
}

// Overlap is the policy for a tick that is due while a run of its job lives.
// The zero value is skip.
type Overlap struct {
	Policy OverlapPolicy
	Wait   time.Duration // with OverlapWait and OverlapReplace: how long at most
}

// OverlapPolicy names what to do with the tick.
type OverlapPolicy int

const (
	OverlapSkip    OverlapPolicy = iota // decide the tick as skipped, with the holder on record
	OverlapWait                         // wait for the holder, then run; skip when the wait runs out
	OverlapReplace                      // ask the holder to stop, then as OverlapWait
	OverlapAllow                        // run beside it, without a fence
)

// DefaultReplaceWait is how long overlap=replace waits for the run that it
// asked to stop.
const DefaultReplaceWait = time.Minute

// ParseOverlap reads skip, wait=DURATION, replace, replace=DURATION or allow.
func ParseOverlap(text string) (Overlap, error) {
	policy, wait, timed := strings.Cut(text, "=")
	var o Overlap
	switch policy {
	case "skip":
		o.Policy = OverlapSkip
	case "wait":
		o.Policy = OverlapWait
		if !timed {
			return o, errors.New("wait needs a duration, as in wait=5m")
		}
	case "replace":
		o.Policy, o.Wait = OverlapReplace, DefaultReplaceWait
	case "allow":
		o.Policy = OverlapAllow
	default:
		return o, fmt.Errorf("%q is none of skip, wait=DURATION, replace, allow", text)
	}
	if !timed {
		return o, nil
	}
	if o.Policy == OverlapSkip || o.Policy == OverlapAllow {
		return o, fmt.Errorf("%s takes no duration", policy)
	}
	d, err := parsePositive(wait)
	o.Wait = d
	return o, err
}

// String is the text that ParseOverlap reads.
func (o Overlap) String() string {
	switch o.Policy {
	case OverlapWait:
		return "wait=" + shortDuration(o.Wait)
	case OverlapReplace:
		if o.Wait == DefaultReplaceWait {
			return "replace"
		}
		return "replace=" + shortDuration(o.Wait)
	case OverlapAllow:
		return "allow"
	}
	return "skip"
}

// Orphans is the policy for processes that are left when a run's command has
// ended. The zero value is OrphansWait.
type Orphans int

const (
	OrphansWait  Orphans = iota // the run ends with the last of them
	OrphansKill                 // they are ended
	OrphansLeave                // they are no part of the run
)

var orphansNames = [...]string{"wait", "kill", "leave"}

// ParseOrphans reads wait, kill or leave.
func ParseOrphans(text string) (Orphans, error) {
	if i := slices.Index(orphansNames[:], text); i >= 0 {
		return Orphans(i), nil
	}
	return 0, fmt.Errorf("%q is none of wait, kill, leave", text)
}

// String is the text that ParseOrphans reads.
func (o Orphans) String() string { return orphansNames[o] }

// Catchup is the policy for ticks that passed unoffered. The zero value is
// CatchupLast. A run by hand, and a one-shot `run`, have none.
type Catchup int

const (
	CatchupLast Catchup = iota // offer the last one
	CatchupSkip                // offer none
	CatchupAll                 // offer them in order, the newest MaxCatchup at most
)

// MaxCatchup is how many ticks CatchupAll offers at most.
const MaxCatchup = 100

var catchupNames = [...]string{"last", "skip", "all"}

// ParseCatchup reads last, skip or all.
func ParseCatchup(text string) (Catchup, error) {
	if i := slices.Index(catchupNames[:], text); i >= 0 {
		return Catchup(i), nil
	}
	return 0, fmt.Errorf("%q is none of skip, last, all", text)
}

// String is the text that ParseCatchup reads.
func (c Catchup) String() string { return catchupNames[c] }

// OnLost is the policy for a tick whose run was lost: its lease ended with no word
// from it. The zero value is OnLostSkip.
type OnLost int

const (
	OnLostSkip  OnLost = iota // the tick keeps its lost run
	OnLostRerun               // a Scheduler runs it once more, unless a later tick was decided; needs Idempotent
)

var onLostNames = [...]string{"skip", "rerun"}

// ParseOnLost reads skip or rerun.
func ParseOnLost(text string) (OnLost, error) {
	if i := slices.Index(onLostNames[:], text); i >= 0 {
		return OnLost(i), nil
	}
	return 0, fmt.Errorf("%q is neither skip nor rerun", text)
}

// String is the text that ParseOnLost reads.
func (o OnLost) String() string { return onLostNames[o] }

// window is how far back ticks are caught up at that time.
func (j Job) window(s *schedule.Schedule, now time.Time) time.Duration {
	if j.CatchupWindow > 0 {
		return j.CatchupWindow
	}
	return min(s.Interval(now), time.Hour)
}

// delay is the job's jitter for that tick: the same on every host.
func (j Job) delay(tick time.Time) time.Duration {
	if j.Jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s|%d", j.Name, tick.Unix())
	return time.Duration(h.Sum64() % uint64(j.Jitter)).Truncate(time.Millisecond)
}
