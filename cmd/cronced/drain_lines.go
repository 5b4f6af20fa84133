package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/handover"
	"github.com/cronce/cronce/rows"
)

// lineWorker has one process do the work of all rows: it gets each as a line of JSON and answers with a line.
type lineWorker struct {
	guards *rowGuards

	mu      sync.Mutex
	process *lineProcess // nil: none is there
	idle    int          // how many ended one after the other without an answer
}

// lineProcess is one such process, under a guard.
type lineProcess struct {
	guard *rowGuard
	stop  context.CancelCauseFunc
	gone  chan struct{} // closed when it has ended, and all that it said is read

	writing sync.Mutex
	in      *os.File

	mu       sync.Mutex
	waiting  map[string]chan lineAnswer // rows that are not answered, by key
	answered bool
	never    int    // the exit code of a shell where it could not be started; else 0
	how      string // it ended
}

// lineAnswer is what it says of a row.
type lineAnswer struct {
	Key    string `json:"key"`
	Result string `json:"result"` // sent, retry, failed, unknown
	Error  string `json:"error"`
	After  string `json:"after"` // for retry: at the earliest so much later, as 30s
}

// maxIdle is how often the process may end without an answer before the drain is stopped.
const maxIdle = 3

// row sends the row and waits for the answer.
func (w *lineWorker) row(ctx context.Context, row rows.Row) error {
	d := w.guards.drain
	key := rowKey(d.drainOptions.table.Name, row.Key)
	line, err := lineOf(key, row.Attempt, fields(d.drainOptions.table, row))
	if err != nil {
		return rows.Permanent(err)
	}
	p, err := w.running()
	if err != nil {
		return w.guards.unable(cli.Failure, err)
	}
	answer := p.expect(key)
	defer p.forget(key)
	if err := p.send(ctx, line); err != nil {
		return err
	}
	select {
	case a := <-answer:
		d.brake.met("", nil)
		return a.err()
	case <-p.gone:
		select {
		case a := <-answer: // its last word
			d.brake.met("", nil)
			return a.err()
		default:
			how, never := p.end()
			if never != 0 {
				return w.guards.unable(never, errors.New(how))
			}
			return rows.InDoubt(fmt.Errorf("the process ended (%s) without an answer for this row%s", how, p.hint()))
		}
	case <-ctx.Done():
		p.stop(fmt.Errorf("ended, as it did not answer for %s", key)) // what hangs for one row would do so for the next
		cause := context.Cause(ctx)
		err := fmt.Errorf("%w, without an answer%s", cause, p.hint())
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			d.brake.met("time-out", err)
		}
		return rows.InDoubt(err)
	case <-d.ending.Done():
		p.stop(errors.New("ended by a second signal"))
		return rows.InDoubt(errors.New("ended by a second signal, without an answer"))
	}
}

// hint is what may be the matter with a process that has never answered.
func (p *lineProcess) hint() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered {
		return ""
	}
	return "; it never answered: it must flush its output after each line"
}

// lineOf is what the process gets of a row.
func lineOf(key string, attempt int, all []field) ([]byte, error) {
	row, err := rowJSON(all)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = putJSON(&b, struct {
		Key     string          `json:"key"`
		Attempt int             `json:"attempt"`
		Row     json.RawMessage `json:"row"`
	}{key, attempt, row})
	b.WriteByte('\n')
	return b.Bytes(), err
}

// err is the answer as package rows takes it.
func (a lineAnswer) err() error {
	err := errors.New(a.Error)
	if a.Error == "" {
		err = errors.New("it answers " + a.Result)
	}
	switch a.Result {
	case "sent":
		return nil
	case "failed":
		return rows.Permanent(err)
	case "unknown":
		return rows.InDoubt(err)
	case "retry":
		if a.After == "" {
			return err
		}
		if after, bad := time.ParseDuration(a.After); bad == nil {
			return rows.RetryAfter(after, err)
		}
		return fmt.Errorf("%w (its after is no duration: %q)", err, a.After)
	}
	return rows.InDoubt(fmt.Errorf("it answers %q, which is none of sent, retry, failed, unknown", a.Result))
}

// running is the process, a new one where the last has ended.
func (w *lineWorker) running() (*lineProcess, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil {
		select {
		case <-w.process.gone:
			if w.idle++; w.process.answered {
				w.idle = 0
			}
			if w.idle == maxIdle {
				how, _ := w.process.end()
				return nil, fmt.Errorf("the process ended %d times without an answer (%s)", maxIdle, how)
			}
		default:
			return w.process, nil
		}
	}
	p, err := w.start()
	w.process = p
	return p, err
}

