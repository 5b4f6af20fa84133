package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However a demo is ended, nothing of it is left: neither its processes nor
// its folder.
func TestDemo_EndsWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(demo *os.Process, out io.Closer)
		exit int
	}{
		{"Ctrl-C", func(demo *os.Process, _ io.Closer) { demo.Signal(syscall.SIGINT) }, 130},
		{"TERM", func(demo *os.Process, _ io.Closer) { demo.Signal(syscall.SIGTERM) }, 143},
		{"its reader goes", func(_ *os.Process, out io.Closer) { out.Close() }, 1},
	} {
		for night, line := range map[string]string{"crons": "4 runs", "notices": "2 copies at work"} {
			t.Run(c.name+"/"+night, func(t *testing.T) {
				t.Parallel()
				tmp := t.TempDir()
				cmd := exec.Command(filepath.Join(bin, "cronce"), "demo", night)
				cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
				var stderr strings.Builder
				cmd.Stderr = &stderr
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				seen := bufio.NewScanner(out)
				for seen.Scan() && !strings.Contains(seen.Text(), line) {
				}
				actors := descendants(t, cmd.Process.Pid)
				if len(actors) < 3 {
					t.Errorf("%d processes are at work: %v", len(actors), actors)
				}
				c.end(cmd.Process, out)
				io.Copy(io.Discard, out)
				err = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != c.exit {
					t.Errorf("exit %d (%v), want %d; stderr: %s", code, err, c.exit, &stderr)
				}
				for pid, began := range actors {
					if startTime(pid) == began {
						t.Errorf("process %d is left", pid)
					}
				}
				if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
					t.Errorf("left in the temporary folder: %v %v", left, err)
				}
			})
		}
	}
}

// A demo that is killed cannot tidy up, but its processes see that it is gone.
func TestDemo_Killed(t *testing.T) {
	for night, line := range map[string]string{"crons": "4 runs", "notices": "2 copies at work"} {
		t.Run(night, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(filepath.Join(bin, "cronce"), "demo", night)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			seen := bufio.NewScanner(out)
			for seen.Scan() && !strings.Contains(seen.Text(), line) {
			}
			actors := descendants(t, cmd.Process.Pid)
			cmd.Process.Kill()
			cmd.Wait()
			for pid, began := range actors {
				for startTime(pid) == began {
					time.Sleep(10 * time.Millisecond) // it has nothing else to tell us by
				}
			}
		})
	}
}

// descendants are the processes below one, each with the time it began.
func descendants(t *testing.T, pid int) map[int]string {
	t.Helper()
	all := map[int]string{}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(b)) {
			var child int
			fmt.Sscan(field, &child)
			if began := startTime(child); began != "" {
				all[child] = began
			}
			for pid, began := range descendants(t, child) {
				all[pid] = began
			}
		}
	}
	return all
}

// startTime tells a process from a later one with its number, "" if it is gone
// or only its parent has not noticed yet.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
