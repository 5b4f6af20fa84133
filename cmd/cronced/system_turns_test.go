package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// turnsProcess is the serve of a user that asks for its turns by a pipe.
type turnsProcess struct {
	turns
	given sync.WaitGroup
}

func startTurns(t *testing.T, bound *cronce.Turnstile) *turnsProcess {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &turnsProcess{turns: turns{w: w, waiting: map[string]chan struct{}{}}}
	p.given.Go(func() {
		defer r.Close()
		if err := giveTurns(bound, r, p.come); err != nil {
			t.Error(err)
		}
	})
	return p
}

// The bound holds over processes, whoever gives up waiting gives no turn away
// twice, and the turns of a process that dies go to the others.
func TestTurns_BoundOverProcesses(t *testing.T) {
	const bound, workers, rounds = 2, 8, 40
	all := cronce.NewTurnstile(bound)
	var processes []*turnsProcess
	for range 3 {
		processes = append(processes, startTurns(t, all))
	}
	var inside, through atomic.Int32
	var done sync.WaitGroup
	for _, p := range processes {
		for worker := range workers {
			done.Go(func() {
				for round := range rounds {
					ctx, cancel := context.WithCancel(t.Context())
					if (worker+round)%3 == 0 {
						time.AfterFunc(time.Duration(round)*50*time.Microsecond, cancel)
					}
					if p.Enter(ctx, time.Unix(int64(round), 0)) == nil {
						if n := inside.Add(1); n > bound {
							t.Errorf("%d are through", n)
						}
						through.Add(1)
						inside.Add(-1)
						p.Leave()
					}
					cancel()
				}
			})
		}
	}
	done.Wait()
	if through.Load() < workers*rounds {
		t.Errorf("only %d were through", through.Load())
	}

	// One dies with all turns.
	dying := processes[0]
	for range bound {
		if err := dying.Enter(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan error)
	go func() { got <- processes[1].Enter(t.Context(), time.Time{}) }()
	dying.w.Close()
	dying.given.Wait()
	if err := <-got; err != nil {
		t.Error(err)
	}
	for _, p := range processes[1:] {
		p.w.Close()
		p.given.Wait()
	}
	for range bound {
		if err := all.Enter(t.Context(), time.Time{}); err != nil { // all are back
			t.Fatal(err)
		}
	}
}

// A process that asks what none of ours would is found out.
func TestTurns_NonsenseIsRefused(t *testing.T) {
	for _, text := range []string{"enter 1\n", "enter 1 x\n", "leave 1\n", "enter 1 2\nenter 1 2\n", "enter 12345678901234567890 2\n", "\x00\n", "enter 1 2 3\n"} {
		if err := giveTurns(cronce.NewTurnstile(1), strings.NewReader(text), func(string) {}); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if err := giveTurns(nil, strings.NewReader("enter 1 2\n"), func(string) {}); err == nil {
		t.Error("a turn was given where there are none")
	}
	if err := giveTurns(cronce.NewTurnstile(1), strings.NewReader("enter 1 2\nleave 1\n"), func(string) {}); err != nil {
		t.Error(err)
	}
}
