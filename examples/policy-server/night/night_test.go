package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

var program string // the policy server's

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "policy-server-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "policy-server")
		var flags []string
		if testenv.Race {
			flags = append(flags, "-race")
		}
		err = build(program, flags...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestNight defends what the example is there to show: over rolling restarts
// and a kill -9 each tick that is run reaches each receiver once, the one that is
// not is named, and nginx has no failed request.
func TestNight(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("GORACE", "atexit_sleep_ms=0")    // a drained server is gone at once
	t.Setenv("CRONCE_STORE", testenv.Redis(t)) // for given; it has a password
	// All at once, however few processors there are: they mostly wait.
	nights := []*struct {
		store string
		out   bytes.Buffer
		err   error
	}{{store: "local"}, {store: "redis"}, {store: "given"}}
	var all sync.WaitGroup
	for _, n := range nights {
		all.Go(func() { n.err = run(t.Context(), &n.out, minTicks, n.store, program) })
	}
	all.Wait()
	for _, n := range nights {
		t.Run(n.store, func(t *testing.T) {
			if n.err != nil {
				t.Fatalf("%v\n%s", n.err, &n.out)
			}
			out := n.out.String()
			found := func(pattern string) int { return len(regexp.MustCompile("(?m)"+pattern).FindAllString(out, -1)) }
			// One tick is lost by the kill; two where this machine takes a second to send one.
			lost := found(`^Tick \S+: lost with server [1-4], killed .* when \d+ of 30 receivers had it, once each; its run \S+ is on record as lost\.$`)
			if lost != 1 && lost != 2 {
				t.Errorf("%d ticks are lost", lost)
			}
			for pattern, times := range map[string]int{
				`^  \S{8}  1 2 3 4  4{30}$`:                                   plainTicks,
				`^  \S{8}  [1-4]        1{30}$`:                               minTicks - lost,
				`^  \S{8}  [1-4]        1{15}0{15}$`:                          1,
				`^ +-- kill -9 of server [1-4] while it sent tick \S+; start`: 1,
				`^ +-- rolling restart: server [1-4] drained`:                 2 * 4,
				`^  without cronce +4      480  4$`:                           1,
				`^  with cronce +12      3\d\d  1$`:                           1,
				fmt.Sprintf(`^With cronce %d ticks reached each of 30 receivers exactly once\.$`, minTicks-lost):              1,
				`^Through nginx \d{2,} requests .* [1-9]\d* of them during the rolling restarts, and 0 failed\. They saw \d+`: 1,
			} {
				if n := found(pattern); n != times {
					t.Errorf("%s is there %d times instead of %d", pattern, n, times)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
	nothingLeft(t, tmp)
}

// TestNight_Stopped defends that Ctrl-C leaves nothing behind.
func TestNight_Stopped(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	err := run(ctx, writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("4444")) {
			cancel() // at the first tick
		}
		return out.Write(p)
	}), minTicks, "local", program)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v\n%s", err, &out)
	}
	nothingLeft(t, tmp)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// nothingLeft looks for files and processes of a folder.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/policy-server-*")
	if err != nil || len(files) > 0 {
		t.Error("left behind:", files, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatal("no processes are found:", err)
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(text), dir) {
			t.Errorf("left behind: %s: %q", line, text)
		}
	}
}

// TestVerdict defends that the night would show a broken promise.
func TestVerdict(t *testing.T) {
	ran := cronce.Run{Result: cronce.Result{Outcome: cronce.Succeeded}, Holder: cronce.Holder{PID: 7}}
	lost := cronce.Run{Result: cronce.Result{Outcome: cronce.Lost}, Holder: cronce.Holder{PID: 7}}
	other := cronce.Run{Result: cronce.Result{Outcome: cronce.Lost}, Holder: cronce.Holder{PID: 8}}
	skipped := cronce.Run{Skip: cronce.SkipOverlap}
	for _, c := range []struct {
		name    string
		updates []int
		runs    []cronce.Run
		lost    bool
		wrong   string
	}{
		{"once", []int{1, 1}, []cronce.Run{ran}, false, ""},
		{"lost with the killed process", []int{1, 0}, []cronce.Run{lost}, true, ""},
		{"twice", []int{1, 2}, []cronce.Run{ran}, false, "receiver 2 got it 2 times"},
		{"twice, and killed", []int{2, 0}, []cronce.Run{lost}, false, "receiver 1 got it 2 times"},
		{"not by all", []int{1, 0}, []cronce.Run{ran}, false, "1 of 2 receivers"},
		{"lost with another process", []int{1, 0}, []cronce.Run{other}, false, "1 of 2 receivers"},
		{"skipped", []int{0, 0}, []cronce.Run{skipped}, false, "overlap"},
		{"forgotten", []int{0, 0}, nil, false, "0 decisions"},
		{"run again", []int{1, 1}, []cronce.Run{lost, ran}, false, "2 decisions"},
	} {
		k := &killed{name: "2", pid: 7}
		why, err := k.verdict(1700000000, &tally{updates: c.updates}, c.runs)
		switch {
		case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v", c.name, err)
		case c.lost != (why != ""):
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
