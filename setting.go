package cronce

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce/schedule"
)

// Setting is one property of a job that people can set. The same key is a
// directive in a crontab, a flag and a key in a file; all are read by
// [Job.Set].
type Setting struct {
	Key   string
	Value string // what a value looks like, for help texts
	Help  string
	Serve bool // only what stays running can follow it: not for a one-shot `run`

	policy bool // part of the job's definition
	set    func(*Job, string) error
	get    func(Job) string // "" for the default
}

// settings is the one table of keys, in the order that help shows.
var settings = []Setting{
	{Key: "name", Value: "NAME", Help: "the job's name; a crontab line without one is named by its command",
		set: func(j *Job, v string) error { j.Name = v; return CheckName(v) },
		get: func(j Job) string { return j.Name }},
	{Key: "zone", Value: "ZONE", Help: "the time zone of the schedule, as Europe/Paris (default: the host's)",
		set: func(j *Job, v string) error {
			if v == "" {
				return fmt.Errorf("a zone's name is expected, as Europe/Paris or UTC")
			}
			j.Zone = v
			_, err := LoadZone(v)
			return err
		},
		get: func(j Job) string { return j.Zone }},
	{Key: "seconds", Value: "yes|no", Help: "whether a sixth field, in front, gives the seconds",
		set: func(j *Job, v string) error {
			yes, err := parseYes(v)
			switch {
			case err != nil:
				return err
			case yes:
				j.Seconds = schedule.Always
			default:
				j.Seconds = schedule.Never
			}
			return nil
		},
		get: func(j Job) string {
			switch j.Seconds {
			case schedule.Always:
				return "yes"
			case schedule.Never:
				return "no"
			}
			return ""
		}},
	{Key: "overlap", Value: "skip|wait=DURATION|replace[=DURATION]|allow", policy: true,
		Help: "what to do when a run is still going (default skip)",
		set:  func(j *Job, v string) (err error) { j.Overlap, err = ParseOverlap(v); return err },
		get: func(j Job) string {
			if j.Overlap == (Overlap{}) {
				return ""
			}
			return j.Overlap.String()
		}},
	{Key: "orphans", Value: "wait|kill|leave", policy: true,
		Help: "what to do with processes that a run leaves behind: the run ends with the last of them, they are ended, or they do not count (default wait)",
		set:  func(j *Job, v string) (err error) { j.Orphans, err = ParseOrphans(v); return err },
		get: func(j Job) string {
			if j.Orphans == OrphansWait {
				return ""
			}
			return j.Orphans.String()
		}},
	duration("timeout", "stop a run that takes longer (default: never)",
		func(j *Job) *time.Duration { return &j.Timeout }),
	duration("grace", "the time between the request to stop and the kill (default 10s)",
		func(j *Job) *time.Duration { return &j.Grace }),
	{Key: "retries", Value: "N", policy: true, Help: "how often a run that failed is tried again, for the same tick (default 0)",
		set: func(j *Job, v string) (err error) { j.Retries, err = parseCount(v); return err },
		get: func(j Job) string {
			if j.Retries == 0 {
				return ""
			}
			return strconv.Itoa(j.Retries)
		}},
	duration("retry-delay", "the time before each of these attempts (default 10s)",
		func(j *Job) *time.Duration { return &j.RetryDelay }),
	duration("warn-at", "say so when a run goes on for longer (default: half the interval)",
		func(j *Job) *time.Duration { return &j.WarnAt }),
	{Key: "catchup", Value: "skip|last|all", policy: true, Serve: true,
		Help: "which of the ticks that passed while no serve ran are offered at its start (default last)",
		set:  func(j *Job, v string) (err error) { j.Catchup, err = ParseCatchup(v); return err },
		get: func(j Job) string {
			if j.Catchup == CatchupLast {
				return ""
			}
			return j.Catchup.String()
		}},
	whileServing(duration("catchup-window", "how far back they are (default: the interval, at most 1h)",
		func(j *Job) *time.Duration { return &j.CatchupWindow })),
	whileServing(duration("jitter", "offer a tick up to this much later, by a hash of job and tick",
		func(j *Job) *time.Duration { return &j.Jitter })),
	duration("start-deadline", "skip a tick that is offered later than this (default: half the interval, at most 1h)",
		func(j *Job) *time.Duration { return &j.StartDeadline }),
	{Key: "on-lost", Value: "skip|rerun", policy: true, Serve: true,
		Help: "what to do with a tick whose run was lost, as its host died: it is left, or serve runs it once more unless a later tick was decided, which needs idempotent=yes (default skip)",
		set:  func(j *Job, v string) (err error) { j.OnLost, err = ParseOnLost(v); return err },
		get: func(j Job) string {
			if j.OnLost == OnLostSkip {
				return ""
			}
			return j.OnLost.String()
		}},
	{Key: "idempotent", Value: "yes|no", policy: true, Serve: true, Help: "whether it does no harm to run a tick twice, or half and then again (default no)",
		set: func(j *Job, v string) (err error) { j.Idempotent, err = parseYes(v); return err },
		get: func(j Job) string {
			if !j.Idempotent {
				return ""
			}
			return "yes"
		}},
	lease(duration("lease", "on a store that hosts share, how long after the last word from its host the job is free for others: 5s to 1m (default 15s)",
		func(j *Job) *time.Duration { return &j.Lease })),
}

