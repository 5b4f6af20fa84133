package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// progress tells people how far a drain is, on standard error: as a bar on a terminal, else as a line now and then.
type progress struct {
	name     string
	stdout   io.Writer
	stderr   io.Writer
	bar      bool
	silent   bool
	readable bool // stdout is a terminal

	duplicates func() int64 // how many this drain has found; nil: they are not counted

	mu       sync.Mutex
	shown    bool // a bar stands in the last line
	warnings int
	began    time.Time
	first    rows.Counts
	latest   rows.Counts
	end      func(rows.Result, rows.Waits)
}

const (
	barEvery  = 500 * time.Millisecond
	lineEvery = 30 * time.Second
	// countShare bounds what counting takes of the database: a count is made at the earliest so many times later as the last one took.
	countShare = 20
	// maxWarnings is how many rows are named that were not sent: cron mails all that is said.
	maxWarnings = 20
)

func newProgress(o *drainOptions, stdout, stderr io.Writer) *progress {
	p := &progress{name: o.name(), stdout: stdout, stderr: stderr, readable: isTerminal(stdout), end: func(rows.Result, rows.Waits) {}}
	switch o.progress {
	case "bar":
		p.bar = true
	case "none":
		p.silent = true
	case "":
		p.bar = isTerminal(stderr)
	}
	return p
}

// begin tells from now on how far it is, until end is called.
func (p *progress) begin(ctx context.Context, d *rows.Drainer) {
	p.began = time.Now()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	p.end = func(sum rows.Result, w rows.Waits) {
		cancel()
		telling.Wait()
		p.conclude(sum, w)
	}
	if p.silent {
		return
	}
	every := lineEvery
	if p.bar {
		every = barEvery
	}
	// Beside the work: on a large table it takes its time.
	telling.Go(func() {
		for first := true; ; {
			start := time.Now()
			counts, err := d.Count(ctx)
			took := time.Since(start)
			switch {
			case err == nil && first:
				p.first, first = counts, false
			case err == nil:
				p.tell(counts)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(every, countShare*took)):
			}
		}
	})
}

// tell shows counts.
func (p *progress) tell(now rows.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = now
	if p.bar {
		p.draw()
		return
	}
	fmt.Fprintf(p.stderr, "cronce: %s: %s\n", p.name, p.line())
}

// line is how far it is, of the whole table, whoever works on it.
func (p *progress) line() string {
	c := p.latest
	text := fmt.Sprintf("%s pending, %s sending, %s sent, %s failed, %s unknown", grouped(c.Pending+c.Later), grouped(c.Sending), grouped(c.Sent-p.first.Sent),
		grouped(c.Failed+c.Dead-p.first.Failed-p.first.Dead), grouped(c.Unknown-p.first.Unknown))
	if p.duplicates != nil {
		text += ", " + counted(p.duplicates(), "duplicate")
	}
	took := time.Since(p.began).Seconds()
	rate := float64(done(c)-done(p.first)) / took
	text += fmt.Sprintf("; %.1f/s", rate)
	if left := c.Pending + c.Sending; rate > 0 && left > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// done are the rows that have come to an end.
func done(c rows.Counts) int64 { return c.Sent + c.Failed + c.Dead + c.Unknown }

// draw draws the bar in the last line of the terminal.
func (p *progress) draw() {
	const width = 20
	all := p.latest.Pending + p.latest.Sending + done(p.latest) - done(p.first)
	full := width
	if all > 0 {
		full = int(width * (done(p.latest) - done(p.first)) / all)
	}
	full = min(max(full, 0), width)
	text := "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "] " + p.line()
	fmt.Fprintf(p.stderr, "\r\x1b[K%s", text[:min(len(text), columns(p.stderr)-1)]) // what wraps could not be taken back
	p.shown = true
}

// aside writes something without the bar in its way.
func (p *progress) aside(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	write()
	if p.shown {
		p.draw()
	}
}

