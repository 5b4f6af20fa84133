package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/guard"
	"github.com/cronce/cronce/internal/cli"
)

// report is how a `cronce run` went; --status-file gets it.
type report struct {
	Job      string      `json:"job"`
	Decision string      `json:"decision"` // run, skip, taken, or none: nothing was decided
	Run      *cronce.Run `json:"run,omitempty"`
	Error    string      `json:"error,omitempty"`
	Exit     int         `json:"exit"`
}

// taken is the answer to everyone but the winner. It is no news when the
// winner does its work.
func (in *invocation) taken(e *cronce.TakenError, say *slog.Logger) report {
	out := report{Job: e.Job, Decision: "taken", Run: &e.Run, Exit: cli.TempFail}
	line := fmt.Sprintf("tick %s is taken by run %s on %s (%s)", cronce.Stamp(e.Tick), e.Run.ID, e.Run.Holder.Host, result(e.Run))
	switch {
	case e.Run.ID == "":
		line = fmt.Sprintf("tick %s was decided long ago; how is forgotten", cronce.Stamp(e.Tick))
	case e.Run.Live(), e.Run.Outcome == cronce.Succeeded:
		out.Exit = cli.OK
	}
	say.Log(context.Background(), in.aloud(), line)
	return out
}

// skipped says in one line why not, who holds the job, and what to do. after
// is how long the decision took.
func (in *invocation) skipped(e *cronce.SkippedError, after time.Duration, say *slog.Logger) report {
	out := report{Job: e.Run.Job, Decision: "skip", Run: &e.Run, Exit: cli.OK}
	line := tickText(e.Run.Tick) + " is skipped"
	timedOut := e.Run.Skip == cronce.SkipOverlap && in.job.Overlap.Wait > 0 && after >= in.job.Overlap.Wait
	if timedOut {
		line += fmt.Sprintf(" after it waited for %s", in.job.Overlap.Wait)
	}
	switch {
	case in.skipExit >= 0:
		out.Exit = in.skipExit
	case timedOut, e.Run.Skip == cronce.SkipOrphans, e.Run.Tick.IsZero():
		out.Exit = cli.TempFail
	}
	line += ": " + e.Why()
	if e.Holder != nil {
		if left := leftBehind(e); left != "" {
			line += "; left behind: " + left
		}
		line += "; look: cronce status" + cli.StoreOption(in.store) + " " + shellWord(e.Run.Job)
	}
	say.Warn(line)
	return out
}

// leftBehind names the processes that keep the job of a run whose own work has
// ended: those below its guard or, where that was killed, the one that is found
// in its place and those below it.
func leftBehind(e *cronce.SkippedError) string {
	if host, err := os.Hostname(); e.Run.Skip != cronce.SkipOrphans || err != nil || e.Holder.Holder.Host != host {
		return ""
	}
	pids := guard.Descendants(e.Holder.Holder.PID)
	if comm(e.Holder.Holder.PID) != "cronce" {
		pids = append([]int{e.Holder.Holder.PID}, pids...)
	}
	var names []string
	for _, pid := range pids {
		if len(names) == 3 {
			names = append(names, fmt.Sprintf("%d more", len(pids)-3))
			break
		}
		if name := comm(pid); name != "" {
			names = append(names, fmt.Sprintf("pid %d (%s)", pid, name))
		}
	}
	return strings.Join(names, ", ")
}

// comm is the name of a process, "" if there is none.
func comm(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return string(cli.Readable(bytes.TrimSpace(b)))
}

func tickText(tick time.Time) string {
	if tick.IsZero() {
		return "a run by hand"
	}
	return "tick " + cronce.Stamp(tick)
}

// writeStatus writes the report: into a file whole or not at all, into anything
// else, as a pipe or /dev/null, as it comes.
func writeStatus(path string, r report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		// Not to wait for a reader, whom there may not be.
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_, err = f.Write(b)
			err = errors.Join(err, f.Close())
		}
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))
	if err = os.WriteFile(tmp, b, 0o666); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}
