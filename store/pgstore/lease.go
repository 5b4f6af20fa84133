package pgstore

import (
	"context"
	"errors"
	"strings"

	"github.com/cronce/cronce"
)

// How much is kept of the texts of a result.
const (
	maxOutput  = 64 << 10 // the last bytes
	maxMessage = 1 << 10  // the first ones
)

// Renew makes a lease end its TTL from now.
func (d *driver) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	if !runID.MatchString(l.Run.ID) {
		return l, cronce.ErrLost
	}
	a, err := d.step(ctx, "renew", question{
		"job": l.Run.Job, "run": l.Run.ID, "holder": cleanHolder(l.Run.Holder), "orphaned": l.Orphaned,
	})
	if err != nil {
		return l, err
	}
	switch a.Answer {
	case "lease":
		return a.lease(l), nil
	case "revoked":
		return l, a.revoked()
	case "lost":
		return l, cronce.ErrLost
	}
	return l, d.unknown("renew", a)
}

// Finish records a result and gives up the lease.
func (d *driver) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	if !runID.MatchString(l.Run.ID) {
		return cronce.ErrLost
	}
	if err := d.finishAtOnce(ctx, l, r); !errors.Is(err, errNotAtOnce) {
		return err
	}
	q := question{"job": l.Run.Job, "run": l.Run.ID, "outcome": r.Outcome}
	if r.ExitCode != 0 {
		q["exit"] = r.ExitCode
	}
	if r.Signal != "" {
		q["signal"] = clean(r.Signal)
	}
	if r.Message != "" {
		q["message"] = messageOf(r)
	}
	if r.OutputBytes != 0 {
		q["output"] = r.OutputBytes
	}
	if r.Attempts != 0 {
		q["attempts"] = r.Attempts
	}
	if len(r.Output) > 0 {
		q["tail"] = r.Output[max(0, len(r.Output)-maxOutput):] // base64, in JSON
	}
	a, err := d.step(ctx, "finish", q)
	switch {
	case err != nil:
		return err
	case a.Answer == "done":
		return nil
	case a.Answer == "lost":
		return cronce.ErrLost
	}
	return d.unknown("finish", a)
}

func messageOf(r cronce.Result) string {
	return strings.ToValidUTF8(clean(r.Message[:min(len(r.Message), maxMessage)]), "")
}