// say tells people something that they should know.
func (p *progress) say(format string, a ...any) {
	p.aside(func() { cli.Tell(p.stderr, p.name+": "+fmt.Sprintf(format, a...)) })
}

// warn tells of a row; after many of them only that there are more.
func (p *progress) warn(text string) {
	p.mu.Lock()
	p.warnings++
	n := p.warnings
	p.mu.Unlock()
	switch {
	case n <= maxWarnings:
		p.say("%s", text)
	case n == maxWarnings+1:
		p.say("more warnings of this kind are not shown")
	}
}

// output passes on what a row's command printed, in one piece.
func (p *progress) output(text []byte) {
	if len(text) == 0 {
		return
	}
	if p.readable {
		text = cli.Readable(text)
	}
	if p.bar && text[len(text)-1] != '\n' { // the bar would be drawn over it
		text = append(slices.Clone(text), '\n')
	}
	p.aside(func() { p.stdout.Write(text) })
}

// conclude says what the drain did, or what keeps it from doing anything. It says nothing of a table that is done: cron would mail
// each line.
func (p *progress) conclude(sum rows.Result, w rows.Waits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.stderr, "\r\x1b[K")
		p.shown = false
	}
	if p.silent {
		return
	}
	if sum == (rows.Result{Left: sum.Left}) {
		for _, line := range waitLines(sum.Left, w) {
			cli.Tell(p.stderr, p.name+": "+line)
		}
		return
	}
	took := time.Since(p.began)
	parts := []string{grouped(sum.Sent) + " sent"}
	for _, n := range []struct {
		n    int64
		what string
	}{
		{sum.Retry, "to be tried again"}, {sum.Failed, "failed"}, {sum.Dead + sum.Crashed, "dead"}, {sum.Unknown + sum.Doubtful, "unknown"},
		{sum.Unrecorded, "not on record"}, {sum.Lost, "lost to others"}, {sum.Returned, "given back"}, {sum.Reclaimed, "taken back from workers that died"},
	} {
		if n.n > 0 {
			parts = append(parts, grouped(n.n)+" "+n.what)
		}
	}
	if p.duplicates != nil && p.duplicates() > 0 {
		parts = append(parts, counted(p.duplicates(), "duplicate"))
	}
	left := ""
	if n := sum.Left.Pending + sum.Left.Later; n > 0 {
		left = fmt.Sprintf("; %s pending", grouped(n))
		if sum.Left.Pending == 0 && !w.Next.IsZero() {
			left += ", from " + cronce.Stamp(w.Next) + " on"
		}
	}
	if sum.Left.Sending > 0 {
		left += fmt.Sprintf("; %s claimed by others", grouped(sum.Left.Sending))
		if !w.FreeUntil.IsZero() {
			left += " until " + cronce.Stamp(w.FreeUntil)
		}
	}
	fmt.Fprintf(p.stderr, "cronce: %s: %s in %s (%.1f/s)%s\n", p.name, strings.Join(parts, ", "), took.Round(10*time.Millisecond), float64(sum.Sent)/took.Seconds(), left)
}

// logger is what package rows says, as people read it.
func (p *progress) logger() *slog.Logger { return slog.New(rowLog{p}) }

// rowLog writes "cronce: NAME: message (row 17, state pending): error".
type rowLog struct{ *progress }

func (l rowLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l rowLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l rowLog) WithGroup(string) slog.Handler                    { return l }

func (l rowLog) Handle(_ context.Context, r slog.Record) error {
	var parts []string
	end := ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "job", "stack":
		case "wait":
			parts = append(parts, "again in "+a.Value.String())
		case "error":
			end = ": " + strings.ReplaceAll(a.Value.String(), "\n", " ")
		default:
			parts = append(parts, a.Key+" "+a.Value.String())
		}
		return true
	})
	text := r.Message
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	l.warn(text + end)
	return nil
}
