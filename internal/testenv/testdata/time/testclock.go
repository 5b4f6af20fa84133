package time

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// This file joins the standard library's package time in test builds: the
// other half of testenv.Clock, where the variable is described.

// testSettings is what CRONCE_TEST_CLOCK says; its zero value is not.
type testSettings struct {
	file   string // where it is read again and again; empty: the variable itself has it all
	read   int64  // when, on the runtime's clock
	offset int64
	rate   int64
	at     int64
	timers int64
	slow   int64
}

var (
	testClock   atomic.Pointer[testSettings]
	testReading sync.Mutex
)

// testClockAge is for how long what a file says is believed.
const testClockAge = 2 * int64(Millisecond)

// testLook returns what the clock is to follow now.
func testLook() *testSettings {
	s := testClock.Load()
	if s != nil && (s.file == "" || runtimeNano()-s.read < testClockAge) {
		return s
	}
	testReading.Lock()
	defer testReading.Unlock()
	old := testClock.Load()
	if old != s {
		return old
	}
	text, _ := syscall.Getenv("CRONCE_TEST_CLOCK")
	if text == "" || text[0] != '/' {
		s = testParse(text)
	} else {
		read := runtimeNano()
		s = testParse(testRead(text))
		s.file, s.read = text, read
	}
	if old != nil && (old.timers != s.timers || old.slow != s.slow) {
		panic("CRONCE_TEST_CLOCK: the speed of timers cannot change in a running process")
	}
	testClock.Store(s)
	return s
}

// testRead returns the file's text. The file is replaced whole, by rename.
func testRead(file string) string {
	for {
		fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == nil {
			var buf [256]byte
			var n int
			n, err = syscall.Read(fd, buf[:])
			syscall.Close(fd)
			if err == nil {
				return string(buf[:n])
			}
		}
		if err != syscall.EINTR {
			panic("CRONCE_TEST_CLOCK: " + file + ": " + err.Error())
		}
	}
}

// testParse reads "key=value,…".
func testParse(text string) *testSettings {
	s := &testSettings{rate: 1, timers: 1, slow: 1}
	for text != "" {
		var key, value string
		part := &key
		i := 0
		for ; i < len(text) && text[i] != ','; i++ {
			if text[i] == '=' && part == &key {
				part = &value
			} else {
				*part += text[i : i+1]
			}
		}
		text = text[min(i+1, len(text)):]
		var n int
		var d Duration
		var err error
		if key == "offset" {
			d, err = ParseDuration(value)
		} else {
			n, err = atoi(value)
		}
		switch {
		case err != nil:
		case key == "offset":
			s.offset = int64(d)
			continue
		case key == "rate" && n >= 0:
			s.rate = int64(n)
			continue
		case key == "at":
			s.at = int64(n)
			continue
		case key == "timers" && n > 0:
			s.timers = int64(n)
			continue
		case key == "slow" && n > 0:
			s.slow = int64(n)
			continue
		}
		panic("CRONCE_TEST_CLOCK: cannot read " + key + "=" + value)
	}
	return s
}

// now is runtimeNow by the test clock. Steps are on the wall clock alone: the
// monotonic one goes on at the speed of timers, as with a real clock.
func (s *testSettings) now() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = runtimeNow()
	wall := sec*int64(Second) + int64(nsec)
	wall = s.at + (wall-s.at)*s.rate + s.offset
	return wall / int64(Second), int32(wall % int64(Second)), s.mono(mono)
}

// mono is the runtime's clock at the speed of timers.
func (s *testSettings) mono(ns int64) int64 {
	return startNano + (ns-startNano)*s.timers/s.slow
}

// testNow is runtimeNow by the test clock.
func testNow() (sec int64, nsec int32, mono int64) { return testLook().now() }

// testNano is runtimeNano by the test clock.
func testNano() int64 {
	return testLook().mono(runtimeNano())
}

// testReal is how long a timer really has to wait.
func testReal(d Duration) int64 {
	s := testLook()
	return max(int64(d)/s.timers*s.slow, 1)
}

// testSent is Now for what a timer sends: that is done by the runtime's
// scheduler, which cannot read files. when has looked when the timer was set, so
// the settings are there.
func testSent() Time {
	sec, nsec, mono := testClock.Load().now()
	mono -= startNano
	sec += unixToInternal - minWall
	return Time{hasMonotonic | uint64(sec)<<nsecShift | uint64(nsec), mono, Local}
}
