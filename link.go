package cronce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// link is a scheduler's link to a store that hosts share: it knows the store's time,
// and whether anything may be started, that is, whether the store can be reached and
// this host's clock is not too far off.
type link struct {
	store   *Store
	report  func(Event)
	renewed func() // called when something may be started again
	// probe has one thing done that waits for the store, and reports false where nothing does.
	probe func() bool

	mu    sync.Mutex
	last  sample
	open  bool
	doors chan struct{} // closed while open
	away  error         // why the store cannot be reached, once that was said
	// doubt: it was lost by what it did with a claim, and has answered when it was looked at
	// since. It may be one that takes no writes: it is back when a claim is answered.
	doubt   bool
	waiting int           // claims that are made again once the doors are open
	skew    skewLevel     // as it was said last
	again   chan struct{} // tells run that it was lost
}

// sample is the store's time at a moment of this host's.
type sample struct {
	store time.Time
	at    time.Duration // on SinceBoot
	bound time.Duration // how far off it is at most
}

// skewLevel is how far this host's clock is off.
type skewLevel int

const (
	skewNone    skewLevel = iota
	skewShown             // worth a word
	skewRefused           // beyond MaxSkew: nothing is started
)

const (
	measureEvery = time.Minute            // how often the store's clock is looked at
	lookPatience = 5 * time.Second        // for one look
	firstPause   = 200 * time.Millisecond // between looks at a store that is away,
	longestPause = 10 * time.Second       // growing up to this
	showSkew     = 2 * time.Second        // how far off a host's clock may be unmentioned
)

// ClockError says that this host's clock is off, compared with that of the store that
// it shares. Ticks are by the store's clock, so that this does no harm by itself; but
// what the jobs themselves do by the clock is wrong.
type ClockError struct {
	Ahead time.Duration // negative: behind
	Bound time.Duration // how much of that may be due to how long the answer took
}

func (e *ClockError) Error() string {
	ahead, way := e.Ahead, "ahead of"
	if ahead < 0 {
		ahead, way = -ahead, "behind"
	}
	text := fmt.Sprintf("skew: this host's clock is %s %s the store's", ahead.Round(10*time.Millisecond), way)
	if ahead-e.Bound > MaxSkew {
		text += fmt.Sprintf(": nothing is started while it is more than %s: set it, as by NTP", MaxSkew)
	}
	return text
}

func newLink(store *Store, report func(Event), renewed func(), probe func() bool) *link {
	return &link{store: store, report: report, renewed: renewed, probe: probe, doors: make(chan struct{}), again: make(chan struct{}, 1)}
}

// now is the store's time. It is the host's until the store has been reached once.
func (k *link) now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.store.IsZero() {
		return time.Now()
	}
	return k.last.store.Add(sinceBoot() - k.last.at)
}

// run keeps the link until ctx ends. A store that answers but then fails again soon is
// looked at as one that is away.
func (k *link) run(ctx context.Context) {
	gap := firstPause
	var opened time.Duration
	for ctx.Err() == nil {
		if k.look(ctx) == nil {
			opened = sinceBoot()
			every := measureEvery
			if !k.isOpen() { // a clock is off
				every = longestPause
			}
			if k.rest(ctx, every) {
				gap = firstPause
				continue
			}
			if sinceBoot()-opened >= measureEvery {
				gap = firstPause
			}
		}
		pause(ctx, gap/2+rand.N(gap/2))
		gap = min(2*gap, longestPause)
	}
}

// rest reports whether the store was not lost for that long.
func (k *link) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-k.again:
		return false
	case <-timer.C:
	}
	return true
}

// look measures the store's clock, and thereby whether it can be reached.
func (k *link) look(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	sent := sinceBoot()
	store, err := k.store.Now(patient)
	received := sinceBoot()
	select {
	case <-k.again: // it is being looked at
	default:
	}
	if err != nil {
		if ctx.Err() == nil {
			k.lost(err, false)
		}
		return err
	}
	k.take(sample{store: store, at: sent + (received-sent)/2, bound: (received - sent) / 2}, time.Now())
	return nil
}

// drifts is how far two clocks are apart after that time, at worst.
func drifts(d time.Duration) time.Duration { return d / 2000 }

