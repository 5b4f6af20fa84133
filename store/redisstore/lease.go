package redisstore

import (
	"context"
	"fmt"
	"strconv"

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

// Finish is one script, which others' ends share.
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
	s := &step{keys: d.keys(l.Run.Job, leaseKeys), args: []string{l.Run.ID, tailOf(r), success}}
	var err error
	if output := r.Output[max(0, len(r.Output)-keepOutput):]; len(output) == 0 {
		err = d.ends[d.bucketOf(l.Run.Job)].do(ctx, s)
	} else {
		s.keys = append(s.keys, d.keys(l.Run.Job, jobKeys)[outputKey])
		s.args = append(s.args, string(output), strconv.Itoa(keepOutputs))
		err = d.finishAll(ctx, 0, []*step{s})
	}
	switch {
	case err != nil:
		return err
	case s.answer[0] == "finished":
		return nil
	case s.answer[0] == "lost":
		return cronce.ErrLost
	}
	return fmt.Errorf("store %s: a finish was answered with %q", d.place, s.answer)
}

// finishAll runs the script for several ends of one bucket; one with output is alone.
func (d *driver) finishAll(ctx context.Context, _ int, steps []*step) error {
	var keys []string
	args := d.args([]string{strconv.Itoa(len(steps))})
	for _, s := range steps {
		keys, args = append(keys, s.keys...), append(args, s.args...)
	}
	answer, err := d.answer(finishScript.run(ctx, d.client, keys, args))
	if err == nil && len(answer) != len(steps) {
		err = fmt.Errorf("store %s: %d ends were answered with %q", d.place, len(steps), answer)
	}
	if err != nil {
		return err
	}
	for i, s := range steps {
		s.answer = answer[i : i+1]
	}
	return nil
}
