package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// lines writes what happens, a line each, for people to read. Whoever reads
// them may stop to (a pager, a stuck log collector): that must neither hold up
// a decision nor a run, so lines are queued, and dropped where the queue is full.
type lines struct {
	json    bool // for programs: an object each
	queue   chan string
	closing chan struct{}
	written chan struct{} // closed when all is written after closing
	stuck   atomic.Bool   // the queue was full for longer than patience
	dropped atomic.Int64

	mu   sync.Mutex
	live map[string]cronce.Run // runs that go on, by id
}

const (
	queueLines = 4096
	patience   = 2 * time.Second // of a job's output with a full queue, and of serve's end
)

func newLines(w io.Writer, json bool) *lines {
	l := &lines{json: json, queue: make(chan string, queueLines), closing: make(chan struct{}), written: make(chan struct{})}
	go func() {
		defer close(l.written)
		for {
			select {
			case line := <-l.queue:
				l.write(w, line)
				continue
			case <-l.closing:
			}
			for {
				select {
				case line := <-l.queue:
					l.write(w, line)
				default:
					return
				}
			}
		}
	}()
	return l
}

func (l *lines) write(w io.Writer, line string) {
	io.WriteString(w, line)
	l.stuck.Store(false)
	if n := l.dropped.Swap(0); n > 0 {
		io.WriteString(w, l.line("", "serve", fmt.Sprintf("DROPPED    %d lines that nobody read in time", n)))
	}
}

// close writes what is queued, if somebody reads it.
func (l *lines) close() {
	close(l.closing)
	select {
	case <-l.written:
	case <-time.After(patience):
	}
}

// line is what is written for a text about a job: under serve --system, of that user.
func (l *lines) line(user, job, text string) string {
	if l.json {
		return jsonLine(time.Now(), user, job, text)
	}
	if user != "" {
		job = user + "  " + job
	}
	return fmt.Sprintf("%s  %s  %s\n", cronce.Stamp(time.Now()), job, text)
}

// say writes one line about a job, now. It never waits.
func (l *lines) say(job, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	select {
	case l.queue <- l.line("", job, string(cli.Readable([]byte(text)))):
	default:
		l.dropped.Add(1)
	}
}

// print writes a line of a job's output. It waits a little for its reader, as
// a pipe does, but not for one that is stuck.
func (l *lines) print(job string, text []byte) {
	l.pass("", job, "| "+string(cli.Readable(text)))
}

// pass writes a line as print does, of that user's job.
func (l *lines) pass(user, job, text string) {
	s := l.line(user, job, text)
	select {
	case l.queue <- s:
		return
	default:
	}
	if !l.stuck.Load() {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case l.queue <- s:
			return
		case <-timer.C:
			l.stuck.Store(true)
		}
	}
	l.dropped.Add(1)
}

// running names the runs that go on, for a person who waits for them.
func (l *lines) running() string {
	var names []string
	for _, r := range l.live {
		names = append(names, fmt.Sprintf("%s (since %s)", r.Job, cronce.Stamp(r.Start)))
	}
	if len(names) == 0 {
		return "nothing"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// busy reports whether a run goes on.
func (l *lines) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.live) > 0
}

// track keeps the list of runs that go on.
func (l *lines) track(e cronce.Event) {
	if e.Kind == cronce.EventStarted {
		if l.live == nil {
			l.live = map[string]cronce.Run{}
		}
		l.live[e.Run.ID] = e.Run
	} else if e.Kind == cronce.EventEnded {
		delete(l.live, e.Run.ID)
	}
}

