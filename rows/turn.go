package rows

import (
	"context"
	"errors"
	"time"
)

// turn is one transaction that records the results of rows, and then the start of as many others. So
// never more rows are in doubt than there are workers, and both share one flush to disk.
type turn struct {
	results []result
	starts  []*item

	patience time.Duration // for how long to try

	at         time.Duration // when the transaction that counted was begun
	took       time.Duration
	ours       map[*item]bool
	unrecorded []result
	unstarted  []*item // nobody knows whether their start is on record
	err        error   // why there are any
}

// turnable reports whether a turn has something to do; due: by the rate, a row may be started.
func (w *drain) turnable(due bool) bool {
	return len(w.results) > 0 || due && w.stop == nil && len(w.queue) > 0 && len(w.running) < w.options.Workers
}

// turn begins one.
func (w *drain) turn() {
	t := turn{results: w.results}
	w.results = nil
	if w.stop == nil {
		n := w.pace.take(min(w.options.Workers-len(w.running), len(w.queue)))
		t.starts, w.queue = w.queue[:n:n], w.queue[n:]
	}
	w.turning = true
	if t.patience = w.patience(); errors.As(w.stop, new(*UnavailableError)) {
		t.patience = 0
	}
	w.take <- t
}

// makeTurn is called by the recorder.
func (w *drain) makeTurn(t turn) turn {
	switch t.err = w.insist(&t); {
	case t.err == nil:
	case w.engine.refused(t.err):
		return w.oneByOne(t)
	default:
		t.unrecorded, t.unstarted, t.ours = t.results, t.starts, nil
	}
	return t
}

// insist attempts a turn again and again, where the database does not answer or is busy. The leases of what it starts
// count from the first attempt that may have been the one.
func (w *drain) insist(t *turn) error {
	begin, unsure := now(), false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if !unsure {
			t.at = now()
		}
		err := w.attempt(t)
		if err == nil || w.engine.refused(err) || now()-begin+pause > t.patience || wait(w.base, pause) != nil {
			return err
		}
		unsure = unsure || !w.engine.again(err)
	}
}

func (w *drain) attempt(t *turn) error {
	ctx, cancel := w.statementTime()
	defer cancel()
	begun := now()
	defer func() { t.took = now() - begun }()
	if s := w.atOnce(t.results, t.starts); s != nil {
		var n int64
		err := w.turns.single(ctx, func() (err error) {
			n, err = w.turns.exec(ctx, s)
			return err
		})
		if err != nil {
			return err
		}
		if n == int64(len(t.results)+len(t.starts)) {
			t.ours = make(map[*item]bool, n)
			for _, r := range t.results {
				t.ours[r.it] = true
			}
			for _, it := range t.starts {
				t.ours[it] = true
			}
			return nil
		} // else which? The transaction reads it back.
	}
	transaction := w.turns.transact
	if w.table.Side == "" && len(alike(t.results))+len(byToken(t.starts)) == 1 {
		transaction = w.turns.single // one statement is one by itself
	}
	return transaction(ctx, func() error {
		ours, err := w.record(ctx, w.turns, t.results)
		if err != nil {
			return err
		}
		begun, err := w.start(ctx, w.turns, t.starts)
		if err != nil {
			return err
		}
		t.ours = ours
		for it := range begun {
			t.ours[it] = true
		}
		return nil
	})
}

// oneByOne makes a turn of each row, so that one which the database refuses (by a trigger, a constraint) does not keep
// the others from being recorded.
func (w *drain) oneByOne(t turn) turn {
	all := turn{results: t.results, starts: t.starts, at: now(), ours: map[*item]bool{}}
	for _, r := range t.results {
		one := turn{results: []result{r}, patience: t.patience}
		if err := w.insist(&one); err != nil {
			all.err, all.unrecorded = err, append(all.unrecorded, r)
		}
		for it := range one.ours {
			all.ours[it] = true
		}
	}
	for _, it := range t.starts {
		one := turn{starts: []*item{it}, patience: t.patience}
		if err := w.insist(&one); err != nil {
			all.err, all.unstarted = err, append(all.unstarted, it)
		}
		for it := range one.ours {
			all.ours[it] = true
		}
	}
	all.took = now() - all.at
	return all
}

// recorded takes in what a turn came to, and calls the handlers of what it started.
func (w *drain) recorded(t turn) {
	if t.err == nil {
		w.took = t.took
	}
	missing := map[*item]bool{}
	for _, r := range t.unrecorded {
		missing[r.it] = true
		if !r.back {
			w.result.Unrecorded++
			w.options.Log.Error("what became of a row could not be recorded; it will be in doubt", "job", w.options.Job, "row", r.it.row.String(), "state", r.to.String(), "error", t.err.Error())
		}
	}
	for _, it := range t.unstarted {
		missing[it] = true
	}
	for _, r := range t.results {
		switch {
		case missing[r.it]:
		case !t.ours[r.it]:
			w.result.Lost++
			if r.back {
				break
			}
			w.result.Overtaken++
			w.options.Log.Warn("a row was worked on, and its claim had ended before that was on record: others may do its work once more", "job", w.options.Job, "row", r.it.row.String(), "result", r.to.String())
		case r.back:
			w.result.Returned++
		default:
			*map[state]*int64{sent: &w.result.Sent, failed: &w.result.Failed, dead: &w.result.Dead, unknown: &w.result.Unknown, pending: &w.result.Retry}[r.to]++
			if r.err != nil {
				w.options.Log.Warn(notSent(r.to), r.facts(w.options.Job)...)
			}
		}
	}
	late := now()-t.at+w.options.Timeout+margin > w.options.Lease
	for _, it := range t.starts {
		switch {
		case missing[it]:
		case !t.ours[it]:
			w.result.Lost++
		case late || w.stop != nil:
			it.begun = true
			w.giveBack([]*item{it})
		default:
			w.run(it)
		}
	}
	if len(t.results) > 0 && now() > w.fresh {
		w.nothing = false // there may be new ones
	}
	if t.err != nil {
		if w.engine.refused(t.err) {
			w.halt(w.refuse("see what the database says; rows that it concerns are in doubt once their lease has ended", "%v", t.err))
			return
		}
		w.halt(w.unavailable(t.err))
		w.queue = nil // pending again when their leases end
	}
}

// notSent says what is known of a row that was not sent, or perhaps.
func notSent(to state) string {
	if to == unknown {
		return "nobody knows whether a row was sent"
	}
	return "a row was not sent"
}

// facts are what the log has of a result.
func (r result) facts(job string) []any {
	all := []any{"job", job, "row", r.it.row.String(), "state", r.to.String(), "attempt", r.it.row.Attempt, "error", r.err.Error()}
	if r.to == pending {
		all = append(all, "wait", r.wait.Round(100*time.Millisecond))
	}
	return all
}

// margin is the least that must be left of a lease after a handler's time-out, to record what it did.
const margin = time.Second

// run calls the handler of a started row.
func (w *drain) run(it *item) {
	ctx, stop := context.WithCancelCause(w.handlers)
	it.begun, it.stop = true, stop
	it.row.Attempt++
	w.running[it] = true
	go func() {
		defer stop(nil)
		w.work(ctx, w.handle, it, w.ended)
	}()
}
