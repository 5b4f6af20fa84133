package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cronce/cronce"
)

// sum prints the counts, and compares them with the promise and with what is
// on record.
func (n *night) sum(first int64, ticks int, v *visits) error {
	runs, err := n.runs(context.WithoutCancel(n.ctx), first)
	if err != nil {
		return err
	}
	byTick := map[int64][]cronce.Run{}
	for _, r := range runs {
		byTick[r.Tick.Unix()] = append(byTick[r.Tick.Unix()], r)
	}
	var with count
	var lost []string
	var wrong []error
	for tick := first; tick < first+int64(ticks); tick++ {
		got := n.receivers.of(tick)
		with.add(got)
		why, err := n.killed.verdict(tick, got, byTick[tick])
		if why != "" {
			lost = append(lost, why)
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	fmt.Fprintf(n.out, `
                  ticks  updates  most for a receiver and tick
  without cronce %s
  with cronce    %s

With cronce %d ticks reached each of %d receivers exactly once.
%sThrough nginx %d requests were answered, %d of them during the rolling restarts, and %d failed. They saw %d policies.
`, n.plain, with, ticks-len(lost)-len(wrong), len(n.receivers.addresses), strings.Join(lost, ""), v.answered, v.meantime, len(v.failed), len(v.versions))
	if len(v.failed) > 0 {
		wrong = append(wrong, fmt.Errorf("%d requests through nginx failed, the first: %s", len(v.failed), v.failed[0]))
	}
	return errors.Join(wrong...)
}

// verdict holds what the receivers got of a tick against what is on record. A
// tick is run and reaches each of them once; or it is lost, with the process that
// was killed, and reached some of them once, which is told.
func (k *killed) verdict(tick int64, got *tally, runs []cronce.Run) (lost string, err error) {
	if len(runs) != 1 {
		return "", fmt.Errorf("tick %s: %d decisions are on record instead of one", clock(tick), len(runs))
	}
	r := runs[0]
	reached := 0
	for i, n := range got.updates {
		if n > 1 {
			return "", fmt.Errorf("tick %s: receiver %d got it %d times", clock(tick), i+1, n)
		}
		reached += n
	}
	switch {
	case r.Outcome == cronce.Succeeded && reached == len(got.updates):
		return "", nil
	case r.Outcome == cronce.Lost && r.Holder.PID == k.pid:
		return fmt.Sprintf("Tick %s: lost with server %s, killed (pid %d) when %d of %d receivers had it, once each; its run %s is on record as lost.\n",
			clock(tick), k.name, k.pid, reached, len(got.updates), r.ID), nil
	}
	return "", fmt.Errorf("tick %s: %s%s %s on record, and %d of %d receivers got it", clock(tick), r.Outcome, r.Skip, r.Message, reached, len(got.updates))
}
