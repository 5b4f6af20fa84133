package cronce

import (
	"testing"
	"time"
)

// Whoever has to wait is told for whom, also where the store does not know.
func TestHeldError_SaysForWhom(t *testing.T) {
	start := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		held HeldError
		want string
	}{
		{HeldError{Holder: Run{ID: "r1", Job: "backup", Holder: Holder{Host: "web1", PID: 7}, Start: start}},
			`job "backup" is held: run r1, pid 7 on web1, since 2026-11-30T14:00:00Z`},
		{HeldError{Holder: Run{Job: "backup", Holder: Holder{Host: "web1", PID: 7}}},
			`job "backup" is held: pid 7 on web1, a run that is not on record`},
		{HeldError{Holder: Run{Job: "backup"}, Expires: start},
			`job "backup": the store is new or may have lost records: a run that it knows nothing of may go on until 2026-11-30T14:00:00Z`},
	} {
		if got := c.held.Error(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
