package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A program built with the clock shows what the clock shows, also when that is
// set while it runs, and its timers keep to the speed they were given: what
// the tests that set the clock rely on.
func TestBuildWithClock(t *testing.T) {
	dir := t.TempDir()
	if err := buildWithClock(dir, "./internal/testenv/testdata/show"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "show")
	midnight := time.Date(2031, 2, 3, 0, 0, 0, 0, time.UTC)
	clock, err := NewClock(dir, midnight, 600)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ask := follow(t, program, clock.Env())

	now := func() time.Time {
		t.Helper()
		var ns int64
		if _, err := fmt.Sscan(ask("now"), &ns); err != nil {
			t.Fatal(err)
		}
		return time.Unix(0, ns)
	}
	if got := now(); !got.Equal(midnight) {
		t.Errorf("a clock that stands at %s shows %s", midnight, got)
	}
	for _, at := range []time.Time{midnight.Add(-time.Hour), midnight.AddDate(1, 0, 0), midnight.Add(-300 * time.Millisecond), midnight} {
		if err := clock.Stand(at); err != nil {
			t.Fatal(err)
		}
		// What it read before is believed for some milliseconds.
		for got := now(); !got.Equal(at); got = now() {
			if time.Since(began) > time.Minute {
				t.Fatalf("a clock that was set to %s shows %s", at, got)
			}
		}
	}
	if err := clock.Go(midnight, 1000); err != nil {
		t.Fatal(err)
	}
	for got := now(); got.Equal(midnight); got = now() {
	}
	for range 100 {
		before := clock.Now()
		got := now()
		if after := clock.Now(); got.Before(before) || got.After(after) {
			t.Fatalf("it shows %s between %s and %s", got, before, after)
		}
	}

	var since, sub, timer, ticker int64
	if _, err := fmt.Sscan(ask("since"), &since, &sub); err != nil {
		t.Fatal(err)
	}
	most := int64(time.Since(began)) * 600
	if since < 0 || since > most || sub < since || sub > most {
		t.Errorf("steps of the wall clock have moved the monotonic one: %d and %d, at most %d are possible", since, sub, most)
	}
	before := time.Now()
	if _, err := fmt.Sscan(ask("timers"), &timer, &ticker); err != nil {
		t.Fatal(err)
	}
	real := time.Since(before)
	if minute := int64(time.Minute); timer < minute || ticker < minute || real < 2*time.Minute/600 || int64(real)*600 < timer+ticker {
		t.Errorf("two minutes passed in %s, by the program's own word as %s and %s", real, time.Duration(timer), time.Duration(ticker))
	}

	// Half as fast; the program's own word for how long it was stays the same.
	half := follow(t, program, "CRONCE_TEST_CLOCK=timers=600,slow=2")
	before = time.Now()
	if _, err := fmt.Sscan(half("timers"), &timer, &ticker); err != nil {
		t.Fatal(err)
	}
	if real, minute := time.Since(before), int64(time.Minute); timer < minute || ticker < minute || real < 2*time.Minute/300 {
		t.Errorf("at half the speed two minutes passed in %s, by the program's own word as %s and %s", real, time.Duration(timer), time.Duration(ticker))
	}

	plain := follow(t, program)
	var ns int64
	before = time.Now().Round(0)
	if _, err := fmt.Sscan(plain("now"), &ns); err != nil {
		t.Fatal(err)
	}
	if got := time.Unix(0, ns); got.Before(before) || got.After(time.Now()) {
		t.Errorf("without the variable it shows %s at %s", got, before)
	}
	if out, err := command(program, "CRONCE_TEST_CLOCK=rate=fast").CombinedOutput(); err == nil {
		t.Errorf("a clock that cannot be read is taken for none: %s", out)
	}
}

func command(program string, env ...string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), append(env, "GORACE=atexit_sleep_ms=0")...)
	return cmd
}

// follow starts the program and returns a function that asks it a question.
func follow(t *testing.T, program string, env ...string) func(string) string {
	cmd := command(program, env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	answers := bufio.NewReader(out)
	return func(question string) string {
		t.Helper()
		io.WriteString(in, question+"\n")
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}
