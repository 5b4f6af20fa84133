package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

// bootOf is the tick of a job's @reboot line for this boot of the machine, and
// the id of its run. The clock may be set between boot and now, so that the
// tick is not the same each time; the id is, by the kernel's own id of the boot.
func bootOf(job string) (tick time.Time, runID string, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return tick, "", fmt.Errorf("which boot this is: %w", err)
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return tick, "", fmt.Errorf("when the machine was started: %w", err)
	}
	var seconds float64
	if _, err := fmt.Sscan(string(text), &seconds); err != nil {
		return tick, "", fmt.Errorf("/proc/uptime: %w", err)
	}
	tick = time.Now().Add(-time.Duration(seconds * float64(time.Second))).Truncate(time.Second)
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(id)) + "|" + job))
	// A UUIDv7 of the time 0: older than any other run of the job.
	x := "000000000000" + "7" + hex.EncodeToString(sum[:])[:19]
	return tick, x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-8" + x[17:20] + "-" + x[20:32], nil
}
