package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cronce/cronce"
)

// record is a run as the store has it: a JSON object, which a claim completes,
// and what its end adds to it. Times are microseconds since 1970, the tick seconds.
type record struct {
	ID      string            `json:"id"`
	Job     string            `json:"job"`
	Tick    int64             `json:"tick,omitempty"`
	Attempt int               `json:"attempt"`
	Holder  cronce.Holder     `json:"holder"`
	Slot    int               `json:"slot,omitempty"`
	Fence   int64             `json:"fence,omitempty"`
	Held    string            `json:"held,omitempty"`
	Skip    cronce.SkipReason `json:"skip,omitempty"`
	Start   int64             `json:"start,omitempty"`
	cronce.Result
	End     int64 `json:"end,omitempty"`
	Expires int64 `json:"expires,omitempty"` // as a read adds it to one that lives
}

// headOf is the record of a claim as far as it is known beforehand, without
// its last brace. It is written by hand, as each claim has one.
func headOf(c cronce.Claim) string {
	b := make([]byte, 0, 320)
	b = append(b, `{"id":"`...) // of letters, digits and hyphens
	b = append(b, c.RunID...)
	b = append(b, `","job":`...)
	b = append(b, text(c.Job)...)
	if !c.Tick.IsZero() {
		b = append(b, `,"tick":`...)
		b = strconv.AppendInt(b, c.Tick.Unix(), 10)
	}
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(c.Attempt), 10)
	b = append(b, ',')
	return string(append(b, holderOf(c.Holder)...))
}

// encode is the whole record of a run that lives.
func encode(run cronce.Run) string {
	r := record{ID: run.ID, Job: run.Job, Attempt: run.Attempt, Holder: run.Holder, Slot: run.Slot, Fence: run.Fence}
	if !run.Tick.IsZero() {
		r.Tick = run.Tick.Unix()
	}
	if !run.Start.IsZero() {
		r.Start = run.Start.UnixMicro()
	}
	return text(r)
}

// holderOf is the holder's part of a record.
func holderOf(h cronce.Holder) string {
	if last := lastHolder.Load(); last != nil && last.Holder == h {
		return last.text
	}
	s := `"holder":` + text(h)
	lastHolder.Store(&heldText{h, s})
	return s
}

// lastHolder is remembered: a process is mostly the same one.
var lastHolder atomic.Pointer[heldText]

type heldText struct {
	cronce.Holder
	text string
}

// tailOf is a result's part of a record.
func tailOf(r cronce.Result) string {
	r.Message = beginning(r.Message)
	t := text(r)
	return t[1 : len(t)-1]
}

// beginning is the beginning of a long text, at most keepMessage bytes of it.
func beginning(s string) string {
	if len(s) <= keepMessage {
		return s
	}
	end := keepMessage - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// text is JSON of what can always be written as such.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func decode(text string) (cronce.Run, error) {
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return cronce.Run{}, err
	}
	run := cronce.Run{ID: r.ID, Job: r.Job, Slot: r.Slot, Attempt: r.Attempt, Fence: r.Fence, Holder: r.Holder, Skip: r.Skip, Held: r.Held, Result: r.Result}
	if r.Tick != 0 {
		run.Tick = time.Unix(r.Tick, 0).UTC()
	}
	if r.Start != 0 {
		run.Start = time.UnixMicro(r.Start).UTC()
	}
	if r.End != 0 {
		run.End = time.UnixMicro(r.End).UTC()
	}
	if r.Expires != 0 {
		run.Expires = time.UnixMicro(r.Expires).UTC()
	}
	return run, nil
}

// decodeRequest reads a request, whose time the scripts write as all others.
func decodeRequest(text string) (cronce.Request, error) {
	var r struct {
		cronce.Request
		At int64 `json:"at"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r.Request, fmt.Errorf("request %s: %w", strings.ToValidUTF8(text, "?"), err)
	}
	r.Request.At = time.UnixMicro(r.At).UTC()
	return r.Request, nil
}
