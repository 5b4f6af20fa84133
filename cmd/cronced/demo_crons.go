package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/localstore"
)

const (
	cronsServers = 4  // of each kind
	cronsTicks   = 10 // that are counted
	cronsMost    = 30 // that are looked at to find those
	cronsKill    = 5  // the tick in whose run a server is killed
)

// crons is the night of N crons.
type crons struct {
	*stage
	without, with []*policyServer
	from          int64 // the first tick that all of them were there for
	counted       []int64
	updates       map[int64]*received
	killed        *policyServer
	killedAt      int64 // the tick
}

// policyServer is one of the servers, as the demo sees it.
type policyServer struct {
	*actor
	number int
	up     int64            // the second in which its clock was going; 0: it is not yet
	words  map[int64]string // what became of each tick there
}

// received is who sent the update of a tick, as its receivers see it.
type received struct{ without, with []int }

func demoCrons(s *stage) error {
	c := &crons{stage: s, updates: map[int64]*received{}}
	store, err := localstore.Open(localstore.Options{Dir: s.dir + "/store"})
	if err != nil {
		return err
	}
	defer store.Close()
	s.mux.HandleFunc("POST /{side}/{server}/update", c.receive)
	s.printf(`The night of N crons. A policy server with a cron inside outgrew one process and
became %d, and so did its cron: each of them sends every update. Here are %d of them
without and %d with cronce, all of them processes, and their receivers count.

`, cronsServers, cronsServers, cronsServers)
	if err := c.startServers(); err != nil {
		return err
	}
	s.printf("  tick      without cronce    with cronce\n")
	for tick := c.from; len(c.counted) < cronsTicks; tick++ {
		if tick == c.from+cronsMost {
			return fmt.Errorf("of %d ticks only %d were on time everywhere: this machine is too busy for the demo now", cronsMost, len(c.counted))
		}
		err := s.until(func() bool { return c.dead() != nil || c.decided(tick) })
		if err == nil {
			err = c.dead()
		}
		if err == nil {
			err = c.show(tick)
		}
		if err != nil {
			return err
		}
	}
	return c.sum(store)
}

// startServers starts them and waits until each has its clock going.
func (c *crons) startServers() error {
	// It is never written to. When the demo ends, however, the servers see it.
	lifeline, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	context.AfterFunc(c.ctx, func() { ours.Close() })
	defer lifeline.Close()
	for i := range 2 * cronsServers {
		p := &policyServer{number: i%cronsServers + 1, words: map[int64]string{}}
		side, servers, args := "without", &c.without, []string{}
		if i >= cronsServers {
			side, servers, args = "with", &c.with, []string{c.dir + "/store"}
		}
		args = append([]string{"demo-server", fmt.Sprintf("%s/%s/%d", c.url, side, p.number)}, args...)
		p.actor, err = c.start(fmt.Sprintf("policy server %d %s cronce", p.number, side), c.self, args, lifeline,
			&lineWriter{line: func(line string) { c.hear(p, line) }})
		if err != nil {
			return err
		}
		c.change(func() { *servers = append(*servers, p) })
	}
	err = c.until(func() bool {
		waiting := slices.ContainsFunc(c.all(), func(p *policyServer) bool { return p.up == 0 })
		return !waiting || c.dead() != nil
	})
	c.change(func() {
		for _, p := range c.all() {
			c.from = max(c.from, p.up+1)
		}
	})
	return errors.Join(err, c.dead())
}

func (c *crons) all() []*policyServer { return slices.Concat(c.without, c.with) }

// hear takes a line of a server.
func (c *crons) hear(p *policyServer, line string) {
	second, word, _ := strings.Cut(line, " ")
	tick, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		c.end(fmt.Errorf("%s said %q", p.name, line))
		return
	}
	c.change(func() {
		if word == "up" {
			p.up = tick
		} else {
			p.words[tick] = word
		}
	})
}

