package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/schedule"
)

// Doing is what a job does now.
func Doing(s cronce.JobState, now time.Time) string {
	var text string
	switch {
	case s.Problem != "":
		return "refused: " + s.Problem
	case len(s.Live) == 1 && s.Live[0].ID == "":
		r := s.Live[0]
		text = fmt.Sprintf("held by pid %d on %s, a run that is not on record", r.Holder.PID, r.Holder.Host)
	case len(s.Live) == 1:
		r := s.Live[0]
		text = fmt.Sprintf("running for %s (pid %d on %s)", Brief(now.Sub(r.Start)), r.Holder.PID, r.Holder.Host)
		if r.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", r.Attempt)
		}
	case len(s.Live) > 1:
		text = fmt.Sprintf("%d running, the oldest for %s", len(s.Live), Brief(now.Sub(s.Live[0].Start)))
	case s.Paused == nil:
		return "idle"
	}
	if s.Paused == nil {
		return text
	}
	if text != "" {
		text += "; "
	}
	return text + "paused " + PausedBy(*s.Paused)
}

// PausedBy says by whom a job was paused, when and why.
func PausedBy(r cronce.Request) string {
	text := "since " + cronce.Stamp(r.At)
	if r.By != "" {
		text = "by " + r.By + " " + text
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	return string(Readable([]byte(text)))
}

// Last is what was decided last.
func Last(s cronce.JobState, now time.Time) string {
	if s.Last == nil {
		return "-"
	}
	r := *s.Last
	text := Outcome(r) + " " + cronce.Stamp(r.Start)
	if r.Skip != "" {
		text += " (" + string(r.Skip) + ")"
	} else if !r.Live() && r.Outcome != cronce.Lost {
		text += " in " + Took(r, now)
	}
	if r.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	return text
}

// NextTick is when the job is due next, as far as its definition tells.
func NextTick(s cronce.JobState, now time.Time) string {
	if s.Definition.Schedule == "" {
		return "-"
	}
	job, err := JobOf(s.Job, cronce.Definition{Schedule: s.Definition.Schedule, Zone: s.Definition.Zone})
	if err != nil {
		return "unknown: " + err.Error()
	}
	parsed, err := job.Parse()
	if err != nil {
		return "unknown: " + err.Error()
	}
	return cronce.Stamp(parsed.Next(now))
}

// JobOf is the job that a definition in a store speaks of.
func JobOf(name string, d cronce.Definition) (cronce.Job, error) {
	job := cronce.Job{Name: name, Schedule: d.Schedule, Zone: d.Zone, Seconds: schedule.ByCount}
	for _, policy := range strings.Fields(d.Policies) {
		key, value, _ := strings.Cut(policy, "=")
		if err := job.Set(key, value); err != nil {
			return job, fmt.Errorf("job %q is defined by a program that knows more settings: %w", name, err)
		}
	}
	return job, nil
}

// Outcome is how a run ended, in a word.
func Outcome(r cronce.Run) string {
	switch {
	case r.Skip != "":
		return "skipped"
	case r.Live():
		return "running"
	}
	return string(r.Outcome)
}

// LeftBehind is what begins the words on a run that was not started because of what an earlier
// one has left; host and processes follow.
const LeftBehind = "an earlier run has left on "

// Took is how long a run went on, or has so far.
func Took(r cronce.Run, now time.Time) string {
	switch {
	case r.Skip != "" || r.Outcome == cronce.Lost:
		return "-"
	case r.Live():
		return Brief(now.Sub(r.Start))
	}
	return Brief(r.End.Sub(r.Start))
}

// Note is what else there is to say of a run. held is the run that its job was held by, nil
// where there is none or it is not known.
func Note(r cronce.Run, held *cronce.Run) string {
	if r.Attempt > 1 {
		return strings.TrimSuffix(fmt.Sprintf("attempt %d; %s", r.Attempt, remark(r, held)), "; ")
	}
	return remark(r, held)
}

func remark(r cronce.Run, held *cronce.Run) string {
	switch {
	case r.Held != "" && held != nil:
		return fmt.Sprintf("%s: run %s held it (pid %d on %s, since %s)", r.Skip, r.Held, held.Holder.PID, held.Holder.Host, cronce.Stamp(held.Start))
	case r.Held != "":
		return fmt.Sprintf("%s: run %s held it", r.Skip, r.Held)
	case r.Skip == cronce.SkipLate:
		return fmt.Sprintf("late: offered %s after its tick", Brief(r.Start.Sub(r.Tick)))
	case r.Skip != "":
		return string(r.Skip)
	case r.Outcome == cronce.Lost && r.Message == "":
		return "nobody is left who could say how it ended"
	}
	note := strings.Join(strings.Fields(string(Readable([]byte(r.Message)))), " ")
	if r.Attempts > 1 {
		what, more, found := strings.Cut(note, "; ")
		note = strings.TrimSpace(fmt.Sprintf("%s after %d attempts", what, r.Attempts))
		if found {
			note += "; " + more
		}
	}
	if late := r.Start.Sub(r.Tick); !r.Tick.IsZero() && late >= worthNoting {
		note = strings.TrimSuffix(fmt.Sprintf("started %s after its tick; %s", Brief(late), note), "; ")
	}
	return note
}

// worthNoting is how late a start must be for people to be told.
const worthNoting = time.Second

// Brief writes a duration with three digits or so.
func Brief(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// WriteJSON writes one object a line.
func WriteJSON[T any](w io.Writer, list []T) error {
	enc := json.NewEncoder(w)
	for _, x := range list {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}
