package guard

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// told are the variables by which a command is told of its run.
var told = []string{"CRONCE_JOB", "CRONCE_RUN_ID", "CRONCE_ATTEMPT", "CRONCE_TICK", "CRONCE_FENCE", "CRONCE_DEADLINE", "CRONCE_PREVIOUS_SUCCESS"}

// Environment returns the environment env with what the command is told of its
// run, and without what another run around it was told. attempt is the run's own,
// from 1: a re-run counts on. The run is ended at the deadline, if that is not zero.
func Environment(env []string, l cronce.Lease, attempt int, deadline time.Time) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(told, name)
	})
	env = append(env,
		"CRONCE_JOB="+l.Run.Job,
		"CRONCE_RUN_ID="+l.Run.ID,
		"CRONCE_ATTEMPT="+strconv.Itoa(attempt+max(l.Run.Attempt-1, 0)),
	)
	if !l.Run.Tick.IsZero() {
		env = append(env, "CRONCE_TICK="+cronce.Stamp(l.Run.Tick))
	}
	if l.Run.Fence > 0 {
		env = append(env, "CRONCE_FENCE="+strconv.FormatInt(l.Run.Fence, 10))
	}
	if !deadline.IsZero() {
		env = append(env, "CRONCE_DEADLINE="+cronce.Stamp(deadline))
	}
	if !l.PreviousSuccess.IsZero() {
		env = append(env, "CRONCE_PREVIOUS_SUCCESS="+cronce.Stamp(l.PreviousSuccess))
	}
	return env
}

// lastOfEach keeps the last value of each variable: which of two a program
// sees would depend on the program.
func lastOfEach(env []string) []string {
	out := make([]string, 0, len(env))
	at := make(map[string]int, len(env))
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		i, again := at[name]
		switch {
		case !ok: // no variable, but passed on as it came
			out = append(out, kv)
		case again:
			out[i] = kv
		default:
			at[name] = len(out)
			out = append(out, kv)
		}
	}
	return out
}
