package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// saw is what run N of quick-0 did at that time in seconds: run 1 has tick 1 and fence 10.
func saw(at float64, what string, n int64, who string) seen {
	return seen{What: what, Job: "quick-0", Tick: n, Run: name(n), Fence: 10 * n, Who: who, At: time.Duration(at * float64(time.Second))}
}

func name(n int64) string { return "run-" + string(rune('0'+n)) }

func stale(s seen) seen { s.Stale = true; return s }

func recorded(n int64, outcome cronce.Outcome, change ...func(*cronce.Run)) cronce.Run {
	r := cronce.Run{ID: name(n), Job: "quick-0", Tick: time.Unix(n, 0), Fence: 10 * n}
	r.Outcome = outcome
	for _, c := range change {
		c(&r)
	}
	return r
}

// What must not happen is found, and what may is not.
func TestCheck(t *testing.T) {
	one := []seen{saw(1, started, 1, "a"), saw(2, ended, 1, "a")}
	with := func(more ...seen) []seen { return append(slices.Clone(one), more...) }
	two := with(saw(3, started, 2, "b"), saw(4, ended, 2, "b"))
	done := []cronce.Run{recorded(1, cronce.Succeeded), recorded(2, cronce.Succeeded)}
	paused := []span{{"a", 2 * time.Second, 10 * time.Second}}
	broken := []seen{saw(1, started, 1, "a"), saw(3, started, 2, "b"), saw(4, ended, 2, "b")} // run 1 does not end
	lost := []cronce.Run{recorded(1, cronce.Lost), recorded(2, cronce.Succeeded)}
	again := saw(3, started, 2, "b")
	again.Tick = 1
	low := saw(5, started, 3, "c")
	low.Fence = 15
	renewal := saw(5, renewed, 1, "a")
	renewal.Asked = 4 * time.Second
	early := renewal
	early.Asked = 2 * time.Second
	for _, c := range []struct {
		title string
		h     history
		want  string // "": nothing is wrong
	}{
		{"one after the other", history{saw: two, records: done}, ""},
		{"a tick runs twice", history{saw: with(again, saw(4, ended, 2, "b")), records: []cronce.Run{done[0], recorded(2, cronce.Succeeded, func(r *cronce.Run) { r.Tick = time.Unix(1, 0); r.Slot = 2 })}}, "twice: tick 1"},
		{"a tick is decided twice", history{saw: two, records: append(done, recorded(3, "", func(r *cronce.Run) { r.Tick = time.Unix(2, 0); r.Skip = cronce.SkipLate }))}, "twice: tick 2"},
		{"work goes on beside the next run", history{saw: append(broken, stale(saw(5, worked, 1, "a"))), records: lost}, "overlap: "},
		{"its process was stopped", history{saw: append(broken, stale(saw(11, worked, 1, "a"))), records: lost, pauses: paused}, ""},
		{"and had time to notice", history{saw: append(broken, stale(saw(13, worked, 1, "a"))), records: lost, pauses: paused}, "overlap: "},
		{"and the fence does not tell", history{saw: append(broken, saw(11, worked, 1, "a")), records: lost, pauses: paused}, "fence: "},
		{"work goes on until it is killed", history{saw: broken, records: lost, deaths: map[string]time.Duration{"a": 5 * time.Second}}, "overlap: "},
		{"it was killed before", history{saw: broken, records: lost, deaths: map[string]time.Duration{"a": 2 * time.Second}}, ""},
		{"a lost lease is taken back", history{saw: append(slices.Clone(two), renewal), records: done}, "lease: "},
		{"a renewal is heard of late", history{saw: append(slices.Clone(two), early), records: done}, ""},
		{"a fence does not grow", history{saw: append(slices.Clone(two), low), records: append(done, recorded(3, cronce.Lost, func(r *cronce.Run) { r.Fence = 15 }))}, "fence: "},
		{"a command finds another one at work", history{saw: with(saw(3, overlap, 2, "b"), saw(3, started, 2, "b"), saw(4, ended, 2, "b")), records: done}, "overlap: "},
		{"a run does not end", history{saw: with(saw(3, started, 2, "b")), records: []cronce.Run{done[0], recorded(2, cronce.Cancelled)}}, "end: "},
		{"a run is not on record", history{saw: two, records: done[:1]}, "record: "},
		{"a run is on record otherwise", history{saw: two, records: []cronce.Run{done[0], recorded(2, cronce.Succeeded, func(r *cronce.Run) { r.Fence++ })}}, "record: "},
		{"a skip has run", history{saw: two, records: []cronce.Run{done[0], recorded(2, "", func(r *cronce.Run) { r.Skip = cronce.SkipOverlap })}}, "record: "},
		{"a success was not seen", history{saw: one, records: done}, "record: "},
		{"a success was not seen to end", history{saw: with(saw(3, started, 2, "b"), saw(4, stopped, 2, "b")), records: done}, "record: "},
		{"a run goes on for ever", history{saw: two, records: []cronce.Run{done[0], recorded(2, "")}}, "record: "},
		{"a run fails by itself", history{saw: two, records: []cronce.Run{done[0], recorded(2, cronce.Failed)}}, "record: "},
		{"a success is not on record", history{saw: two, records: []cronce.Run{done[0], recorded(2, cronce.Lost)}}, ""},
	} {
		c.h.jobs = []string{"quick-0"}
		r := c.h.check()
		got := strings.Join(r.wrong, "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || len(r.wrong) > 2 {
			t.Errorf("%s: found %q, want %q", c.title, got, c.want)
		}
	}
}

// Every tick from the first to the last is counted, once.
func TestAccount(t *testing.T) {
	h := history{jobs: []string{"quick-0"}, saw: []seen{saw(1, started, 1, "a"), saw(2, ended, 1, "a")}, records: []cronce.Run{
		recorded(1, cronce.Succeeded), recorded(2, "", func(r *cronce.Run) { r.Skip = cronce.SkipOverlap }),
		recorded(5, cronce.Lost), recorded(6, cronce.Cancelled),
	}}
	n := h.check().row(quick)
	if n.ticks != 6 || n.succeeded != 1 || n.skips[cronce.SkipOverlap] != 1 || n.missed != 2 || n.lost != 1 || n.cancelled != 1 || n.starts != 1 {
		t.Errorf("counted %+v", *n)
	}
}
