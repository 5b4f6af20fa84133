package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/schedule"
)

const (
	noticesHour   = 2 * time.Second
	noticesRows   = 6 // that come in each hour
	noticesFast   = 20 * time.Millisecond
	noticesSlow   = 800 * time.Millisecond
	noticesCopies = 3  // at once, until which the outside stays slow
	noticesSkips  = 2  // on record, until which it does too
	noticesMost   = 15 // hours to look at
)

// notices is the night of three notices.
type notices struct {
	*stage
	thin          string // the file of cronce
	without, with *notifier
	slow          bool
	slowSince     int // the hour; 0: not yet
}

// notifier is a table of rows that are to be sent outside, and the batches
// that work on it.
type notifier struct {
	name  string
	rows  []*notice
	hours []*batch // all that cron has started, by hour
	most  int      // copies at work at once
}

type notice struct {
	sent  bool // as the table says
	sends int  // as the outside counts
}

// batch is what cron started in one hour.
type batch struct {
	*actor
	read   bool // it has read the pending rows
	rows   int  // how many those were
	copies int  // at work then
	atWork bool
	report // of cronce run
}

// report is the part of what --status-file tells that is of interest here.
type report struct {
	Decision string      `json:"decision"`
	Run      *cronce.Run `json:"run"`
}

func demoNotices(s *stage) error {
	thin, err := openThin()
	if err != nil {
		return err
	}
	defer thin.file.Close()
	n := &notices{stage: s, thin: thin.file.Name(), without: &notifier{name: "without"}, with: &notifier{name: "with"}}
	s.mux.HandleFunc("GET /{side}/{hour}/pending", n.handle(n.pending))
	s.mux.HandleFunc("POST /{side}/{hour}/send", n.handle(n.send))
	s.mux.HandleFunc("POST /{side}/{hour}/mark", n.handle(n.mark))
	s.mux.HandleFunc("POST /{side}/{hour}/end", n.handle(n.ended))
	s.printf(`The night of three notices. An hourly batch reads the pending rows of a table, calls
an outside API for each and marks it sent. Then the API slows down. An hour is %s here,
%d rows come in each; cron starts the same batch by itself and behind 'cronce run'.

  hour  %-34s  with cronce
`, noticesHour, noticesRows, "without cronce")
	if err := n.pass(); err != nil {
		return err
	}
	return n.sum()
}

// pass lets the hours pass: one at which the API is fast, then slow ones until
// the night has happened, then one at which all is well again.
func (n *notices) pass() error {
	hours, err := schedule.Parse("@every "+noticesHour.String(), schedule.Options{Zone: time.UTC})
	if err != nil {
		return err
	}
	for hour := 1; hour <= noticesMost; hour++ {
		if err := n.sleep(time.Until(hours.Next(time.Now()))); err != nil {
			return err
		}
		var note string
		last := false
		n.change(func() {
			switch calm := n.with.working()+n.without.working() == 0; {
			case n.slowSince == 0 && hour > 1 && calm:
				n.slow, n.slowSince = true, hour
				note = fmt.Sprintf("the API slows from %s to %s a call", noticesFast, noticesSlow)
			case n.slowSince > 0 && !n.slow && calm:
				last = true
				note = fmt.Sprintf("the API takes %s again", noticesFast)
			}
			n.without.add(noticesRows)
			n.with.add(noticesRows)
		})
		if err := n.cron(hour); err != nil {
			return err
		}
		n.printf("%s\n", strings.TrimRight(fmt.Sprintf("  %4d  %-34s  %-34s  %s", hour,
			n.became(n.without.hours[hour-1]), n.became(n.with.hours[hour-1]), note), " "))
		if last {
			return n.until(func() bool { return n.with.alive()+n.without.alive() == 0 })
		}
	}
	return fmt.Errorf("after %d hours the night has not happened: this machine is too busy for the demo now", noticesMost)
}

// add adds rows to the table.
func (t *notifier) add(rows int) {
	for range rows {
		t.rows = append(t.rows, &notice{})
	}
}

