package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/cronce/cronce"
)

var policies = map[cronce.OverlapPolicy]string{
	cronce.OverlapSkip: "skip", cronce.OverlapWait: "wait", cronce.OverlapReplace: "replace", cronce.OverlapAllow: "allow",
}

// Claim is one script, which others' claims share.
func (d *driver) Claim(ctx context.Context, c cronce.Claim) (cronce.Lease, error) {
	if err := checkID(c.RunID); err != nil {
		return cronce.Lease{}, err
	}
	s := &step{keys: d.keys(c.Job, orderKeys), args: append(argsOf(c), strconv.FormatInt(d.memory.of(c.Job), 10))}
	bucket := d.bucketOf(c.Job)
	replace := c.Overlap.Policy == cronce.OverlapReplace
	if replace {
		s.keys = append(s.keys, d.keys(c.Job, jobKeys)[requestKey])
	}
	var err error
	switch {
	case d.replicas > 0:
		err = d.claimOnReplicas(ctx, bucket, s)
	case replace:
		err = d.claimAll(ctx, bucket, []*step{s})
	default:
		err = d.claims[bucket].do(ctx, s)
	}
	if err != nil {
		return cronce.Lease{}, err
	}
	return d.decision(ctx, c, s.answer)
}

// argsOf is what the script has of a claim, but for the fence; quick.lua says what
// each is.
func argsOf(c cronce.Claim) []string {
	field, definition, catchUp := "", "", "0"
	if !c.Tick.IsZero() {
		field = "t:" + strconv.FormatInt(c.Tick.Unix(), 10) + "/" + strconv.Itoa(c.Attempt)
	}
	if c.Definition != (cronce.Definition{}) {
		definition = text(c.Definition)
	}
	if c.CatchUp {
		catchUp = "1"
	}
	rest := strconv.Itoa(c.Slots) + " " + policies[c.Overlap.Policy] + " " + us(c.Overlap.Wait) + " " + us(c.StartDeadline) + " " + micros(c.Offered) + " " + catchUp
	return []string{c.RunID, field, micros(c.Tick), lastOffer(c), definition, fmt.Sprintf("%08d", c.TTL.Microseconds()), headOf(c), rest}
}

// lastOffer is until when, by the server's clock, the claim is in time, if it
// is one of the common kind.
func lastOffer(c cronce.Claim) string {
	const never, always = "0", "9007199254740991" // the last whole number of Lua
	switch last := c.Tick.Add(c.StartDeadline); {
	case c.Overlap.Policy == cronce.OverlapAllow, c.Attempt > 1:
		return never
	case c.StartDeadline == 0:
		return always
	case c.Offered.IsZero():
		return micros(last)
	case c.Offered.After(last):
		return never
	}
	return always
}

// claimAll runs the script for several claims of one bucket.
func (d *driver) claimAll(ctx context.Context, bucket int, steps []*step) error {
	return d.claim(ctx, d.client, bucket, steps)
}

func (d *driver) claim(ctx context.Context, c doer, bucket int, steps []*step) error {
	tag := tagOf(bucket)
	keys, args := []string{tag, tag + ":jobs"}, d.args([]string{us(d.quarantine), strconv.Itoa(d.keep)})
	for _, s := range steps {
		keys, args = append(keys, s.keys...), append(args, s.args...)
	}
	answers, err := claimScript.run(ctx, c, keys, args).ToArray()
	if err != nil {
		return d.failed(err)
	}
	if len(answers) != len(steps) {
		return fmt.Errorf("store %s: %d claims were answered with %d decisions", d.place, len(steps), len(answers))
	}
	for i, s := range steps {
		if s.answer, err = answers[i].AsStrSlice(); err != nil {
			return d.failed(err)
		}
	}
	return nil
}

// claimOnReplicas waits for the replicas on the connection that has the claim, as WAIT is for
// what that one wrote. If too few acknowledge it, it is decided all the same, and can be repeated.
func (d *driver) claimOnReplicas(ctx context.Context, bucket int, s *step) error {
	return d.client.Dedicated(func(c rueidis.DedicatedClient) error {
		err := d.claim(ctx, c, bucket, []*step{s})
		if err != nil || s.answer[0] != "lease" && s.answer[0] != "again" {
			return err
		}
		patience := timeout / 2
		if end, ok := ctx.Deadline(); ok {
			patience = min(patience, time.Until(end)/2)
		}
		got, err := c.Do(ctx, c.B().Wait().Numreplicas(int64(d.replicas)).Timeout(max(1, patience.Milliseconds())).Build()).AsInt64()
		if err != nil {
			return d.failed(err)
		}
		if got < int64(d.replicas) {
			return &cronce.UnavailableError{Store: d.place, Err: fmt.Errorf("%d of %d replicas acknowledged the claim within %s", got, d.replicas, patience)}
		}
		return nil
	})
}