// take takes in a sample: a slow answer tells less than what is known already, unless
// it shows that the store's clock was set.
func (k *link) take(s sample, host time.Time) {
	k.mu.Lock()
	old := k.last
	expected := old.store.Add(s.at - old.at)
	bound := old.bound + drifts(s.at-old.at)
	if apart := s.store.Sub(expected).Abs(); old.store.IsZero() || s.bound <= bound || apart > bound+s.bound {
		k.last = s
	}
	ahead := host.Round(0).Sub(s.store) // but for half the round trip, which is in bound
	level := skewNone
	switch far := ahead.Abs() - s.bound; {
	case far > MaxSkew:
		level = skewRefused
	case far > showSkew:
		level = skewShown
	}
	var events []Event
	if k.open { // and was, since it was looked at last
		k.doubt = false
	}
	doubt := k.doubt
	if k.away != nil && !doubt {
		k.away = nil
		events = append(events, Event{Kind: EventBack})
	}
	if level != k.skew {
		k.skew = level
		e := Event{Kind: EventSkew}
		if level != skewNone {
			e.Err = &ClockError{Ahead: ahead, Bound: s.bound}
		}
		events = append(events, e)
	}
	opened := false
	switch {
	case level == skewRefused:
		k.shut()
	case !k.open:
		k.open, opened = true, true
		close(k.doors)
	}
	k.mu.Unlock()
	for _, e := range events {
		k.report(e)
	}
	switch {
	case !opened || old.store.IsZero():
	case !doubt:
		k.renewed()
	case !k.tried() && !k.probe():
		k.answered() // nobody has anything to ask
	}
}

// tried reports whether there are claims that are made again, now that they may be.
func (k *link) tried() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting > 0
}

// answered takes in that the store has carried something out.
func (k *link) answered() {
	k.mu.Lock()
	back := k.doubt && k.away != nil && k.open
	if back {
		k.doubt, k.away = false, nil
	}
	k.mu.Unlock()
	if back {
		k.report(Event{Kind: EventBack})
		k.renewed()
	}
}

// shut lets nothing be started, with mu held.
func (k *link) shut() {
	if k.open {
		k.open, k.doors = false, make(chan struct{})
	}
}

// lost says that the store did not answer: to a claim, or when it was looked at. It is told
// once, and looked at again soon.
func (k *link) lost(err error, claimed bool) {
	k.mu.Lock()
	tell, news := k.away == nil, k.away == nil || k.open
	if tell {
		k.away = err
	}
	if news || !claimed {
		k.doubt = claimed
	}
	k.shut()
	k.mu.Unlock()
	if tell {
		k.report(Event{Kind: EventAway, Err: err})
	}
	if !news {
		return
	}
	select {
	case k.again <- struct{}{}:
	default:
	}
}

// heard takes in the store's time as the answer to a claim brought it. Where it is far from
// what it should be, the store's clock or this host's was set: nothing is started until they
// have been compared, which is at once.
func (k *link) heard(store time.Time) {
	if store.Sub(k.now()).Abs() <= MaxSkew {
		return
	}
	k.mu.Lock()
	k.shut()
	k.mu.Unlock()
	select {
	case k.again <- struct{}{}:
	default:
	}
}

// isOpen reports whether something may be started.
func (k *link) isOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// wait waits until something may be started, at most until that time by the store's
// clock, if that is not zero, and reports whether it may.
func (k *link) wait(ctx context.Context, until time.Time) bool {
	k.mu.Lock()
	doors := k.doors
	k.mu.Unlock()
	for ctx.Err() == nil {
		limit := watchLease // see there
		if !until.IsZero() {
			if limit = min(limit, until.Sub(k.now())); limit <= 0 {
				return false
			}
		}
		timer := time.NewTimer(limit)
		select {
		case <-doors:
			timer.Stop()
			return true
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}

// waitToTry is wait for who tries again what the store did not carry out.
func (k *link) waitToTry(ctx context.Context, until time.Time) bool {
	count := func(n int) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.waiting += n
	}
	count(1)
	defer count(-1)
	return k.wait(ctx, until)
}

// Answered reports whether a claim's error is the store's answer: with any other, it is
// not known what came of the claim, or nothing did.
func Answered(err error) bool {
	var (
		taken    *TakenError
		skipped  *SkippedError
		held     *HeldError
		conflict *ConflictError
		skew     *SkewError
		config   *ConfigError
		late     *LateAnswerError
	)
	return err == nil || errors.Is(err, ErrLost) || errors.As(err, &taken) || errors.As(err, &skipped) || errors.As(err, &held) ||
		errors.As(err, &conflict) || errors.As(err, &skew) || errors.As(err, &config) || errors.As(err, &late)
}

// claim makes a claim, the same one again and again while the store is away, until that
// time by the store's clock if it is not zero: what was answered first is the answer.
func (k *link) claim(ctx context.Context, c Claim, until time.Time) (Lease, error) {
	ttl := c.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	for {
		if err := ctx.Err(); err != nil {
			return Lease{}, err
		}
		// What was sent is waited for also when ctx ends: it may be won, and its run would
		// be lost. After this time an answer is of no use.
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl/3)
		l, err := k.store.ClaimInTime(patient, c)
		cancel()
		if Answered(err) {
			k.answered()
			return l, err
		}
		if ctx.Err() != nil {
			return l, err
		}
		k.lost(err, true)
		if !k.waitToTry(ctx, until) {
			return l, err
		}
	}
}
