package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// OwnClock restarts the server with a time of day of its own, which is as far off the
// machine's as set says, from then on. Postgres and MariaDB can live with that; Redis hangs.
func (s *Server) OwnClock() (set func(off time.Duration)) {
	s.t.Helper()
	library, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if err != nil || len(library) == 0 {
		s.t.Fatalf("libfaketime is needed for a server with a clock of its own: make packages installs what the tests need (%v)", err)
	}
	s.kill()
	set = func(off time.Duration) {
		s.t.Helper()
		err := s.write("clock.new", fmt.Sprintf("%+d", int(off.Seconds())))
		if err == nil {
			err = os.Rename(s.path("clock.new"), s.path("clock"))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	set(0)
	// In front of the server alone: what the library makes belongs to who runs that.
	s.argv = append([]string{"env", "LD_PRELOAD=" + library[0], "FAKETIME_TIMESTAMP_FILE=" + s.path("clock"), "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_RESET=1", "DONT_FAKE_MONOTONIC=1"}, s.argv...)
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
	return set
}