// decision is the script's answer.
func (d *driver) decision(ctx context.Context, c cronce.Claim, a []string) (cronce.Lease, error) {
	var none cronce.Lease
	switch a[0] {
	case "lease": // now, slot, fence, success
		run := d.runOf(c, a[1], a[2])
		run.Fence, _ = strconv.ParseInt(a[3], 10, 64)
		d.memory.keep(c.Job, run.Fence)
		return cronce.Lease{Run: run, Granted: run.Start, TTL: c.TTL, PreviousSuccess: d.time(a[4])}, nil
	case "again": // now, ttl, success, record
		run, err := decode(a[4])
		return cronce.Lease{Run: run, Granted: d.time(a[1]), TTL: duration(a[2]), PreviousSuccess: d.time(a[3])}, err
	case "revoked":
		return none, revoked(a[1])
	case "decided": // record, its holder's record, pause
		run, err := decode(a[1])
		if err != nil {
			return none, err
		}
		if run.Skip == "" {
			return none, &cronce.TakenError{Job: c.Job, Tick: run.Tick, Run: run}
		}
		return none, skipped(run, a[2], a[3])
	case "conflict": // definition, since
		var kept cronce.Definition
		if err := json.Unmarshal([]byte(a[1]), &kept); err != nil {
			return none, err
		}
		return none, &cronce.ConflictError{Job: c.Job, Kept: kept, Have: c.Definition, Since: d.time(a[2])}
	case "taken": // record, none where it was forgotten
		run := cronce.Run{Job: c.Job, Tick: c.Tick.UTC()}
		if a[1] != "" {
			var err error
			if run, err = decode(a[1]); err != nil {
				return none, err
			}
			d.memory.keep(c.Job, run.Fence)
		}
		return none, &cronce.TakenError{Job: c.Job, Tick: c.Tick.UTC(), Run: run}
	case "watermark": // watermark, now
		return none, d.refuse(fmt.Sprintf("job %q has forgotten ticks up to %s, and the server's clock says %s: every tick until then would be passed over",
			c.Job, cronce.Stamp(d.time(a[1])), cronce.Stamp(d.time(a[2]))),
			"set the clock right; if it is, cronce store reset-watermark "+c.Job)
	case "skew": // now
		return none, &cronce.SkewError{Job: c.Job, Tick: c.Tick.UTC(), Now: d.time(a[1])}
	case "skipped": // now, slot, reason, held, holder's record, pause, first sight
		run := d.runOf(c, a[1], a[2])
		run.Skip, run.Held = cronce.SkipReason(a[3]), a[4]
		if run.Skip == cronce.SkipStoreRestarted {
			d.memory.forget()
			d.sweep(ctx, a[7])
		}
		return none, skipped(run, a[5], a[6])
	case "held": // holder's record, offered, expires, first sight where that is why
		holder := cronce.Run{Job: c.Job}
		if a[1] != "" {
			var err error
			if holder, err = decode(a[1]); err != nil {
				return none, err
			}
			d.memory.keep(c.Job, holder.Fence)
		}
		if a[4] != "0" {
			d.memory.forget()
			d.sweep(ctx, a[4])
		}
		return none, &cronce.HeldError{Holder: holder, Offered: d.time(a[2]), Expires: d.time(a[3])}
	}
	return none, fmt.Errorf("store %s: a claim was answered with %q", d.place, a)
}

// sweep has the other buckets see at once what one has seen: that its server
// may lack decisions. Else each would at its own next claim, and skip a tick
// that is due long afterwards. What fails is left to those claims.
func (d *driver) sweep(ctx context.Context, seen string) {
	if _, done := d.swept.LoadOrStore(seen, true); d.buckets > 1 && !done {
		if err := d.look(ctx, ""); err != nil {
			d.swept.Delete(seen)
		}
	}
}

// runOf is the run of a claim that was decided just now.
func (d *driver) runOf(c cronce.Claim, now, slot string) cronce.Run {
	r := cronce.Run{ID: c.RunID, Job: c.Job, Attempt: c.Attempt, Holder: c.Holder, Start: d.time(now)}
	if !c.Tick.IsZero() {
		r.Tick = c.Tick.UTC()
		r.Slot, _ = strconv.Atoi(slot)
	}
	return r
}

func skipped(run cronce.Run, holder, pause string) error {
	e := &cronce.SkippedError{Run: run}
	if holder != "" {
		h, err := decode(holder)
		if err != nil {
			return err
		}
		e.Holder = &h
	}
	if run.Skip == cronce.SkipPaused && pause != "" {
		p, err := decodeRequest(pause)
		if err != nil {
			return err
		}
		e.Paused = &p
	}
	return e
}

func revoked(text string) error {
	r, err := decodeRequest(text)
	if err != nil {
		return errors.Join(cronce.ErrLost, err)
	}
	return &cronce.RevokedError{Request: r}
}

// us writes a duration as the scripts have it.
func us(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func duration(us string) time.Duration {
	n, _ := strconv.ParseInt(us, 10, 64)
	return time.Duration(n) * time.Microsecond
}