// report writes a line for an event of a scheduler.
func (l *lines) report(e cronce.Event) {
	l.mu.Lock() // so that the lines agree with the list of what goes on
	defer l.mu.Unlock()
	l.track(e)
	switch e.Kind {
	case cronce.EventStarted:
		text := fmt.Sprintf("started    tick %s  run %s", cronce.Stamp(e.Tick), e.Run.ID)
		if e.Run.Attempt > 1 {
			text += fmt.Sprintf("  attempt %d, as the run before was lost", e.Run.Attempt)
		}
		if late := e.Run.Start.Sub(e.Tick); late >= time.Second {
			text += fmt.Sprintf("  %s late", late.Round(time.Millisecond))
		}
		l.say(e.Job, "%s", text)
	case cronce.EventEnded:
		text := fmt.Sprintf("%-9s  after %s", e.Run.Outcome, e.Run.End.Sub(e.Run.Start).Round(time.Millisecond))
		if e.Run.Message != "" {
			text += ": " + e.Run.Message
		}
		l.say(e.Job, "%s", text)
		switch {
		case e.Err == nil:
		case errors.Is(e.Err, context.DeadlineExceeded): // it may have arrived
			l.say(e.Job, "PROBLEM    the end of run %s may not be on record: %v", e.Run.ID, e.Err)
		default:
			l.say(e.Job, "PROBLEM    the end of run %s is not on record: %v", e.Run.ID, e.Err)
		}
	case cronce.EventSkipped:
		var skip *cronce.SkippedError
		errors.As(e.Err, &skip)
		l.say(e.Job, "skipped    tick %s  %s", cronce.Stamp(e.Tick), skip.Why())
	case cronce.EventLive:
		if _, ours := l.live[e.Run.ID]; ours {
			return
		}
		l.say(e.Job, "goes on    tick %s  run %s, pid %d on %s by %s, since %s",
			cronce.Stamp(e.Tick), e.Run.ID, e.Run.Holder.PID, e.Run.Holder.Host, e.Run.Holder.Via, cronce.Stamp(e.Run.Start))
	case cronce.EventLeft:
		l.say(e.Job, "left       tick %s  not decided before the end: another serve may", cronce.Stamp(e.Tick))
	case cronce.EventDraining:
		l.say("serve", "no more runs are started; waiting for those that go on (again: they are ended): %s", l.running())
	case cronce.EventMissed:
		l.say(e.Job, "MISSED     ticks %s to %s passed while this process did not run", cronce.Stamp(e.Tick), cronce.Stamp(e.Until))
	case cronce.EventAway:
		l.say("serve", "AWAY       the store cannot be reached: nothing is started; what runs may go on until its lease ends: %v", e.Err)
	case cronce.EventBack:
		l.say("serve", "back       the store can be reached again")
	case cronce.EventSkew:
		if e.Err == nil {
			l.say("serve", "in time    this host's clock agrees with the store's again")
			return
		}
		l.say("serve", "PROBLEM    %v", e.Err)
	case cronce.EventConflict:
		l.say(e.Job, "NOT SERVED %v; it is served again when the store has this program's", e.Err)
	case cronce.EventAgreed:
		l.say(e.Job, "served     the store has this program's definition again")
	case cronce.EventRefused:
		if e.Tick.IsZero() {
			l.say(e.Job, "PROBLEM    %v", e.Err)
			return
		}
		l.say(e.Job, "NOT RUN    tick %s: %v", cronce.Stamp(e.Tick), e.Err)
	}
}

// maxOutputLine is where a line of output that never ends is cut in two.
const maxOutputLine = 8 << 10

// output writes what a job's command prints, line by line.
type output struct {
	lines *lines
	job   string
	part  []byte // a line that has not ended yet
}

func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		whole := end >= 0
		if !whole {
			end = len(p)
		}
		o.part = append(o.part, p[:end]...)
		p = p[min(end+1, len(p)):]
		for len(o.part) > maxOutputLine {
			o.lines.print(o.job, o.part[:maxOutputLine])
			o.part = append(o.part[:0], o.part[maxOutputLine:]...)
		}
		if whole {
			o.flush()
		}
	}
	return n, nil
}

// flush writes the line as far as it has come.
func (o *output) flush() {
	o.lines.print(o.job, bytes.TrimSuffix(o.part, []byte("\r")))
	o.part = o.part[:0]
}

// end writes what is left when the command has ended.
func (o *output) end() {
	if len(o.part) > 0 {
		o.flush()
	}
}
