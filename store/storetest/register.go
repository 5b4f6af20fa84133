package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// The lease register is what the leases of one job must look like, taken
// together: at most one at a time, each with a higher fence than all before it,
// renewed and finished by nobody but its run, and ended by its own finish or
// by its time only.

// step is an operation on the register; answer is what came of it.
type step struct {
	op  string // claim, renew, finish (once a run), revoke or kill
	job string
	run string
}

type answer struct {
	ok bool // it was given, renewed or finished; false: refused, lost
	// unsure: of a finish whose reply was lost and whose run was pruned before it was
	// repeated: it may have been finished, and the lease is over in any case.
	unsure bool
	fence  int64     // of a claim
	at     time.Time // the store's time of a claim or renewal
	ttl    time.Duration
	// from and to are the store's times before and after the operation.
	from, to time.Time
}

// register is its state. The zero value is a job that never ran.
type register struct {
	holder  string
	fence   int64 // the highest given
	expires int64 // when the holder's lease ends, in µs
	revoked bool
	killed  bool // the holder's process is dead: where leases do not expire, this one may end
}

// slack is how exactly a store keeps the end of a lease, in µs.
const slack = 2000

// after is the register after the step, if the answer was right.
func (r register) after(s step, a answer) (bool, register) {
	over := func(at time.Time) bool { return r.holder == "" || r.killed || at.UnixMicro()+slack >= r.expires }
	mine := r.holder == s.run
	switch s.op {
	case "claim":
		if !a.ok {
			return true, r
		}
		if mine { // repeated
			ok := !over(a.at) && !r.revoked && a.fence == r.fence
			r.expires = until(a)
			return ok, r
		}
		return over(a.at) && a.fence > r.fence, register{holder: s.run, fence: a.fence, expires: until(a)}
	case "renew":
		if a.ok {
			ok := mine && !r.revoked && a.at.UnixMicro() < r.expires+slack
			r.expires = until(a)
			return ok, r
		}
		return !mine || r.revoked || over(a.to), r
	case "finish":
		if a.unsure {
			if mine {
				r = register{fence: r.fence}
			}
			return true, r
		}
		if a.ok {
			return mine && a.from.UnixMicro() < r.expires+slack, register{fence: r.fence}
		}
		return !mine || over(a.to), r
	case "revoke":
		r.revoked = r.holder != ""
		return true, r
	case "kill":
		r.killed = r.killed || mine
		return true, r
	}
	panic("no such step: " + s.op)
}

// until is when a lease ends that was given or renewed so.
func until(a answer) int64 {
	if a.ttl == 0 {
		return math.MaxInt64 - slack
	}
	return a.at.Add(a.ttl).UnixMicro()
}

// registers is the model of many jobs' registers.
func registers() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byJob := map[string][]porcupine.Operation{}
			for _, op := range history {
				job := op.Input.(step).job
				byJob[job] = append(byJob[job], op)
			}
			var parts [][]porcupine.Operation
			for _, ops := range byJob {
				parts = append(parts, ops)
			}
			return parts
		},
		Init: func() any { return register{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(register).after(input.(step), output.(answer))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}
