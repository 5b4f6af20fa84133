package guard

import (
	"slices"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// A run tells its command of itself and of no run around it.
func TestEnvironment(t *testing.T) {
	outer := []string{"PATH=/bin", "CRONCE_JOB=outer", "CRONCE_TICK=2026-01-01T00:00:00Z", "CRONCE_FENCE=7", "CRONCE_STORE=/srv",
		"CRONCE_DEADLINE=x", "CRONCE_PREVIOUS_SUCCESS=y"}
	kept := slices.Clone(outer)
	at := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		lease    cronce.Lease
		deadline time.Time
		want     []string
	}{
		{"by hand", cronce.Lease{Run: cronce.Run{Job: "inner", ID: "id"}}, time.Time{},
			[]string{"PATH=/bin", "CRONCE_STORE=/srv", "CRONCE_JOB=inner", "CRONCE_RUN_ID=id", "CRONCE_ATTEMPT=2"}},
		{"for a tick", cronce.Lease{Run: cronce.Run{Job: "inner", ID: "id", Tick: at, Fence: 8}, PreviousSuccess: at.Add(-time.Hour)}, at.Add(time.Hour),
			[]string{"PATH=/bin", "CRONCE_STORE=/srv", "CRONCE_JOB=inner", "CRONCE_RUN_ID=id", "CRONCE_ATTEMPT=2", "CRONCE_TICK=2026-11-30T14:00:00Z",
				"CRONCE_FENCE=8", "CRONCE_DEADLINE=2026-11-30T15:00:00Z", "CRONCE_PREVIOUS_SUCCESS=2026-11-30T13:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Environment(outer, c.lease, 2, c.deadline); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if !slices.Equal(outer, kept) {
				t.Errorf("the environment it was given is %q now", outer)
			}
		})
	}
}

// A command sees each variable once, with the value that was set last.
func TestLastOfEach(t *testing.T) {
	got := lastOfEach([]string{"HOME=/", "A=1", "odd", "HOME=/root", "=C:", "A=", "odd"})
	if want := []string{"HOME=/root", "A=", "odd", "=C:", "odd"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
