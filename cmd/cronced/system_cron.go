package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cronRuns finds a cron daemon that reads the crontabs of this machine: a
// process of root's, of a program named cron or crond, that sees the same
// files. One in a container has crontabs of its own.
func cronRuns() (pid int, ok bool) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return 0, false
	}
	for _, dir := range processes {
		name, err := os.ReadFile(dir + "/comm")
		comm := strings.TrimSpace(string(name))
		if err != nil || !strings.EqualFold(comm, "cron") && !strings.EqualFold(comm, "crond") {
			continue
		}
		// The owner of the folder is root's for many a process of others.
		status, err := os.ReadFile(dir + "/status")
		if err != nil || !strings.Contains(string(status), "\nUid:\t0\t0\t0\t0\n") {
			continue
		}
		// A script of that name has another program.
		program, err := os.Readlink(dir + "/exe")
		base := filepath.Base(strings.TrimSuffix(program, " (deleted)"))
		if err != nil || base != "cron" && base != "crond" && base != "busybox" {
			continue
		}
		if theirs, err := os.Readlink(dir + "/ns/mnt"); err == nil && theirs == mounts {
			pid, _ = strconv.Atoi(filepath.Base(dir))
			return pid, true
		}
	}
	return 0, false
}

// cronRebooted is where cron leaves word, an empty file that goes with the boot,
// that it has run the @reboot lines.
const cronRebooted = "/run/crond.reboot"

// bootIsOurs reports whether the @reboot lines of cron's crontabs are for us to
// run in this boot, and leaves word for a cron that comes later.
func bootIsOurs() bool {
	const word = "cronce serve --system runs them\n"
	f, err := os.OpenFile(cronRebooted, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		info, err := os.Stat(cronRebooted)
		return err == nil && info.Size() > 0 // ours, of an earlier start
	}
	if err != nil {
		return true // there is no such place, so cron left no word either
	}
	defer f.Close()
	f.WriteString(word)
	return true
}
