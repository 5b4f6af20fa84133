package storetest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

var recordPromises = []promise{
	{"RunIsOnRecordWithAllItReported", "3.6", func(e *env) {
		c := e.claim("job", 0)
		c.Holder.User = "ann"
		l := e.lease(e.store, c)
		if r := e.run(c.RunID); !r.Live() || !r.Start.Equal(l.Run.Start) || r.Holder != c.Holder || r.Fence != l.Run.Fence || r.Slot != 1 || r.Attempt != 1 {
			e.t.Errorf("while it runs: %+v", r)
		}
		want := cronce.Result{Outcome: cronce.Failed, ExitCode: 137, Signal: "SIGKILL", Message: "it said \"no\"\nand <left> é", Output: []byte("tail\x00\xff\n"), OutputBytes: 123456}
		if err := e.store.Finish(e.t.Context(), l, want); err != nil {
			e.t.Fatal(err)
		}
		r := e.run(c.RunID)
		if !bytes.Equal(r.Output, want.Output) {
			e.t.Errorf("output is %q, want %q", r.Output, want.Output)
		}
		if r.Outcome != want.Outcome || r.ExitCode != want.ExitCode || r.Signal != want.Signal || r.Message != want.Message || r.OutputBytes != want.OutputBytes || r.End.Before(r.Start) {
			e.t.Errorf("at its end: %+v, want %+v", r, want)
		}
		if all := e.runs("job"); len(all) != 1 || all[0].Output != nil {
			e.t.Errorf("a list of runs carries output: %+v", all)
		}
	}},

	{"LongTextsAreKeptInPart", "3.6", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		out := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
		out[len(out)-1] = '\n'
		if err := e.store.Finish(e.t.Context(), l, cronce.Result{Outcome: cronce.Failed, Message: strings.Repeat("é", 1<<20), Output: out, OutputBytes: int64(len(out))}); err != nil {
			e.t.Fatal(err)
		}
		r := e.run(l.Run.ID)
		if len(r.Output) < 1<<10 || len(r.Output) > 64<<10 || !bytes.HasSuffix(out, r.Output) {
			e.t.Errorf("%d bytes of output, want the last ones, at most 64 KiB", len(r.Output))
		}
		if !strings.HasPrefix(r.Message, "éé") || strings.Trim(r.Message, "é…") != "" {
			e.t.Errorf("message of %d bytes is not the beginning of the one given", len(r.Message))
		}
	}},

	{"RunsAreSelected", "3.6", func(e *env) {
		var ids []string
		var third time.Time
		for i := range 5 {
			l := e.lease(e.store, e.claim("a", i))
			ids = append(ids, l.Run.ID)
			if i == 3 {
				third = l.Run.Start
			}
			e.finish(e.store, l, cronce.Succeeded)
			e.pass(2 * time.Millisecond)
		}
		other := e.lease(e.store, e.claim("b", 0))
		for _, q := range []struct {
			name string
			q    cronce.RunQuery
			want []string
		}{
			{"of a job", cronce.RunQuery{Job: "a"}, ids},
			{"the newest two", cronce.RunQuery{Job: "a", Limit: 2}, ids[3:]},
			{"since a time", cronce.RunQuery{Job: "a", Since: third}, ids[3:]},
			{"one", cronce.RunQuery{ID: ids[1]}, ids[1:2]},
			{"all", cronce.RunQuery{}, append(slices.Clone(ids), other.Run.ID)},
			{"the newest of all", cronce.RunQuery{Limit: 1}, []string{other.Run.ID}},
			{"of no job", cronce.RunQuery{Job: "c"}, nil},
			{"nobody's", cronce.RunQuery{ID: cronce.NewRunID()}, nil},
		} {
			runs, err := e.store.Runs(e.t.Context(), q.q)
			if err != nil {
				e.t.Fatal(err)
			}
			var got []string
			for _, r := range runs {
				got = append(got, r.ID)
			}
			if !slices.Equal(got, q.want) {
				e.t.Errorf("%s: %v, want %v", q.name, got, q.want)
			}
		}
	}},

	{"JobsAreListedByName", "3.2", func(e *env) {
		c := e.lease(e.store, e.claim("c", 0))
		e.finish(e.store, e.lease(e.store, e.claim("a", 0)), cronce.Failed)
		e.request(cronce.Request{Kind: cronce.Define, Job: "b", Definition: cronce.Definition{Schedule: "@daily", Zone: "UTC"}})
		states, err := e.store.Jobs(e.t.Context())
		if err != nil || len(states) != 3 {
			e.t.Fatalf("jobs: %+v, %v; want 3", states, err)
		}
		if s := states[0]; s.Job != "a" || s.Last == nil || s.Last.Outcome != cronce.Failed || len(s.Live) != 0 {
			e.t.Errorf("first: %+v, last %+v", s, s.Last)
		}
		if s := states[1]; s.Job != "b" || s.Last != nil || s.Definition.Schedule != "@daily" || s.Since.IsZero() {
			e.t.Errorf("second: %+v", s)
		}
		if s := states[2]; s.Job != "c" || s.Last == nil || s.Last.ID != c.Run.ID || len(s.Live) != 1 || s.Live[0].ID != c.Run.ID || s.Fence != c.Run.Fence {
			e.t.Errorf("third: %+v", s)
		}
		if _, ok, err := e.store.Job(e.t.Context(), "d"); ok || err != nil {
			e.t.Errorf("a job never seen: found %v, %v", ok, err)
		}
	}},

	{"PruningKeepsTicksDecided", "5.1", func(e *env) {
		for i := range 5 {
			e.finish(e.store, e.lease(e.store, e.claim("job", i)), cronce.Succeeded)
		}
		e.pass(5 * time.Millisecond)
		now, err := e.store.Now(e.t.Context())
		if err != nil {
			e.t.Fatal(err)
		}
		n, err := e.store.Prune(e.t.Context(), "", now)
		if err != nil {
			e.t.Fatal(err)
		}
		if left := len(e.runs("job")); n != 5 || left != 0 {
			e.t.Errorf("%d runs pruned and %d left, want 5 and 0", n, left)
		}
		for i := range 5 {
			e.taken(e.store, e.claim("job", i))
		}
		if l := e.lease(e.store, e.claim("job", 5)); !l.PreviousSuccess.Equal(e.tick(4)) {
			e.t.Errorf("previous success %v after pruning, want %v", l.PreviousSuccess, e.tick(4))
		}
	}},

	{"PruningSparesLiveAndLaterRuns", "5.1", func(e *env) {
		live := e.lease(e.store, under(e.claim("job", 0), cronce.OverlapAllow, 0))
		ended := e.lease(e.store, under(e.claim("job", 1), cronce.OverlapAllow, 0))
		e.finish(e.store, ended, cronce.Succeeded)
		if n, err := e.store.Prune(e.t.Context(), "", live.Run.Start); n != 0 || err != nil {
			e.t.Errorf("%d runs pruned that were decided at or after the time given, %v", n, err)
		}
		if _, err := e.store.Prune(e.t.Context(), "", e.base.Add(time.Hour)); err != nil {
			e.t.Fatal(err)
		}
		if r := e.run(live.Run.ID); !r.Live() {
			e.t.Errorf("the live run is %+v", r)
		}
		live = e.renewed(e.store, live)
		e.finish(e.store, live, cronce.Succeeded)
		if r := e.run(live.Run.ID); r.Outcome != cronce.Succeeded {
			e.t.Errorf("after its end: %+v", r)
		}
		e.taken(e.store, e.claim("job", 0))
		e.taken(e.store, e.claim("job", 1))
	}},
}