// receive is where the updates go. In the middle of a run it kills the server
// that is at work, as the kernel does when memory is short.
func (c *crons) receive(w http.ResponseWriter, r *http.Request) {
	tick, err1 := strconv.ParseInt(r.FormValue("tick"), 10, 64)
	number, err2 := strconv.Atoi(r.PathValue("server"))
	if err := errors.Join(err1, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var victim *policyServer
	c.change(func() {
		if c.updates[tick] == nil {
			c.updates[tick] = &received{}
		}
		u := c.updates[tick]
		if r.PathValue("side") == "without" {
			u.without = append(u.without, number)
			return
		}
		u.with = append(u.with, number)
		if c.killed == nil && c.from > 0 && tick >= c.from && len(c.counted) >= cronsKill-1 {
			victim = c.with[number-1]
			c.killed, c.killedAt = victim, tick
		}
	})
	if victim != nil {
		victim.cmd.Process.Kill()
		<-victim.done
	}
}

// dead is the end of a server that nobody killed.
func (c *crons) dead() error {
	for _, p := range c.all() {
		if p != c.killed && p.ended() {
			return errors.Join(fmt.Errorf("%s ended by itself", p.name), p.failure())
		}
	}
	return nil
}

// decided reports whether every server that lives has said what became of the
// tick, so that nothing more can come of it.
func (c *crons) decided(tick int64) bool {
	for _, p := range c.all() {
		if p.words[tick] == "" && !c.goneBy(p, tick) {
			return false
		}
	}
	return true
}

// goneBy reports whether the server was killed at that tick or before.
func (c *crons) goneBy(p *policyServer, tick int64) bool { return p == c.killed && tick >= c.killedAt }

// show prints what became of a tick, and counts it if every server's clock
// came to it in time. The error is a tick that ran twice with cronce.
func (c *crons) show(tick int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.updates[tick]
	if u == nil {
		u = &received{}
	}
	var notes []string
	if c.killed != nil && tick == c.killedAt {
		notes = append(notes, fmt.Sprintf("kill -9 of server %d while it ran", c.killed.number))
	}
	odd := false
	for _, p := range c.all() {
		if word := p.words[tick]; word != "ran" && word != "taken" && !c.goneBy(p, tick) {
			odd = true
			notes = append(notes, fmt.Sprintf("%s: %s", p.name, word))
		}
	}
	if odd {
		notes = append(notes, "not counted")
	} else {
		c.counted = append(c.counted, tick)
	}
	slices.Sort(u.without)
	c.printf("%s\n", strings.TrimRight(fmt.Sprintf("  %s  %-16s  %-11s  %s", time.Unix(tick, 0).UTC().Format(time.TimeOnly),
		runsBy(u.without), runsBy(u.with), strings.Join(notes, "; ")), " "))
	switch {
	case len(u.with) > 1:
		return fmt.Errorf("with cronce a tick ran %d times", len(u.with))
	case !odd && len(u.with) != 1, !odd && len(u.without) != cronsServers:
		return fmt.Errorf("this tick is not as promised: %d runs without cronce, %d with", len(u.without), len(u.with))
	}
	return nil
}

// runsBy names the servers that ran a tick.
func runsBy(servers []int) string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s", count(len(servers), "run"), strings.Trim(fmt.Sprint(servers), "[]")))
}

// sum prints the counts and compares them with the store's records.
func (c *crons) sum(store *cronce.Store) error {
	runs, err := store.Runs(c.ctx, cronce.RunQuery{Job: policyJob.Name})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var without, with, succeeded, lost int
	by := map[int]bool{}
	for _, tick := range c.counted {
		u := c.updates[tick]
		without, with = without+len(u.without), with+len(u.with)
		by[u.with[0]] = true
		for _, r := range runs {
			switch {
			case r.Tick.Unix() != tick:
			case r.Outcome == cronce.Succeeded && tick != c.killedAt:
				succeeded++
			case r.Outcome == cronce.Lost && tick == c.killedAt:
				lost++
			}
		}
	}
	c.printf(`
                  ticks  updates  runs a tick
  without cronce  %5d  %7d  %11d
  with cronce     %5d  %7d  %11d   by servers %s

On record: %d succeeded, %d lost.

With cronce each server offers each tick to one store, which decides it once: the
first to ask runs it, and the others are told that it is taken. The killed one held the
job; the kernel freed its lock, so the next tick ran elsewhere, on time. Its own run is
on record as lost, and is not repeated: cronce cannot know how far it had come.

Read next: docs/guarantees.md, what is promised and what is not; for a program of
yours: go doc github.com/cronce/cronce Scheduler. The other night: cronce demo notices
`, cronsTicks, without, without/cronsTicks, cronsTicks, with, with/cronsTicks, listed(by), succeeded, lost)
	if succeeded+lost != cronsTicks {
		return fmt.Errorf("the records are not as promised: a run for each of %d ticks is expected", cronsTicks)
	}
	return nil
}

// listed writes a set of numbers: 1, 2 and 4.
func listed(set map[int]bool) string {
	var b strings.Builder
	numbers := slices.Sorted(maps.Keys(set))
	for i, n := range numbers {
		switch {
		case i > 0 && i == len(numbers)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
