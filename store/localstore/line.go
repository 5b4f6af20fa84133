package localstore

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// Most of what a short run costs beside its command would be encoding/json,
// which looks at every type anew in every process. So the lines are written
// and read here, by one list of fields for each type. It writes the bytes that
// encoding/json writes, and reads exactly those; everything else, as a line
// with an escaped character or one that a person has edited, is left to
// encoding/json. FuzzLine holds the two together.

// encode writes the record as a line.
func (r record) encode(b *bytes.Buffer) error {
	b.Grow(512) // few lines are longer
	l := &line{writing: true, out: b.AvailableBuffer()}
	if r.element(l); !l.foreign {
		b.Write(append(l.out, '\n'))
		return nil
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false) // people read it
	return e.Encode(r)
}

// decode reads a line, without its end. l is room for the work, and can be used again.
func (r *record) decode(l *line, text string) error {
	*r, *l = record{}, line{in: text}
	if r.element(l); !l.foreign && l.in == "" {
		return nil
	}
	*r = record{}
	return json.Unmarshal([]byte(text), r)
}

func (r *record) element(l *line) { object(l, r, (*record).fields) }

func (r *record) fields(l *line) {
	text(l, "event", &r.Event, always)
	moment(l, "at", &r.At, always)
	text(l, "id", &r.ID, ifSet)
	moment(l, "tick", &r.Tick, ifSet)
	number(l, "slot", &r.Slot, ifSet)
	number(l, "attempt", &r.Attempt, ifSet)
	number(l, "fence", &r.Fence, ifSet)
	value(l, "holder", &r.Holder, holderFields)
	text(l, "skip", &r.Skip, ifSet)
	text(l, "held", &r.Held, ifSet)
	value(l, "lock", &r.Lock, (*lockID).fields)
	value(l, "proc", &r.Proc, (*procID).fields)
	if l.key("orphans", r.Orphans) {
		r.Orphans = true
		l.expect(`true`)
	}
	pointer(l, "from", &r.From, (*procID).fields)
	text(l, "outcome", &r.Outcome, ifSet)
	number(l, "exit", &r.Exit, ifSet)
	text(l, "signal", &r.Signal, ifSet)
	text(l, "message", &r.Message, ifSet)
	number(l, "output", &r.Output, ifSet)
	number(l, "attempts", &r.Tries, ifSet)
	pointer(l, "definition", &r.Definition, definitionFields)
	text(l, "by", &r.By, ifSet)
	text(l, "why", &r.Why, ifSet)
	array(l, "runs", &r.Runs, plain)
	number(l, "format", &r.Format, ifSet)
	number(l, "segment", &r.Segment, ifSet)
	text(l, "job", &r.Job, ifSet)
	pointer(l, "snapshot", &r.Snapshot, (*snapshot).fields)
	array(l, "forgotten", &r.Forgotten, (*span).element)
	pointer(l, "seen", &r.Seen, (*changes).fields)
}

func (s *snapshot) fields(l *line) {
	value(l, "definition", &s.Definition, definitionFields)
	moment(l, "since", &s.Since, ifSet)
	number(l, "fence", &s.Fence, ifSet)
	moment(l, "success", &s.Success, ifSet)
	pointer(l, "paused", &s.Paused, requestFields)
	moment(l, "resumed", &s.Resumed, ifSet)
	array(l, "open", &s.Open, (*record).element)
	pointer(l, "last", &s.Last, runFields)
	pointer(l, "ran", &s.Ran, (*record).fields)
	array(l, "decided", &s.Decided, (*span).element)
	array(l, "forgotten", &s.Forgotten, (*span).element)
	moment(l, "until", &s.Until, ifSet)
	value(l, "seen", &s.Seen, (*changes).fields)
}

func (c *changes) fields(l *line) {
	number(l, "store", &c.Store, always)
	number(l, "jobs", &c.Jobs, always)
	number(l, "folder", &c.Folder, always)
}

func (id *lockID) fields(l *line) {
	text(l, "file", &id.File, always)
	number(l, "dev", &id.Dev, always)
	number(l, "ino", &id.Ino, always)
}

func (p *procID) fields(l *line) {
	number(l, "pid", &p.PID, always)
	number(l, "start", &p.Start, always)
	text(l, "boot", &p.Boot, always)
	text(l, "ns", &p.NS, ifSet)
}

func (s *span) element(l *line) { object(l, s, (*span).fields) }

func (s *span) fields(l *line) {
	moment(l, "from", &s.From, always)
	moment(l, "to", &s.To, always)
}

func holderFields(h *cronce.Holder, l *line) {
	text(l, "host", &h.Host, ifSet)
	number(l, "pid", &h.PID, ifSet)
	text(l, "user", &h.User, ifSet)
	text(l, "via", &h.Via, ifSet)
	if l.key("guard", h.Guard) {
		h.Guard = true
		l.expect(`true`)
	}
}

func definitionFields(d *cronce.Definition, l *line) {
	text(l, "schedule", &d.Schedule, ifSet)
	text(l, "zone", &d.Zone, ifSet)
	text(l, "policies", &d.Policies, ifSet)
}

func requestFields(r *cronce.Request, l *line) {
	text(l, "kind", &r.Kind, always)
	text(l, "job", &r.Job, always)
	value(l, "definition", &r.Definition, definitionFields)
	text(l, "by", &r.By, ifSet)
	text(l, "why", &r.Why, ifSet)
	moment(l, "at", &r.At, ifSet)
	array(l, "runs", &r.Runs, plain)
}

