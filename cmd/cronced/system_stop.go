package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// A user can stop that user's process, but not keep root's serve from ending.
const (
	mostGrace = time.Minute      // of a user's jobs that is waited for
	afterwork = 5 * time.Second  // for the records, when the runs have been ended
	patientAt = 10 * time.Second // of waiting it is said for whom
	mostWoken = 10               // times that a process is woken, one each look
)

// stopping is a serve --system that has been asked to stop.
type stopping struct {
	asked time.Time
	gone  chan struct{}    // closed when nobody is served any more
	kill  <-chan time.Time // once asked twice: when the processes that are left are killed
	named bool             // it has been said for whom it waits
}

// begin asks all users' processes to stop.
func (s *system) begin(why string) {
	s.out.say("serve", "%s: no more runs are started; waiting for those that go on (again: they are ended)", why)
	notify("STOPPING=1")
	for _, u := range s.all {
		u.stop(draining)
	}
	s.stopping = stopping{asked: time.Now(), gone: make(chan struct{})}
	go func() {
		defer close(s.stopping.gone)
		for _, u := range s.all {
			<-u.gone
		}
	}()
}

// lookForStopped wakes processes that somebody stopped, and says for whom it waits.
func (s *system) lookForStopped() {
	for _, u := range s.all {
		u.wakeIfStopped()
	}
	if !s.stopping.named && time.Since(s.stopping.asked) >= patientAt {
		s.stopping.named = true
		s.out.say("serve", "waiting for the runs of %s (again: they are ended)", s.waitedFor())
	}
}

// end has the runs ended, and after the longest grace the processes that are left.
func (s *system) end(why string) {
	longest := time.Duration(0)
	for _, u := range s.all {
		u.stop(ending)
		longest = max(longest, u.grace())
	}
	longest += afterwork
	if s.stopping.kill == nil {
		s.stopping.kill = time.After(longest)
	}
	s.out.say("serve", "%s again: the runs are ended; waiting for %s, %s at most", why, s.waitedFor(), longest)
}

// killAll kills what has not ended. The guards go on, and put the ends of their
// runs on record.
func (s *system) killAll() {
	s.out.say("serve", "PROBLEM    the processes that serve %s did not end, and are killed", s.waitedFor())
	for _, u := range s.all {
		u.signal(syscall.SIGKILL)
	}
}

// waitedFor are the users whose processes there are.
func (s *system) waitedFor() string {
	var names []string
	for _, u := range s.all {
		u.mu.Lock()
		if u.process != nil {
			names = append(names, u.account.name)
		}
		u.mu.Unlock()
	}
	if len(names) == 0 {
		return "nobody any more"
	}
	slices.Sort(names)
	return "user " + strings.Join(slices.Compact(names), ", ")
}

// grace is the longest of the user's jobs, as far as it is waited for.
func (u *userServe) grace() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.jobs) == 0 { // it has runs of jobs that are gone
		return cronce.DefaultGrace
	}
	longest := time.Duration(0)
	for _, job := range u.jobs {
		grace := job.Lines[0].Job.Grace
		if grace == 0 {
			grace = cronce.DefaultGrace
		}
		longest = max(longest, grace)
	}
	return min(longest, mostGrace)
}

// signal signals the process, if there is one.
func (u *userServe) signal(sig syscall.Signal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process != nil {
		u.process.Signal(sig)
	}
}

// wakeIfStopped has a process go on that was stopped, to hear that it is to end;
// one that is stopped time and again is killed.
func (u *userServe) wakeIfStopped() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process == nil {
		return
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.process.Pid))
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // behind a name that may be anything
	if !bytes.HasPrefix(state, []byte(" T")) && !bytes.HasPrefix(state, []byte(" t")) {
		return
	}
	u.process.Signal(syscall.SIGCONT)
	if u.woken++; u.woken > mostWoken {
		u.process.Kill()
	}
}
