package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cronce/cronce"
)

// player is a client that does things at random. It has one lease at most, and
// may keep one that it should not.
type player struct {
	*game
	client  int
	store   *cronce.Store
	rand    *rand.Rand
	lease   *cronce.Lease
	pending *cronce.Claim // held, to be repeated

	history  []porcupine.Operation
	decided  map[string]tickOf // by run id
	given    map[string]bool
	finished map[string]bool
	taken    []takenBy
	pruned   int
	unsure   int
	err      error
}

// tickOf is a tick of a job; 0 is a run by hand.
type tickOf struct {
	job  string
	tick int64
}

type takenBy struct {
	tickOf
	run cronce.Run
}

// play goes on to the end of the game, or to an answer that is none.
func (p *player) play() {
	p.decided, p.given, p.finished = map[string]tickOf{}, map[string]bool{}, map[string]bool{}
	for n := 0; p.err == nil && (p.waits() && time.Since(p.began) < playedTime || !p.waits() && n < playedSteps); n++ {
		if p.TTL > 0 {
			p.pass(time.Duration(p.rand.Int64N(int64(p.TTL / 20))))
		}
		if !p.waits() {
			p.othersGoOn()
		}
		p.err = p.step()
	}
}

// othersGoOn lets the other players take their turns.
func (p *player) othersGoOn() {
	time.Sleep(time.Duration(p.rand.Int64N(int64(time.Millisecond))))
}

// step is one thing to do.
func (p *player) step() error {
	roll := p.rand.IntN(100)
	switch {
	case roll < 3:
		return p.ask(cronce.Pause)
	case roll < 9:
		return p.ask(cronce.Resume)
	case roll < 11:
		return p.ask(cronce.Stop)
	case roll < 13:
		return p.revoke()
	case roll < 15:
		return p.prune()
	case p.lease == nil:
		return p.claim()
	case roll < 60:
		return p.renew()
	case roll < 85:
		return p.end()
	case roll < 92 && p.TTL > 0:
		p.pass(p.TTL * 6 / 5) // it is stopped for a while and comes back late
		p.othersGoOn()
		if p.rand.IntN(2) == 0 {
			return p.end()
		}
		return p.renew()
	case roll < 96:
		p.crash()
		p.othersGoOn()
		return p.end() // it was only out of reach, and ends its work
	default:
		p.crash()
		p.lease = nil
	}
	return nil
}

// claim offers a new tick, or one that was offered before, or none, or repeats
// a claim that was held.
func (p *player) claim() error {
	c := p.pending
	p.pending = nil
	if c == nil || p.rand.IntN(4) == 0 {
		job := p.rand.IntN(playedJobs)
		made := p.env.claim(p.game.job(job), 0)
		switch n := p.ticks[job].Load(); {
		case p.rand.IntN(10) == 0:
			made.Tick = time.Time{}
		case n > 0 && p.rand.IntN(3) == 0:
			made.Tick = p.second(int(p.rand.Int64N(n)))
		default:
			made.Tick = p.second(int(p.ticks[job].Add(1) - 1))
		}
		switch p.rand.IntN(10) {
		case 0:
			made.CatchUp = true
		case 1, 2:
			made.Overlap = cronce.Overlap{Policy: cronce.OverlapWait, Wait: max(p.TTL/2, 20*time.Millisecond)}
		case 3:
			made.Overlap = cronce.Overlap{Policy: cronce.OverlapReplace, Wait: max(p.TTL/2, 20*time.Millisecond)}
		}
		c = &made
	}
	tick := tickOf{job: c.Job}
	if !c.Tick.IsZero() {
		tick.tick = c.Tick.Unix()
	}
	return p.do(step{"claim", c.Job, c.RunID}, func(a *answer) error {
		if p.DropReply != nil && p.rand.IntN(8) == 0 {
			p.DropReply(p.t, p.store)
			p.unsure++ // what it decides may be pruned before it is known
			if _, err := p.store.Claim(p.t.Context(), *c); err == nil {
				return errors.New("a reply was dropped and arrived")
			}
		}
		l, err := p.store.Claim(p.t.Context(), *c)
		var (
			taken   *cronce.TakenError
			skipped *cronce.SkippedError
			held    *cronce.HeldError
		)
		switch {
		case err == nil:
			*a = answer{ok: true, fence: l.Run.Fence, at: l.Granted, ttl: l.TTL}
			p.lease, p.given[c.RunID], p.decided[c.RunID] = &l, true, tick
		case errors.As(err, &skipped):
			p.decided[c.RunID] = tick
		case errors.Is(err, cronce.ErrLost): // its reply was dropped, and then it was revoked
			p.decided[c.RunID] = tick
		case errors.As(err, &taken):
			if taken.Run.ID == c.RunID { // its reply was dropped, and then it ended
				p.decided[c.RunID] = tick
			}
			p.taken = append(p.taken, takenBy{tick, taken.Run})
		case errors.As(err, &held):
			c.Offered, p.pending = held.Offered, c
		default:
			return err
		}
		return nil
	})
}

