package chaos_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// A fault is made, and undone after some time.
type fault struct {
	what     string
	who      int // which client
	at, ends time.Duration
	delay    time.Duration
}

func (x fault) String() string {
	text := x.what
	if x.what != crashed && x.what != stalled {
		text += fmt.Sprint(" ", x.who+1)
	}
	if x.ends > x.at {
		text += fmt.Sprint(" for ", (x.ends - x.at).Round(10*time.Millisecond))
	}
	return text
}

// What is done to a client's process, to its connection, and to the server.
const (
	killed  = "kill -9 of process"
	frozen  = "stop of process"
	bereft  = "kill -9 of a guard of process" // which is a serve
	silent  = "no replies to process"         // although the server has done what was asked
	broken  = "in place of replies, a closed connection to process"
	cutOff  = "no connection for process"
	hole    = "nothing gets through from or to process"
	slow    = "late replies to process"
	crashed = "kill -9 of the server"
	stalled = "stop of the server"
)

type limits struct {
	length          time.Duration
	workers, serves int
	serverKills     int
}

// planFaults makes up faults. Six hands are at work, each at one fault after the other:
// one kills processes, two stop them, one kills guards, one is at the network and one at
// the server.
func planFaults(r *rand.Rand, l limits) []fault {
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	var all []fault
	clients := l.workers + l.serves
	free := func(at, ends time.Duration, who int, except ...string) bool {
		return !slices.ContainsFunc(all, func(x fault) bool {
			return x.who == who && x.at <= ends && at <= x.ends && slices.Contains(except, x.what)
		})
	}
	// Stops first, as they are long: three times a lease. The work of a serve is in other
	// processes, which go on.
	stop := func(first, n int, ttl time.Duration) {
		for at := between(time.Second, 3*time.Second); n > 0 && at+3*ttl < l.length; at += 3*ttl + between(0, 3*time.Second) {
			all = append(all, fault{what: frozen, who: first + r.IntN(n), at: at, ends: at + 3*ttl})
		}
	}
	stop(0, l.workers, cronce.MinTTL)
	stop(l.workers, l.serves, cronce.DefaultTTL)
	for at := between(2*time.Second, 4*time.Second); at < l.length-2*time.Second; at += between(3*time.Second, 7*time.Second) {
		x := fault{what: killed, who: r.IntN(clients), at: at, ends: at + between(100*time.Millisecond, 2*time.Second)}
		if free(x.at-time.Second, x.ends+time.Second, x.who, killed, frozen) {
			all = append(all, x)
		}
	}
	// A guard and its serve at once are more than anything covers.
	for at := between(3*time.Second, 6*time.Second); l.serves > 0 && at < l.length; at += between(2*time.Second, 6*time.Second) {
		x := fault{what: bereft, who: l.workers + r.IntN(l.serves), at: at, ends: at}
		if free(x.at-2*time.Second, x.ends+2*time.Second, x.who, killed, frozen) {
			all = append(all, x)
		}
	}
	for at := between(time.Second, 3*time.Second); at < l.length-2*time.Second; at += between(time.Second, 4*time.Second) {
		x := fault{what: []string{silent, broken, cutOff, hole, slow}[r.IntN(5)], who: r.IntN(clients), at: at}
		x.ends = min(at+between(time.Second, 12*time.Second), l.length)
		x.delay = between(50*time.Millisecond, 900*time.Millisecond)
		if free(x.at-time.Second, x.ends+time.Second, x.who, silent, broken, cutOff, hole, slow) {
			all = append(all, x)
		}
	}
	kills := 0
	for at := between(4*time.Second, 8*time.Second); at < l.length-2*time.Second; at += between(10*time.Second, 20*time.Second) {
		x := fault{what: stalled, at: at, ends: at + between(500*time.Millisecond, 7*time.Second)}
		if kills < l.serverKills && r.IntN(2) == 0 {
			kills++
			x.what, x.ends = crashed, at+between(100*time.Millisecond, 3*time.Second)
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

// suffer makes the faults and undoes them, each at its time.
func (f *fleet) suffer(faults []fault, length time.Duration) {
	type turn struct {
		at time.Duration
		do func()
	}
	var turns []turn
	for _, x := range faults {
		turns = append(turns,
			turn{x.at, func() { f.Logf("%7.3f %s", time.Since(f.began).Seconds(), x); f.make(x) }},
			turn{x.ends, func() { f.undo(x) }})
	}
	turns = append(turns, turn{length, func() {}})
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for _, n := range turns {
		due := time.After(n.at - time.Since(f.began))
		for waits := true; waits; {
			select {
			case <-due:
				waits = false
			case <-look.C:
			}
			f.look()
		}
		n.do()
	}
}

func (f *fleet) make(x fault) {
	m := f.clients[x.who]
	switch x.what {
	case killed:
		f.kill(x.who)
	case frozen:
		f.freeze(x.who)
	case bereft:
		f.killGuard(x.who)
	case silent:
		m.proxy.DropReplies()
	case broken:
		m.proxy.CutReplies()
	case cutOff:
		m.proxy.Cut()
	case hole:
		m.proxy.Blackhole()
	case slow:
		m.proxy.Delay(x.delay)
	case crashed:
		f.server.Kill()
	case stalled:
		f.server.Stop()
	}
}

func (f *fleet) undo(x fault) {
	switch x.what {
	case killed:
		f.start(x.who)
	case frozen:
		f.thaw(x.who)
	case crashed:
		f.server.Restart(testenv.Kept)
	case stalled:
		f.server.Continue()
	case bereft:
	default:
		f.clients[x.who].proxy.Restore()
	}
}
