package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cronce/cronce"
)

// The turns of --max-running are given by serve --system to the serves of its
// users. These ask for them by lines on a pipe, "enter ID TICK", with the tick
// in nanoseconds since 1970, and give them back by "leave ID"; a turn that has
// come is named in a userOrder. With a process, its turns end.

// mostTurns bounds what one process may ask for at once.
const mostTurns = 50_000

// giveTurns answers what one process asks for, until it has gone. The error is
// for a process that asks what none of ours would.
func giveTurns(turns *cronce.Turnstile, from io.Reader, give func(id string)) error {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	ends := map[string]context.CancelFunc{}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 2 && f[0] == "leave" && ends[f[1]] != nil:
			ends[f[1]]()
			delete(ends, f[1])
		case len(f) == 3 && f[0] == "enter" && len(f[1]) < 20 && ends[f[1]] == nil && turns != nil && len(ends) < mostTurns:
			ns, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				return err
			}
			turn, end := context.WithCancel(ctx)
			ends[f[1]] = end
			all.Go(func() {
				if turns.Enter(turn, time.Unix(0, ns)) == nil {
					defer turns.Leave()
					give(f[1])
					<-turn.Done()
				}
			})
		default:
			return fmt.Errorf("it asked %.80q", lines.Text())
		}
	}
	return nil
}

// turns are the bound of serve --system on runs, as the serve of a user has it.
type turns struct {
	w *os.File

	mu      sync.Mutex
	asked   int
	waiting map[string]chan struct{}
	held    []string
}

// Enter waits for a turn, or for the end of ctx.
func (t *turns) Enter(ctx context.Context, tick time.Time) error {
	t.mu.Lock()
	t.asked++
	id, come := strconv.Itoa(t.asked), make(chan struct{})
	t.waiting[id] = come
	_, err := fmt.Fprintf(t.w, "enter %s %d\n", id, tick.UnixNano())
	t.mu.Unlock()
	if err != nil {
		return errors.Join(errors.New("serve --system gives no turn"), err)
	}
	select {
	case <-come:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, id)
	if ctx.Err() != nil {
		fmt.Fprintf(t.w, "leave %s\n", id)
		return ctx.Err()
	}
	t.held = append(t.held, id)
	return nil
}

// Leave gives a turn back; they are all alike.
func (t *turns) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "leave %s\n", t.held[0])
	t.held = t.held[1:]
}

// come tells who waits that the turn has come.
func (t *turns) come(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if come := t.waiting[id]; come != nil {
		close(come)
		delete(t.waiting, id)
	}
}
