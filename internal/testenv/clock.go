package testenv

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// BuildWithClock builds cronce and cronced as Build does, but with a clock that
// follows CRONCE_TEST_CLOCK. The product has no code for it: the standard
// library's package time is another one in such a build.
//
// The variable is "key=value,…", or the absolute path of a file with that,
// which a running program reads again every few milliseconds. The clock shows
//
//	at + (now - at) * rate + offset
//
// where now is the machine's clock, at is an instant on it in nanoseconds since
// 1970 (default 0), rate a whole number (default 1; 0: it stands still) and
// offset a Go duration. Timers and the monotonic clock go timers times as fast
// as the machine's, and slow times as slowly (both default 1, and fixed for each
// process), whatever happens to the wall clock. time.Sleep, file times and CLOCK_BOOTTIME stay real.
func BuildWithClock(dir string) error {
	return buildWithClock(dir, "./cmd/cronce", "./cmd/cronced")
}

func buildWithClock(dir string, packages ...string) error {
	return withClock(nil, func(overlay string) error {
		return build(dir, append([]string{overlay}, packages...)...)
	})
}

// withClock builds with the flag that brings in the clock, and the patches.
func withClock(patches []Patch, build func(overlay string) error) error {
	temp, err := os.MkdirTemp("", "cronce-overlay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	files, err := clockFiles()
	if err != nil {
		return err
	}
	if err := Apply(patches, files); err != nil {
		return err
	}
	overlay, err := writeOverlay(temp, files)
	if err != nil {
		return err
	}
	return build("-overlay=" + overlay)
}

// Apply puts the patched files, by their whole paths, in with the others.
func Apply(patches []Patch, files map[string]string) error {
	for _, p := range patches {
		path := filepath.Join(moduleRoot(), p.File)
		text, ok := files[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		if n := strings.Count(text, p.Old); n != 1 {
			return fmt.Errorf("a patch does not fit: %s has %q %d times, not once", p.File, p.Old, n)
		}
		files[path] = strings.Replace(text, p.Old, p.New, 1)
	}
	return nil
}

//go:embed testdata/time/testclock.go
var testclock string

// clockPatches are the places of package time that ask the runtime for the
// time or for a timer.
var clockPatches = []struct {
	file, old, new string
	times          int
}{
	{"time.go", "\tsec, nsec, mono := runtimeNow()\n", "\tsec, nsec, mono := testNow()\n", 1},
	{"time.go", "runtimeNano()-startNano", "testNano()-startNano", 2},
	{"sleep.go", "func when(d Duration) int64 {\n", "func when(d Duration) int64 {\n\ttestLook()\n", 1},
	{"sleep.go", "runtimeNano() + int64(d)", "runtimeNano() + testReal(d)", 1},
	{"sleep.go", "Now().Add(Duration(-delta))", "testSent().Add(Duration(-delta))", 1},
	{"tick.go", "when(d), int64(d)", "when(d), testReal(d)", 2},
}

// clockFiles are the files of a package time with the clock, by their paths.
func clockFiles() (map[string]string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	files := map[string]string{filepath.Join(src, "testclock.go"): testclock}
	for _, p := range clockPatches {
		path := filepath.Join(src, p.file)
		text, ok := files[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, p.old); n != p.times {
			return nil, fmt.Errorf("package time is not as the test clock knows it: %s has %q %d times, not %d", p.file, p.old, n, p.times)
		}
		files[path] = strings.ReplaceAll(text, p.old, p.new)
	}
	return files, nil
}

// writeOverlay writes what go build's -overlay needs into the folder.
func writeOverlay(dir string, files map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range files {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o644)
}

// Clock is a clock that test builds follow while the test sets it.
type Clock struct {
	path   string
	timers int

	at     time.Time
	rate   int
	offset time.Duration
}

// NewClock makes a clock that stands still at that time, in a file in the
// folder. Timers go so many times as fast as real ones.
func NewClock(dir string, at time.Time, timers int) (*Clock, error) {
	f, err := os.CreateTemp(dir, "clock")
	if err != nil {
		return nil, err
	}
	f.Close()
	c := &Clock{path: f.Name(), timers: timers}
	return c, c.Stand(at)
}

// Env is the variable that lets a program follow the clock.
func (c *Clock) Env() string { return "CRONCE_TEST_CLOCK=" + c.path }

// Stand sets the clock to that time, at which it stands still.
func (c *Clock) Stand(at time.Time) error { return c.set(at, 0, 0) }

// Go sets the clock to that time, from which it goes on so many times as fast
// as the machine's.
func (c *Clock) Go(from time.Time, rate int) error {
	now := time.Now()
	return c.set(now, rate, from.Sub(now))
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time { return c.At(time.Now()) }

// At is what the clock shows, as it was set last, when the machine's shows
// that.
func (c *Clock) At(real time.Time) time.Time {
	// By the wall clock alone: programs cannot share a monotonic one.
	return c.at.Add(real.Round(0).Sub(c.at) * time.Duration(c.rate)).Add(c.offset)
}

func (c *Clock) set(at time.Time, rate int, offset time.Duration) error {
	c.at, c.rate, c.offset = at.Round(0), rate, offset
	text := fmt.Sprintf("at=%d,rate=%d,offset=%s,timers=%d", at.UnixNano(), rate, offset, c.timers)
	next := c.path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, c.path)
}