func (p *player) renew() error {
	l := *p.lease
	return p.do(step{"renew", l.Run.Job, l.Run.ID}, func(a *answer) error {
		renewed, err := p.store.Renew(p.t.Context(), l)
		switch {
		case err == nil:
			*a = answer{ok: true, at: renewed.Granted, ttl: renewed.TTL}
			p.lease = &renewed
		case errors.Is(err, cronce.ErrLost) && p.TTL > 0 && p.rand.IntN(2) == 0:
			p.lease = nil
		case errors.Is(err, cronce.ErrLost): // it goes on to its end all the same
		default:
			return err
		}
		return nil
	})
}

func (p *player) end() error {
	l := *p.lease
	p.lease = nil
	result := cronce.Result{Outcome: cronce.Succeeded}
	return p.do(step{"finish", l.Run.Job, l.Run.ID}, func(a *answer) error {
		dropped := p.DropReply != nil && p.rand.IntN(8) == 0
		if dropped {
			p.DropReply(p.t, p.store)
			if err := p.store.Finish(p.t.Context(), l, result); err == nil {
				return errors.New("a reply was dropped and arrived")
			}
		}
		err := p.store.Finish(p.t.Context(), l, result)
		if err != nil && !errors.Is(err, cronce.ErrLost) {
			return err
		}
		if dropped && err != nil {
			// It may have been finished, and pruned before it was finished again.
			_, known, err := p.store.Run(p.t.Context(), l.Run.ID)
			if a.unsure = !known; err != nil || a.unsure {
				return err
			}
		}
		a.ok = err == nil
		p.finished[l.Run.ID] = a.ok
		return nil
	})
}

// crash ends the player's client, and what it waited for, and opens another.
func (p *player) crash() {
	p.pending = nil
	if p.Kill == nil {
		return
	}
	s := step{"kill", p.lease.Run.Job, p.lease.Run.ID}
	if p.TTL > 0 { // its lease goes on to its end
		p.Kill(p.t, p.store)
	} else {
		p.do(s, func(*answer) error { p.Kill(p.t, p.store); return nil })
	}
	p.store = p.Open(p.t)
}

func (p *player) ask(kind cronce.RequestKind) error {
	return p.store.Request(p.t.Context(), cronce.Request{Kind: kind, Job: p.game.job(p.rand.IntN(playedJobs)), By: fmt.Sprintf("player %d", p.client)})
}

func (p *player) revoke() error {
	job := p.game.job(p.rand.IntN(playedJobs))
	return p.do(step{op: "revoke", job: job}, func(*answer) error {
		return p.store.Request(p.t.Context(), cronce.Request{Kind: cronce.Revoke, Job: job})
	})
}

func (p *player) prune() error {
	now, err := p.store.Now(p.t.Context())
	if err != nil {
		return err
	}
	n, err := p.store.Prune(p.t.Context(), p.game.job(p.rand.IntN(playedJobs)), now.Add(-p.TTL))
	p.pruned += n
	return err
}

// do does a step and writes it down.
func (p *player) do(s step, f func(*answer) error) error {
	from, err := p.store.Now(p.t.Context())
	if err != nil {
		return err
	}
	call := time.Since(p.began)
	var a answer
	if err := f(&a); err != nil {
		return fmt.Errorf("%s of run %s: %w", s.op, s.run, err)
	}
	back := time.Since(p.began)
	to, err := p.store.Now(p.t.Context())
	if err != nil {
		return err
	}
	a.from, a.to = from, to
	p.history = append(p.history, porcupine.Operation{
		ClientId: p.client, Input: s, Call: int64(call), Output: a, Return: int64(back),
	})
	return nil
}
