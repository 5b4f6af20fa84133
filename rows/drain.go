package rows

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cronce/cronce"
)

// Drain works off what is due, and returns when nothing is. Rows that are to be tried again later, and those that others
// have claimed, are in Result.Left. The end of ctx is a graceful stop: nothing is claimed or
// started any more, what was not started is pending again at once, and handlers get Options.Grace to end.
//
// Errors: the context's; *[StaleError]; *[BlockedError]; *[TableError], where the database refuses a statement;
// *[UnavailableError]. Result says what was done also beside an error.
func (d *Drainer) Drain(ctx context.Context, handle Handler) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	w := d.begin(ctx, handle)
	defer w.cancel(nil)
	w.loop(ctx)
	w.count()
	for _, l := range []*lane{w.claims, w.turns, w.keeps} {
		l.end()
	}
	return w.result, w.stop
}

// begin makes what a Drain has.
func (d *Drainer) begin(ctx context.Context, handle Handler) *drain {
	handlers, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &drain{
		Drainer: d, handle: handle, handlers: handlers, cancel: cancel,
		base:    context.WithoutCancel(ctx),
		claims:  &lane{d: d},
		turns:   &lane{d: d},
		keeps:   &lane{d: d},
		running: map[*item]bool{},
		seek:    make(chan struct{}, 1),
		claimed: make(chan catch, 1),
		take:    make(chan turn, 1),
		turned:  make(chan turn, 1),
		renewed: make(chan renewal, 1),
		ended:   make(chan result, d.options.Workers),
		search:  newSearch(d),
		pace:    newPacer(d.options.Rate),
	}
}

// drain is one Drain. All of it belongs to the goroutine of loop; others do one thing each, and report it
// through a channel.
type drain struct {
	*Drainer
	handle   Handler
	base     context.Context // of statements: a stop does not interrupt them
	handlers context.Context
	cancel   context.CancelCauseFunc

	claims, turns, keeps *lane
	search               *search
	pace                 *pacer

	queue   []*item        // claimed, not started
	running map[*item]bool // their handlers are at work
	results []result       // not on record yet
	result  Result
	stop    error         // why nothing is claimed or started any more
	nothing bool          // the last claim found nothing that is due
	fresh   time.Duration // until when that is not doubted

	seek     chan struct{}
	claimed  chan catch
	take     chan turn
	turned   chan turn
	renewed  chan renewal
	ended    chan result
	claiming bool
	turning  bool
	renewing bool

	pause  *time.Timer // before the next claim
	gather *time.Timer // for results that come at about the same time
	took   time.Duration
}

