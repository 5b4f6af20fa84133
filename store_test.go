package cronce

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever has to wait is told for whom, also where the store does not know.
func TestHeldError_SaysForWhom(t *testing.T) {
	start := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		held HeldError
		want string
	}{
		{HeldError{Holder: Run{ID: "r1", Job: "backup", Holder: Holder{Host: "web1", PID: 7}, Start: start}},
			`job "backup" is held: run r1, pid 7 on web1, since 2026-11-30T14:00:00Z`},
		{HeldError{Holder: Run{Job: "backup", Holder: Holder{Host: "web1", PID: 7}}},
			`job "backup" is held: pid 7 on web1, a run that is not on record`},
		{HeldError{Holder: Run{Job: "backup"}, Expires: start},
			`job "backup": the store is new or may have lost records: a run that it knows nothing of may go on until 2026-11-30T14:00:00Z`},
	} {
		if got := c.held.Error(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// forgetful is a store that may have forgotten its leases until that time.
type forgetful struct {
	Driver
	until  time.Time
	claims int
}

func (d *forgetful) Claim(_ context.Context, c Claim) (Lease, error) {
	d.claims++
	now := time.Now()
	if c.Offered.IsZero() {
		c.Offered = now
	}
	if now.Before(d.until) {
		return Lease{}, &HeldError{Holder: Run{Job: c.Job}, Offered: c.Offered, Expires: d.until}
	}
	return Lease{Run: Run{ID: c.RunID, Job: c.Job, Start: now}}, nil
}

// A store that has just come back is not asked by the whole fleet ten times a second for
// each tick that waits; and what waits begins as soon as it may.
func TestDecide_StoreThatForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		onBubbleClock(t)
		d := &forgetful{until: time.Now().Add(MaxTTL)}
		l, err := NewStore(d).Decide(t.Context(), Claim{RunID: NewRunID(), Job: "job"})
		if err != nil {
			t.Fatal(err)
		}
		if late := l.Run.Start.Sub(d.until); late > pollHeld {
			t.Errorf("it begins %s after it may", late)
		}
		if d.claims > 20 {
			t.Errorf("%d claims within a minute", d.claims)
		}
	})
}
