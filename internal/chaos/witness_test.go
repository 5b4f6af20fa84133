package chaos_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// seen is one thing that a run did, as the witness saw it.
type seen struct {
	What  string        `json:"what"`
	Job   string        `json:"job"`
	Tick  int64         `json:"tick"` // Unix seconds
	Run   string        `json:"run"`
	Fence int64         `json:"fence"`
	Who   string        `json:"who"` // the process, by the name that the test gave it
	Asked time.Duration `json:"asked,omitempty"`

	// By the witness, on CLOCK_BOOTTIME.
	At    time.Duration `json:"-"`
	Stale bool          `json:"-"` // refused: a run with a higher fence had been there
}

// What a run does.
const (
	started = "start"
	worked  = "effect"
	ended   = "end"     // all of its work is done
	stopped = "stopped" // it was told to stop, and does no more
	renewed = "renewed" // the store says that its lease goes on; Asked is when that was asked
	overlap = "overlap" // of a command: it found the lock of another one's held
)

// A witness is what jobs work on: a service that takes one thing after the other,
// and refuses what comes with a fence below one that it has seen, as any should.
// It is never stopped. Who works on it waits for its answer.
type witness struct {
	t      *testing.T
	listen net.Listener
	served sync.WaitGroup

	mu    sync.Mutex
	fence map[string]int64
	all   []seen
	news  chan struct{} // closed and renewed with each thing seen
}

func newWitness(t *testing.T) *witness {
	l, err := net.Listen("unix", "@cronce-chaos-"+rand.Text()) // a name that is no file, and may be as long
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{t: t, listen: l, fence: map[string]int64{}, news: make(chan struct{})}
	w.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.served.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return w
}

func (w *witness) serve(c net.Conn) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var s seen
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			w.t.Errorf("the witness was told %q: %v", lines.Text(), err)
			return
		}
		if _, err := io.WriteString(c, w.take(s)+"\n"); err != nil {
			return // it was killed
		}
	}
}

// take takes in what a run does, and answers "ok" or "stale".
func (w *witness) take(s seen) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.At = cronce.SinceBoot()
	s.Stale = s.Fence < w.fence[s.Job]
	if s.What == started && !s.Stale {
		w.fence[s.Job] = s.Fence
	}
	w.all = append(w.all, s)
	close(w.news)
	w.news = make(chan struct{})
	if s.Stale {
		return "stale"
	}
	return "ok"
}

// saw is all that it saw, in order.
func (w *witness) saw() ([]seen, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[:len(w.all):len(w.all)], w.news
}

// A teller is a process's way to the witness.
type teller struct {
	mu      sync.Mutex
	conn    net.Conn
	answers *bufio.Reader
	who     string
}

func dial(address, who string) (*teller, error) {
	c, err := net.Dial("unix", address)
	if err != nil {
		return nil, err
	}
	return &teller{conn: c, answers: bufio.NewReader(c), who: who}, nil
}

// tell tells the witness, and reports whether it took what the run did.
func (w *teller) tell(what string, r cronce.Run, asked time.Duration) bool {
	b, err := json.Marshal(seen{What: what, Job: r.Job, Tick: r.Tick.Unix(), Run: r.ID, Fence: r.Fence, Who: w.who, Asked: asked})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.conn.Write(append(b, '\n')); err != nil {
		panic(err)
	}
	answer, err := w.answers.ReadString('\n')
	if err != nil {
		panic(err)
	}
	return answer == "ok\n"
}

// script is what a job that is a command does. The kernel is its witness: it frees
// the lock when the last process of the work has ended, and the order of lines in a
// file that is appended to is the order in which they were written.
const script = `#!/bin/sh
say() {
	read -r up _ </proc/uptime
	echo "$1 $CRONCE_JOB $CRONCE_TICK $CRONCE_RUN_ID $CRONCE_FENCE $$ $up" >>"$DIR/told"
}
exec 9>>"$DIR/lock-$CRONCE_JOB"
flock -n 9 || say overlap
say start
sleep "$1"
say end
`

// told is what commands have said in that folder.
func told(dir string) ([]seen, error) {
	b, err := os.ReadFile(path(dir, "told"))
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []seen
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) != 7 {
			return nil, fmt.Errorf("a command said %q", line)
		}
		tick, err := time.Parse(time.RFC3339, words[2])
		if err != nil {
			return nil, err
		}
		fence, err := strconv.ParseInt(words[4], 10, 64)
		if err != nil {
			return nil, err
		}
		up, err := strconv.ParseFloat(words[6], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, seen{What: words[0], Job: words[1], Tick: tick.Unix(), Run: words[3], Fence: fence, Who: "command " + words[5],
			At: time.Duration(up * float64(time.Second))})
	}
	return all, nil
}
