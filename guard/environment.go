package guard

import (
	"strconv"
	"time"

	"github.com/cronce/cronce"
)

// Environment is what a command is told of its run, for the end of its
// environment. attempt is from 1; timeout is the job's.
func Environment(l cronce.Lease, attempt int, timeout time.Duration) []string {
	env := []string{
		"CRONCE_JOB=" + l.Run.Job,
		"CRONCE_RUN_ID=" + l.Run.ID,
		"CRONCE_ATTEMPT=" + strconv.Itoa(attempt),
	}
	if !l.Run.Tick.IsZero() {
		env = append(env, "CRONCE_TICK="+cronce.Stamp(l.Run.Tick))
	}
	if l.Run.Fence > 0 {
		env = append(env, "CRONCE_FENCE="+strconv.FormatInt(l.Run.Fence, 10))
	}
	if timeout > 0 {
		env = append(env, "CRONCE_DEADLINE="+cronce.Stamp(time.Now().Add(timeout)))
	}
	if !l.PreviousSuccess.IsZero() {
		env = append(env, "CRONCE_PREVIOUS_SUCCESS="+cronce.Stamp(l.PreviousSuccess))
	}
	return env
}