// lease is a duration within the bounds of leases.
func lease(s Setting) Setting {
	set := s.set
	s.set = func(j *Job, v string) error {
		var k Job
		if err := set(&k, v); err != nil {
			return err
		}
		if k.Lease < MinTTL || k.Lease > MaxTTL {
			return fmt.Errorf("%s to %s are allowed", shortDuration(MinTTL), shortDuration(MaxTTL))
		}
		j.Lease = k.Lease
		return nil
	}
	return s
}

// duration is a policy that holds a positive duration; zero is its default.
func duration(key, help string, field func(*Job) *time.Duration) Setting {
	return Setting{Key: key, Value: "DURATION", Help: help, policy: true,
		set: func(j *Job, v string) (err error) { *field(j), err = parsePositive(v); return err },
		get: func(j Job) string {
			if d := *field(&j); d != 0 {
				return shortDuration(d)
			}
			return ""
		}}
}

func whileServing(s Setting) Setting { s.Serve = true; return s }

// Settings lists every key that [Job.Set] knows, in the order to show them.
func Settings() []Setting { return append([]Setting(nil), settings...) }

// SettingError is a key that does not exist or a value that does not fit.
type SettingError struct {
	Key, Value string
	Unknown    bool // the key does not exist
	Err        error
}

func (e *SettingError) Error() string {
	if e.Unknown {
		keys := make([]string, len(settings))
		for i, s := range settings {
			keys[i] = s.Key
		}
		return fmt.Sprintf("unknown setting %q: the settings are %s", e.Key, strings.Join(keys, ", "))
	}
	value := e.Value
	if quoted := strconv.Quote(value); quoted[1:len(quoted)-1] != value {
		value = quoted // with what would disturb a terminal
	}
	return fmt.Sprintf("%s=%s: %v", e.Key, value, e.Err)
}

func (e *SettingError) Unwrap() error { return e.Err }

// Set sets one property from its text. The error is a *SettingError.
func (j *Job) Set(key, value string) error {
	for _, s := range settings {
		if s.Key == key {
			if err := s.set(j, value); err != nil {
				return &SettingError{Key: key, Value: value, Err: err}
			}
			return nil
		}
	}
	return &SettingError{Key: key, Value: value, Unknown: true}
}

// MaxRetries bounds what a slip of the finger can do.
const MaxRetries = 1000

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > MaxRetries {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", text, MaxRetries)
	}
	return n, nil
}

func parseYes(text string) (bool, error) {
	if text != "yes" && text != "no" {
		return false, fmt.Errorf("%q is neither yes nor no", text)
	}
	return text == "yes", nil
}

func parsePositive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration, as 90s, 5m or 1h30m", text)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q: a duration above zero is needed", text)
	}
	return d, nil
}

// shortDuration writes 5m for 5m0s and 1h for 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