// start starts the process.
func (w *lineWorker) start() (*lineProcess, error) {
	var files pipes
	stdin, in, err1 := files.open()
	out, stdout, err2 := files.open()
	err := errors.Join(err1, err2)
	var g *rowGuard
	if err == nil {
		g, err = w.guards.start(&[3]*os.File{stdin, stdout, os.Stderr})
	}
	if err != nil {
		files.close()
		return nil, err
	}
	stdin.Close()
	stdout.Close()
	ctx, stop := context.WithCancelCause(context.Background())
	p := &lineProcess{guard: g, stop: stop, gone: make(chan struct{}), in: in, waiting: map[string]chan lineAnswer{}}
	w.guards.all.Go(func() { p.read(out, w.guards.tell) })
	w.guards.all.Go(func() {
		report, err := g.run(ctx, context.Background(), handover.RowTask{
			Version: build.Version(), Path: handover.Bytes(w.guards.path), Args: handover.BytesOf(w.guards.command),
			Env: handover.BytesOf(append(rowEnvironment("", 0, nil), g.mark)), Stream: true, Grace: rowGrace,
		})
		p.ended(report, err)
		if err != nil {
			g.bury()
		} else {
			g.close()
		}
		// And then all that it said is there to be read.
		stop(nil)
	})
	return p, nil
}

// ended notes how the process came to its end.
func (p *lineProcess) ended(report handover.RowReport, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && !report.Started {
		p.never = max(report.Result.ExitCode, cli.Failure)
	}
	switch {
	case err != nil:
		p.how = err.Error()
	case report.Result.Message != "":
		p.how = report.Result.Message
	default:
		p.how = "exit 0"
	}
}

// end is how it came to its end; never: it had no beginning.
func (p *lineProcess) end() (how string, never int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.how, p.never
}

// read takes answers to the rows that they are for.
func (p *lineProcess) read(out *os.File, tell *progress) {
	defer close(p.gone)
	defer out.Close()
	in := bufio.NewReaderSize(out, maxAnswer)
	for cut := false; ; {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			tell.output(line)
			cut = true
			continue
		case err != nil:
			return // what has no end of line is no answer
		case cut:
			tell.output(line)
			cut = false
			continue
		}
		var a lineAnswer
		bad := json.Unmarshal(line, &a)
		if bad != nil && !errors.As(bad, new(*json.UnmarshalTypeError)) || a.Key == "" { // one for a row, with a number for a result, is an answer
			tell.output(line)
			continue
		}
		p.mu.Lock()
		answer := p.waiting[a.Key]
		delete(p.waiting, a.Key)
		p.answered = true
		p.mu.Unlock()
		if answer == nil {
			tell.warn(fmt.Sprintf("an answer for %s, which is not being worked on: %s", cli.Readable([]byte(a.Key)), a.Result))
			continue
		}
		answer <- a
	}
}

// maxAnswer is how long a line may be that is taken for an answer.
const maxAnswer = 1 << 20

func (p *lineProcess) expect(key string) <-chan lineAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := make(chan lineAnswer, 1)
	p.waiting[key] = answer
	return answer
}

func (p *lineProcess) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, key)
}

// send writes a line, for as long as the row has time.
func (p *lineProcess) send(ctx context.Context, line []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	until, _ := ctx.Deadline()
	p.in.SetWriteDeadline(until)
	n, err := p.in.Write(line)
	switch {
	case err == nil:
		return nil
	case n == 0:
		if ctx.Err() != nil { // it hangs
			p.stop(errors.New("ended, as it took no more lines"))
		}
		return errors.New("the process takes no more lines") // this one it never had
	}
	p.stop(errors.New("ended, as it took a part of a line only")) // a part of a line: the next one would be unreadable
	return rows.InDoubt(errors.New("the process took a part of the line only"))
}

// finish tells the process that there are no more rows, and waits for its end.
func (w *lineWorker) finish() error {
	w.mu.Lock()
	p := w.process
	w.mu.Unlock()
	if p != nil {
		p.writing.Lock()
		p.in.Close()
		p.writing.Unlock()
		timer := time.AfterFunc(w.guards.patience(), func() { p.stop(errors.New("ended, as it went on without rows")) })
		<-p.gone
		timer.Stop()
		if how, _ := p.end(); how != "exit 0" {
			w.guards.tell.warn("the process ended badly: " + how)
		}
	}
	return w.guards.finish()
}
