//go:build !linux

package cronce

import "time"

var processStart = time.Now()

// bootClock is Go's monotonic clock: on some systems it stands still while the
// machine sleeps.
func bootClock() time.Duration { return time.Since(processStart) }
