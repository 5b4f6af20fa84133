package cronce

import (
	"context"
	"errors"
	"time"
)

// watchLease is how often a lease that does not expire is looked after, and how
// often the end of one that does is looked at: timers stand still while the machine
// sleeps, leases do not.
const watchLease = time.Second

// Tend looks after a lease until ctx ends, and calls news, from one goroutine, with
// the lease as it is after each renewal, and with why work must end, when it must:
// an [ErrLost] or a *[StopError]. After a StopError, and while work winds down, the
// lease goes on being renewed: call it until the work has ended. After an ErrLost
// it returns.
//
// A lease that expires is renewed each third of its TTL, with a sixth for each
// attempt; see [Lease.StopAt] for what happens when no attempt succeeds.
func (s *Store) Tend(ctx context.Context, l Lease, news func(l Lease, why error)) {
	if l.TTL > 0 {
		s.tendExpiring(ctx, l, news)
		return
	}
	ticker := time.NewTicker(watchLease)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		renewed, err := s.Renew(ctx, l)
		switch {
		case errors.Is(err, ErrLost):
			news(l, err)
			return
		case err != nil: // such a lease does not end by itself: try again
		case renewed.Stop != nil:
			news(renewed, &StopError{*renewed.Stop})
			return // that is all there is to be heard, and nothing to be renewed
		default:
			l = renewed
			news(l, nil)
		}
	}
}

// renewal is what came of an attempt to renew a lease.
type renewal struct {
	lease    Lease
	received time.Duration // on SinceBoot
	err      error
}

// tendExpiring is Tend for a lease that expires.
func (s *Store) tendExpiring(ctx context.Context, l Lease, news func(Lease, error)) {
	var (
		answers  = make(chan renewal, 1)
		asking   bool
		due      = l.Sent + l.TTL/3 // of the next attempt
		received = sinceBoot()      // the last answer, at the latest
		failed   error              // what came of the last attempt
		told     bool               // that work must end
	)
	defer func() {
		if asking {
			<-answers // ctx has ended
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := sinceBoot()
		if now >= l.StopAt() {
			news(l, &NotRenewedError{now - l.Sent, failed})
			return
		}
		wait := min(l.StopAt()-now, watchLease)
		if !asking && now >= due {
			asking = true
			go s.attempt(ctx, l, answers)
		} else if !asking {
			wait = min(wait, due-now)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case a := <-answers:
			asking = false
			switch {
			case errors.Is(a.err, ErrLost):
				news(l, a.err)
				return
			case a.err != nil:
				failed, due = a.err, sinceBoot()+l.TTL/30
				continue
			}
			why := drift(l, received, a)
			if why == nil && a.lease.Stop != nil && !told {
				why = &StopError{*a.lease.Stop}
			}
			told = told || why != nil
			l, received, failed, due = a.lease, a.received, nil, a.lease.Sent+a.lease.TTL/3
			news(l, why)
		}
	}
}

// attempt tries to renew a lease, for a sixth of its TTL.
func (s *Store) attempt(ctx context.Context, l Lease, answers chan<- renewal) {
	ctx, cancel := context.WithTimeout(ctx, l.TTL/6)
	defer cancel()
	renewed, err := s.Renew(ctx, l)
	answers <- renewal{renewed, sinceBoot(), err}
}

// drift compares the two clocks over the time from the lease's last answer, which
// came by received, to a newer one. What the requests took is not known one way, so
// only more than that, and the margin, counts.
func drift(l Lease, received time.Duration, a renewal) error {
	store := a.lease.Granted.Sub(l.Granted)
	least, most := a.lease.Sent-received, a.received-l.Sent
	switch {
	case store > most+l.margin():
		return &DriftError{Store: store, Host: most}
	case store < least-l.margin():
		return &DriftError{Store: store, Host: least}
	}
	return nil
}
