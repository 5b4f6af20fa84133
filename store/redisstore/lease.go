package redisstore

import (
	"context"
	"fmt"

	"github.com/cronce/cronce"
)

// Renew is one script.
func (d *driver) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	if checkID(l.Run.ID) != nil {
		return l, cronce.ErrLost
	}
	orphaned := ""
	if l.Orphaned {
		orphaned = "1"
	}
	a, err := d.run(ctx, renewScript, d.keys(l.Run.Job, leaseKeys), l.Run.ID, holderOf(l.Run.Holder), encode(l.Run), orphaned)
	if err != nil {
		return l, err
	}
	switch a[0] {
	case "renewed": // now, ttl, request to stop
		l.Granted, l.TTL, l.Stop = d.time(a[1]), duration(a[2]), nil
		if a[3] != "" {
			stop, err := decodeRequest(a[3])
			if err != nil {
				return l, err
			}
			l.Stop = &stop
		}
		return l, nil
	case "revoked":
		return l, revoked(a[1])
	case "lost":
		return l, cronce.ErrLost
	}
	return l, fmt.Errorf("store %s: a renewal was answered with %q", d.place, a)
}

// Finish is one script.
func (d *driver) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	if checkID(l.Run.ID) != nil {
		return cronce.ErrLost
	}
	success := ""
	if r.Outcome == cronce.Succeeded {
		if success = micros(l.Run.Tick); success == "" {
			success = micros(l.Run.Start)
		}
	}
	output := r.Output[max(0, len(r.Output)-keepOutput):]
	keys := leaseKeys
	if len(output) > 0 {
		keys = jobKeys
	}
	a, err := d.run(ctx, finishScript, d.keys(l.Run.Job, keys), l.Run.ID, tailOf(r), success, string(output), fmt.Sprint(keepOutputs))
	switch {
	case err != nil:
		return err
	case a[0] == "finished":
		return nil
	case a[0] == "lost":
		return cronce.ErrLost
	}
	return fmt.Errorf("store %s: a finish was answered with %q", d.place, a)
}