// working is how many batches have read their rows and not ended.
func (t *notifier) working() (n int) {
	for _, b := range t.hours {
		if b.atWork {
			n++
		}
	}
	return n
}

// alive is how many processes of cron's go on.
func (t *notifier) alive() (n int) {
	for _, b := range t.hours {
		if !b.ended() {
			n++
		}
	}
	return n
}

// skips is how many hours were skipped, with who was in the way on record.
func (t *notifier) skips() (n int) {
	for _, b := range t.hours {
		if b.Run != nil && b.Run.Skip == cronce.SkipOverlap && b.Run.Held != "" {
			n++
		}
	}
	return n
}

// cron starts what is due in an hour, and returns when each of the two has
// read its rows or ended without.
func (n *notices) cron(hour int) error {
	url := func(t *notifier) string { return fmt.Sprintf("%s/%s/%d", n.url, t.name, hour) }
	status := fmt.Sprintf("%s/%d.json", n.dir, hour)
	without, err := n.begin(n.without, hour, n.self, "demo-batch", url(n.without))
	if err != nil {
		return err
	}
	with, err := n.begin(n.with, hour, n.thin, "run", "--store", n.dir+"/store", "--schedule", "@every "+noticesHour.String(),
		"--start-deadline", "1m", // by default half the interval: too soon for a busy machine
		"--status-file", status, "notices", "--", n.self, "demo-batch", url(n.with))
	if err != nil {
		return err
	}
	if err := n.until(func() bool {
		return (without.read || without.ended()) && (with.read || with.ended())
	}); err != nil {
		return err
	}
	if with.ended() {
		b, err := os.ReadFile(status)
		n.change(func() { err = errors.Join(err, json.Unmarshal(b, &with.report)) })
		if err != nil {
			return errors.Join(err, with.failure())
		}
	}
	return nil
}

// begin starts a process of an hour. The table knows it before it can ask.
func (n *notices) begin(t *notifier, hour int, path string, args ...string) (*batch, error) {
	b := &batch{}
	n.change(func() { t.hours = append(t.hours, b) })
	a, err := n.start(fmt.Sprintf("the batch of hour %d %s cronce", hour, t.name), path, args, nil, nil)
	n.change(func() { b.actor = a })
	return b, err
}

// became says what became of an hour.
func (n *notices) became(b *batch) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case b.read && b.copies == 1:
		return fmt.Sprintf("reads %2d rows; 1 copy at work", b.rows)
	case b.read:
		return fmt.Sprintf("reads %2d rows; %d copies at work", b.rows, b.copies)
	case b.Run != nil && b.Run.Skip != "":
		return fmt.Sprintf("skipped: %s, on record", b.Run.Skip)
	case b.Decision != "":
		return b.Decision
	}
	return "ended early"
}

// handle finds out whose request it is.
func (n *notices) handle(f func(http.ResponseWriter, *http.Request, *notifier, *batch)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := n.without
		if r.PathValue("side") == n.with.name {
			t = n.with
		}
		hour, err := strconv.Atoi(r.PathValue("hour"))
		var b *batch
		n.change(func() {
			if err == nil && hour >= 1 && hour <= len(t.hours) {
				b = t.hours[hour-1]
			}
		})
		if b == nil {
			http.NotFound(w, r)
			return
		}
		f(w, r, t, b)
	}
}

// pending is SELECT id FROM notices WHERE NOT sent.
func (n *notices) pending(w http.ResponseWriter, _ *http.Request, t *notifier, b *batch) {
	rows := []int{}
	n.change(func() {
		for i, row := range t.rows {
			if !row.sent {
				rows = append(rows, i)
			}
		}
		b.read, b.atWork, b.rows = true, true, len(rows)
		b.copies = t.working()
		t.most = max(t.most, b.copies)
	})
	json.NewEncoder(w).Encode(rows)
}