// loop ends when all that was claimed is on record again.
func (w *drain) loop(ctx context.Context) {
	var lanes sync.WaitGroup
	lanes.Go(w.claimer)
	lanes.Go(w.recorder)
	defer lanes.Wait()
	defer close(w.take)
	defer close(w.seek)
	stopped := ctx.Done()
	var grace <-chan time.Time
	keep := time.NewTicker(w.options.Lease / 3)
	defer keep.Stop()
	w.pause, w.gather = stoppedTimer(), stoppedTimer()
	paced := stoppedTimer()
	defer paced.Stop()
	waiting, gathering := false, false
	for {
		if w.stop != nil && len(w.queue) > 0 {
			w.giveBack(w.queue)
			w.queue = nil
		}
		if !w.claiming && !waiting && w.stop == nil && !w.nothing && len(w.queue) <= w.search.size/2 {
			w.claiming = true
			w.seek <- struct{}{}
		}
		unpaced := w.pace.wait()
		if !w.turning && !gathering && w.turnable(unpaced == 0) {
			w.turn()
		}
		if !w.claiming && !w.turning && !w.renewing && len(w.queue)+len(w.running)+len(w.results) == 0 && (w.stop != nil || w.nothing) {
			return
		}
		if unpaced > 0 {
			paced.Reset(unpaced)
		}
		select {
		case <-paced.C:
		case <-stopped:
			stopped = nil
			w.halt(ctx.Err())
			timer := time.NewTimer(w.options.Grace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			w.cancel(errStop)
		case <-keep.C:
			if held := w.held(); !w.renewing && len(held) > 0 {
				w.renewing = true
				go func() { w.renewed <- w.renewal(held) }()
			}
		case c := <-w.claimed:
			w.claiming = false
			if waiting = w.caught(c); waiting {
				w.pause.Reset(w.search.wait)
			}
		case <-w.pause.C:
			waiting = false
		case t := <-w.turned:
			w.turning = false
			w.recorded(t)
			// What ended meanwhile waits for what has begun: else two halves would take turns for ever.
			if len(w.results) > 0 && len(w.running) > 0 && w.took > 0 {
				gathering = true
				w.gather.Reset(w.took / 2)
			}
		case r := <-w.ended:
			for more := true; more; {
				delete(w.running, r.it)
				w.results = append(w.results, r)
				select {
				case r = <-w.ended:
				default:
					more = false
				}
			}
			// Others that were started with it come soon, and can share its transaction.
			if len(w.running) > 0 && !gathering && w.took > 0 {
				gathering = true
				w.gather.Reset(w.took / 2)
			} else if len(w.running) == 0 {
				gathering = false
				w.gather.Stop()
			}
		case <-w.gather.C:
			gathering = false
		case r := <-w.renewed:
			w.renewing = false
			w.kept(r)
		}
	}
}

// claimer makes the claims that are asked for. It stays, as a goroutine of its own for each would grow its stack each time.
func (w *drain) claimer() {
	for range w.seek {
		w.claimed <- w.claimRows()
	}
}

// recorder makes turns.
func (w *drain) recorder() {
	for t := range w.take {
		w.turned <- w.makeTurn(t)
	}
}

// halt has nothing more claimed or started. The first reason stands.
func (w *drain) halt(why error) {
	if w.stop == nil {
		w.stop = why
	}
}

// giveBack has claimed rows pending again.
func (w *drain) giveBack(items []*item) {
	for _, it := range items {
		w.results = append(w.results, result{it: it, to: pending, back: true})
	}
}

// catch is what a claim came to.
type catch struct {
	items     []*item
	reclaimed reclaimed
	waiting   bool // rows are due, and none could be claimed
	took      time.Duration
	err       error
}

// caught takes in what a claim came to, and reports whether to wait before the next one.
func (w *drain) caught(c catch) bool {
	w.result.Reclaimed += c.reclaimed.pending
	w.result.Doubtful += c.reclaimed.unknown
	w.result.Crashed += c.reclaimed.dead
	if c.reclaimed != (reclaimed{}) {
		w.options.Log.Warn("rows of workers that died", "job", w.options.Job, "pending", c.reclaimed.pending, "unknown", c.reclaimed.unknown, "dead", c.reclaimed.dead)
	}
	w.queue = append(w.queue, c.items...)
	switch {
	case c.err != nil:
		if w.engine.refused(c.err) {
			w.halt(w.refuse("see what the database says; what was not started is pending again", "%v", c.err))
			return false
		}
		var stale *StaleError
		if errors.As(c.err, &stale) {
			w.halt(c.err)
			return false
		}
		if !w.search.again(w.patience()) {
			w.halt(w.unavailable(c.err))
			return false
		}
		if text := c.err.Error(); !w.engine.again(c.err) && text != w.search.said {
			w.search.said = text
			w.options.Log.Warn("a claim failed, and is tried again", "job", w.options.Job, "error", c.err.Error())
		}
		return true
	case c.waiting:
		w.result.Blocked++
		if w.search.again(w.options.Lease) || len(w.queue)+len(w.running)+len(w.results) > 0 {
			if w.search.tries == 5 {
				w.options.Log.Warn("rows are pending, and none can be claimed: others have them locked", "job", w.options.Job)
			}
			return true
		}
		counts, _ := w.Drainer.count(w.base, w.claims, false)
		w.halt(&BlockedError{Table: w.table.Name, Pending: counts.Pending})
		return false
	}
	w.search.found()
	w.nothing = len(c.items) == 0
	w.fresh = now() + max(time.Second, 20*c.took)
	return false
}

// held are the rows whose leases are to be renewed.
func (w *drain) held() []*item {
	held := append([]*item(nil), w.queue...)
	for it := range w.running {
		held = append(held, it)
	}
	return held
}

// renewal is what came of renewing leases.
type renewal struct {
	lost []*item
	err  error
}

func (w *drain) renewal(items []*item) (r renewal) {
	for first := 0; first < len(items) && r.err == nil; first += maxRenewed {
		some := items[first:min(first+maxRenewed, len(items))]
		var lost []*item
		for tries := 0; tries < 5; tries++ {
			ctx, cancel := w.statementTime()
			r.err = w.keeps.single(ctx, func() (err error) {
				lost, err = w.renew(ctx, w.keeps, some)
				return err
			})
			cancel()
			if r.err == nil || !w.engine.again(r.err) {
				break
			}
		}
		r.lost = append(r.lost, lost...)
	}
	return r
}

// maxRenewed is how many leases one statement renews.
const maxRenewed = 1000

// kept ends the work on rows that are no longer ours. One that has come to its end meanwhile is as its turn says.
func (w *drain) kept(r renewal) {
	if r.err != nil {
		w.options.Log.Warn("leases could not be renewed, and will be tried again", "job", w.options.Job, "error", r.err.Error())
	}
	for _, it := range r.lost {
		if w.running[it] {
			it.stop(ErrLost)
			continue
		}
		for i, waiting := range w.queue {
			if waiting == it {
				w.queue = append(w.queue[:i:i], w.queue[i+1:]...)
				w.result.Lost++
				break
			}
		}
	}
}

// statementTime bounds how long a transaction is waited for.
func (w *drain) statementTime() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.base, min(max(w.options.Lease/4, 5*time.Second), 30*time.Second))
}

// patience is for how long a database that does not answer is asked again: until leases have ended, and on a
// machine that is busy for a while longer.
func (d *Drainer) patience() time.Duration { return max(d.options.Lease, 30*time.Second) }

// count says what is left. That it could not be counted changes nothing of what was done.
func (w *drain) count() {
	ctx, cancel := w.statementTime()
	defer cancel()
	left, err := w.Drainer.count(ctx, w.claims, false)
	if err != nil {
		w.options.Log.Warn("what is left could not be counted", "job", w.options.Job, "error", err.Error())
		return
	}
	w.result.Left = left
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// now is the clock of leases.
func now() time.Duration { return cronce.SinceBoot() }