func runFields(r *cronce.Run, l *line) {
	text(l, "id", &r.ID, always)
	text(l, "job", &r.Job, always)
	moment(l, "tick", &r.Tick, ifSet)
	number(l, "slot", &r.Slot, ifSet)
	number(l, "attempt", &r.Attempt, ifSet)
	number(l, "fence", &r.Fence, ifSet)
	value(l, "holder", &r.Holder, holderFields)
	text(l, "skip", &r.Skip, ifSet)
	text(l, "held", &r.Held, ifSet)
	moment(l, "start", &r.Start, always)
	moment(l, "end", &r.End, ifSet)
	moment(l, "expires", &r.Expires, ifSet)
	text(l, "outcome", &r.Outcome, ifSet)
	number(l, "exit", &r.ExitCode, ifSet)
	text(l, "signal", &r.Signal, ifSet)
	text(l, "message", &r.Message, ifSet)
	number(l, "output", &r.OutputBytes, ifSet)
	number(l, "attempts", &r.Attempts, ifSet)
}

// line is a line that is being written or read.
type line struct {
	writing bool
	out     []byte // written so far
	in      string // still to be read
	foreign bool   // it is for encoding/json
	more    bool   // the object has got a field already
}

// When to write a field. To be read, it need not be there.
const (
	always = true
	ifSet  = false
)

// literal writes s, or reads it. !ok: something else is there, which is left.
func (l *line) literal(s string) (ok bool) {
	if l.writing {
		l.out = append(l.out, s...)
		return true
	}
	l.in, ok = strings.CutPrefix(l.in, s)
	return ok
}

// expect is literal where nothing else may be.
func (l *line) expect(s string) {
	if !l.literal(s) {
		l.foreign = true
	}
}

// key writes the name of a field that is set, or tells whether the field comes
// next.
func (l *line) key(name string, set bool) bool {
	if !l.writing {
		return l.reads(name)
	}
	if !set {
		return false
	}
	if l.more {
		l.out = append(l.out, ',')
	}
	l.more = true
	l.out = append(append(append(l.out, '"'), name...), `":`...)
	return true
}

// reads tells whether that field comes next, and goes on behind its name. Most
// fields of a record are not in a line: so this is quick to say no.
func (l *line) reads(name string) bool {
	at := 1
	if l.more {
		at = 2
	}
	end := at + len(name)
	if len(l.in) < end+2 || l.in[at] != name[0] || l.in[at:end] != name {
		return false
	}
	if l.in[at-1] != '"' || l.in[end] != '"' || l.in[end+1] != ':' || l.more && l.in[0] != ',' {
		return false
	}
	l.more = true
	l.in = l.in[end+2:]
	return true
}

// object writes or reads an object with those fields.
func object[T any](l *line, v *T, fields func(*T, *line)) {
	l.expect(`{`)
	l.more = false
	fields(v, l)
	l.expect(`}`)
	l.more = true // in the object around it
}

// isPlain tells whether a string stands in JSON as it is.
func isPlain(s string) bool {
	for _, c := range s {
		if c < ' ' || c == '"' || c == '\\' || c == '\u2028' || c == '\u2029' || c == '\ufffd' {
			return false
		}
	}
	return true
}

// plain writes or reads a string.
func plain[S ~string](v *S, l *line) {
	l.expect(`"`)
	if l.writing {
		l.foreign = l.foreign || !isPlain(string(*v))
		l.out = append(l.out, *v...)
	} else if n := strings.IndexByte(l.in, '"'); n >= 0 && isPlain(l.in[:n]) {
		*v, l.in = S(l.in[:n]), l.in[n:]
	} else {
		l.foreign = true
	}
	l.expect(`"`)
}

func text[S ~string](l *line, name string, v *S, when bool) {
	if l.key(name, when || *v != "") {
		plain(v, l)
	}
}

func moment(l *line, name string, v *time.Time, when bool) {
	if !l.key(name, when || !v.IsZero()) {
		return
	}
	var s string
	if l.writing {
		b, err := v.AppendText(nil)
		s, l.foreign = string(b), l.foreign || err != nil
	}
	plain(&s, l)
	if !l.writing && v.UnmarshalText([]byte(s)) != nil {
		l.foreign = true
	}
}

func number[N int | int64 | uint64](l *line, name string, v *N, when bool) {
	if !l.key(name, when || *v != 0) {
		return
	}
	switch {
	case !l.writing:
		n := 0
		for n < len(l.in) && '0' <= l.in[n] && l.in[n] <= '9' {
			n++
		}
		u, err := strconv.ParseUint(l.in[:n], 10, 64)
		*v = N(u)
		if err != nil || *v < 0 || uint64(*v) != u || n > 1 && l.in[0] == '0' {
			l.foreign = true
		}
		l.in = l.in[n:]
	case *v < 0:
		l.foreign = true
	default:
		l.out = strconv.AppendUint(l.out, uint64(*v), 10)
	}
}

// value writes or reads a struct that is left out where it is zero.
func value[T comparable](l *line, name string, v *T, fields func(*T, *line)) {
	var zero T
	if l.key(name, *v != zero) {
		object(l, v, fields)
	}
}

func pointer[T any](l *line, name string, v **T, fields func(*T, *line)) {
	if !l.key(name, *v != nil) {
		return
	}
	if !l.writing {
		*v = new(T)
	}
	object(l, *v, fields)
}

// array writes or reads a list that is left out where it is empty.
func array[T any](l *line, name string, v *[]T, element func(*T, *line)) {
	if !l.key(name, len(*v) > 0) {
		return
	}
	l.expect(`[`)
	if l.writing {
		for i := range *v {
			if i > 0 {
				l.expect(`,`)
			}
			element(&(*v)[i], l)
		}
	} else {
		for again := true; again && !l.foreign; again = l.literal(`,`) {
			var e T
			element(&e, l)
			*v = append(*v, e)
		}
	}
	l.expect(`]`)
}