// send is the outside API. The last row of the first slow hour is not
// answered until the night has happened, so that it does on every machine.
func (n *notices) send(w http.ResponseWriter, r *http.Request, t *notifier, _ *batch) {
	id, slow := n.row(w, r, t)
	if id < 0 {
		return
	}
	took := noticesFast
	if slow {
		took = noticesSlow
	}
	var last bool
	n.change(func() {
		t.rows[id].sends++
		last = n.slow && id == n.slowSince*noticesRows-1
	})
	if n.sleep(took) != nil || !last {
		return
	}
	n.until(func() bool { return !n.slow || n.without.most >= noticesCopies && n.with.skips() >= noticesSkips })
	n.change(func() { n.slow = false })
}

// mark is UPDATE notices SET sent = TRUE WHERE id = …
func (n *notices) mark(w http.ResponseWriter, r *http.Request, t *notifier, _ *batch) {
	if id, _ := n.row(w, r, t); id >= 0 {
		n.change(func() { t.rows[id].sent = true })
	}
}

// ended is a batch that is through.
func (n *notices) ended(_ http.ResponseWriter, _ *http.Request, _ *notifier, b *batch) {
	n.change(func() { b.atWork = false })
}

// row is the number of the row of a request, and whether the API is slow.
func (n *notices) row(w http.ResponseWriter, r *http.Request, t *notifier) (id int, slow bool) {
	id, err := strconv.Atoi(r.FormValue("row"))
	n.change(func() {
		if err != nil || id < 0 || id >= len(t.rows) {
			id = -1
		}
		slow = n.slow
	})
	if id < 0 {
		http.NotFound(w, r)
	}
	return id, slow
}

// tally is what a table and its batches came to.
type tally struct{ rows, sent, sends, duplicates, times, failed int }

func (t *notifier) tally() (sum tally) {
	for _, row := range t.rows {
		sum.rows++
		if row.sent {
			sum.sent++
		}
		sum.sends += row.sends
		sum.duplicates += max(row.sends-1, 0)
		sum.times = max(sum.times, row.sends)
	}
	for _, b := range t.hours {
		if b.err != nil && b.Decision != "taken" { // 75 for a tick that was skipped before
			sum.failed++
		}
	}
	return sum
}

// sum prints the counts, and what is on record.
func (n *notices) sum() error {
	show := exec.CommandContext(n.ctx, n.thin, "runs", "notices", "--store", n.dir+"/store")
	show.Env = append(os.Environ(), "TZ=UTC")
	records, err := show.CombinedOutput()
	if err != nil {
		if n.ctx.Err() != nil {
			err = context.Cause(n.ctx)
		}
		return fmt.Errorf("cronce runs: %w\n%s", err, records)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.printf("\n                  rows  sends  duplicates  most for a row  copies at once  skips  failed runs\n")
	for _, t := range []*notifier{n.without, n.with} {
		sum := t.tally()
		n.printf("  %-14s  %4d  %5d  %10d  %14d  %14d  %5d  %11d\n",
			t.name+" cronce", sum.rows, sum.sends, sum.duplicates, sum.times, t.most, t.skips(), sum.failed)
	}
	n.printf("\nWhat cron would have mailed, with cronce:\n\n")
	for _, b := range n.with.hours {
		if b.stderr.Len() > 0 {
			n.printf("%s", indented(b.stderr.Bytes()))
		}
	}
	n.printf(`
What 'cronce runs notices' shows:

%s
Without cronce each copy read rows that another was still at, and every run exited 0:
nothing told of the duplicates. With cronce the batch never overlaps itself; the skipped
hours name the run that was in the way, and their rows went out later, once.

Read next: docs/run.md, one line in front of a command of cron; docs/guarantees.md, what
is promised and what is not. The other night: cronce demo crons
`, indented(records))
	without, with := n.without.tally(), n.with.tally()
	switch {
	case with.duplicates > 0 || n.with.most != 1 || n.with.skips() < noticesSkips || with.sent != with.rows || with.failed > 0:
		return errors.New("with cronce this is not as promised")
	case without.duplicates == 0 || n.without.most < noticesCopies || without.sent != without.rows || without.failed > 0:
		return errors.New("without cronce the night did not happen as told")
	}
	return nil
}
