package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/cronce/cronce"
)

// policies are the overlap policies by their names in the schema.
var policies = map[cronce.OverlapPolicy]string{
	cronce.OverlapSkip: "skip", cronce.OverlapWait: "wait", cronce.OverlapReplace: "replace", cronce.OverlapAllow: "allow",
}

// runID is a UUID as cronce writes it. The server takes others, and gives them
// back in another spelling.
var runID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// uniqueViolation is the code of an error.
const uniqueViolation = "23505"

// Claim decides a tick.
func (d *driver) Claim(ctx context.Context, c cronce.Claim) (cronce.Lease, error) {
	l, err := d.claim(ctx, c)
	d.memory.learn(c.Job, l, err)
	return l, err
}

func (d *driver) claim(ctx context.Context, c cronce.Claim) (cronce.Lease, error) {
	if !runID.MatchString(c.RunID) {
		return cronce.Lease{}, fmt.Errorf("job %q: run id %q is not a UUID in lower case", c.Job, c.RunID)
	}
	if l, err := d.claimAtOnce(ctx, c); !errors.Is(err, errNotAtOnce) {
		return l, err
	}
	q := question{
		"job": c.Job, "run": c.RunID, "slots": c.Slots, "attempt": c.Attempt,
		"overlap": policies[c.Overlap.Policy], "wait": c.Overlap.Wait.Microseconds(), "catch_up": c.CatchUp,
		"ttl": c.TTL.Microseconds(), "holder": cleanHolder(c.Holder), "quarantine": d.quarantine.Microseconds(),
	}
	if def := cleanDefinition(c.Definition); def != (cronce.Definition{}) {
		q["definition"] = def
	}
	if !c.Tick.IsZero() {
		q["tick"] = c.Tick.UTC()
	}
	if !c.Offered.IsZero() {
		q["offered"] = c.Offered.UTC()
	}
	if fence := d.memory.of(c.Job); fence > 0 {
		q["fence"] = fence
	}
	if c.StartDeadline > 0 {
		q["deadline"] = c.StartDeadline.Microseconds()
	}
	a, err := d.step(ctx, "claim", q)
	if e := asPgError(err); e != nil && e.Code == uniqueViolation {
		// The tick was decided while the claim waited for the job's row, and the
		// claim undone.
		q["care"] = true
		a, err = d.step(ctx, "claim", q)
	}
	if err != nil {
		return cronce.Lease{}, err
	}
	return d.claimed(c, a)
}

// claimed is what the answer to a claim means.
func (d *driver) claimed(c cronce.Claim, a answer) (cronce.Lease, error) {
	var none cronce.Lease
	switch a.Answer {
	case "lease":
		return a.lease(cronce.Lease{Run: a.Run, PreviousSuccess: a.Success.UTC()}), nil
	case "taken":
		return none, &cronce.TakenError{Job: c.Job, Tick: c.Tick, Run: a.Run}
	case "skipped":
		return none, &cronce.SkippedError{Run: a.Run, Holder: a.Holder, Paused: a.Request}
	case "held":
		return none, &cronce.HeldError{Holder: a.Run, Offered: a.Offered.UTC(), Expires: a.Expires.UTC()}
	case "revoked":
		return none, a.revoked()
	case "conflict":
		return none, &cronce.ConflictError{Job: c.Job, Kept: a.Definition, Have: c.Definition, Since: a.Since.UTC()}
	case "skew":
		return none, &cronce.SkewError{Job: c.Job, Tick: c.Tick, Now: a.Now.UTC()}
	case "watermark":
		return none, &cronce.ConfigError{Store: d.place,
			What: fmt.Sprintf("job %q has a pruning watermark of %s, ahead of the database's clock (%s)", c.Job, cronce.Stamp(a.Watermark), cronce.Stamp(a.Now)),
			Cure: "set the clock of the database's host, or take the watermark back with cronce store reset-watermark"}
	}
	return none, d.unknown("claim", a)
}

// lease is the lease that the answer gives or renews.
func (a answer) lease(l cronce.Lease) cronce.Lease {
	l.Granted, l.TTL, l.Stop = a.Granted.UTC(), time.Duration(a.TTL)*time.Microsecond, a.Stop
	return l
}

// revoked is the answer for a lease that was taken away.
func (a answer) revoked() error {
	if a.Request == nil {
		return cronce.ErrLost
	}
	return &cronce.RevokedError{Request: *a.Request}
}

// unknown is an answer of a function that is not ours, or newer.
func (d *driver) unknown(function string, a answer) error {
	return &cronce.ConfigError{Store: d.place, What: fmt.Sprintf("its function %s gave the answer %q, which this program does not know", function, a.Answer),
		Cure: "use the newest cronce of the fleet"}
}

func cleanHolder(h cronce.Holder) cronce.Holder {
	h.Host, h.User, h.Via = clean(h.Host), clean(h.User), clean(h.Via)
	return h
}

func cleanDefinition(def cronce.Definition) cronce.Definition {
	def.Schedule, def.Zone, def.Policies = clean(def.Schedule), clean(def.Zone), clean(def.Policies)
	return def
}
