package storetest

import (
	"slices"
	"time"

	"github.com/cronce/cronce"
)

var requestPromises = []promise{
	{"RequestsAreOnRecord", "3.8", func(e *env) {
		l := e.lease(e.store, e.claim("job", 0))
		def := cronce.Definition{Schedule: "@daily", Zone: "UTC"}
		asked := []cronce.Request{
			{Kind: cronce.Define, Job: "job", Definition: def, By: "ann@host", Why: "new hours"},
			{Kind: cronce.Pause, Job: "job", By: "bob@host", Why: "migration"},
			{Kind: cronce.Resume, Job: "job", By: "ann@host"},
			{Kind: cronce.Prune, Job: "job", By: "bob@host", Why: "12 runs"}, // on record, and no more
			{Kind: cronce.Ended, Job: "job", By: "serve@host", Why: "failed after 3s", Runs: []string{cronce.NewRunID()}},
			{Kind: cronce.Stop, Job: "job", By: "bob@host", Why: "too slow"},
		}
		for _, r := range asked {
			e.request(r)
			if renewed, err := e.store.Renew(e.t.Context(), l); err != nil || (renewed.Stop != nil) != (r.Kind == cronce.Stop) {
				e.t.Errorf("after %s the run is renewed as %+v, %v", r.Kind, renewed, err)
			}
		}
		e.request(cronce.Request{Kind: cronce.Pause, Job: "other", By: "ann@host"})
		got, err := e.store.Requests(e.t.Context(), "job", 0)
		if err != nil || len(got) != len(asked) {
			e.t.Fatalf("%d requests on record, want %d: %+v, %v", len(got), len(asked), got, err)
		}
		var last time.Time
		for i, want := range asked {
			g := got[i]
			if g.Kind != want.Kind || g.Job != "job" || g.Definition != want.Definition || g.By != want.By || g.Why != want.Why || g.At.Before(last) || g.At.IsZero() {
				e.t.Errorf("request %d is on record as %+v, asked was %+v", i, g, want)
			}
			last = g.At
		}
		if !slices.Equal(got[4].Runs, asked[4].Runs) {
			e.t.Errorf("what ended was %q, asked was %q", got[4].Runs, asked[4].Runs)
		}
		if !slices.Equal(got[5].Runs, []string{l.Run.ID}) {
			e.t.Errorf("the stop names %q, the run was %s", got[5].Runs, l.Run.ID)
		}
		if got, err := e.store.Requests(e.t.Context(), "job", 2); err != nil || len(got) != 2 || got[0].Kind != cronce.Ended || got[1].Kind != cronce.Stop {
			e.t.Errorf("the newest two: %+v, %v", got, err)
		}
		if got, err := e.store.Requests(e.t.Context(), "nobody", 0); err != nil || len(got) != 0 {
			e.t.Errorf("of a job never seen: %+v, %v", got, err)
		}
	}},

	{"ThePauseThatWasFirstStands", "3.8", func(e *env) {
		e.finish(e.store, e.lease(e.store, e.claim("job", 0)), cronce.Succeeded)
		e.request(cronce.Request{Kind: cronce.Resume, Job: "job", By: "nobody@host"}) // there is nothing to resume
		e.request(cronce.Request{Kind: cronce.Pause, Job: "job", By: "ann@host", Why: "first"})
		e.request(cronce.Request{Kind: cronce.Pause, Job: "job", By: "bob@host", Why: "second"})
		if p := e.job("job").Paused; p == nil || p.By != "ann@host" || p.Why != "first" {
			e.t.Errorf("paused: %+v", p)
		}
		e.request(cronce.Request{Kind: cronce.Stop, Job: "job", By: "nobody@host"}) // nothing runs
		if got, err := e.store.Requests(e.t.Context(), "job", 0); err != nil || len(got) != 1 {
			e.t.Errorf("requests on record: %+v, %v", got, err)
		}
	}},

	{"PruningIsOfOneJob", "5.1", func(e *env) {
		for _, job := range []string{"a", "b"} {
			e.finish(e.store, e.lease(e.store, e.claim(job, 0)), cronce.Succeeded)
		}
		e.pass(5 * time.Millisecond)
		now, err := e.store.Now(e.t.Context())
		if err != nil {
			e.t.Fatal(err)
		}
		for _, c := range []struct {
			job  string
			want int
		}{{"nobody", 0}, {"a", 1}} {
			if n, err := e.store.Prune(e.t.Context(), c.job, now); err != nil || n != c.want {
				e.t.Errorf("pruning %q: %d runs, want %d; %v", c.job, n, c.want, err)
			}
		}
		if a, b := len(e.runs("a")), len(e.runs("b")); a != 0 || b != 1 {
			e.t.Errorf("%d runs of a and %d of b are left, want 0 and 1", a, b)
		}
		e.taken(e.store, e.claim("a", 0))
	}},
}
