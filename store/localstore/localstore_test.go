package localstore

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// testHost is a host whose stores are all below a folder of the test.
func testHost(t *testing.T) host {
	h := thisHost()
	h.shared, h.passwd, h.store = t.TempDir()+"/shared", t.TempDir()+"/passwd", ""
	return h
}

// newDriver opens a store in dir, as one process would.
func newDriver(t *testing.T, dir string) *driver {
	t.Helper()
	d, err := openDriver(Options{Dir: dir}, testHost(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// quick is for tests of many claims in which no power fails.
func quick(d *driver) *driver {
	d.fsync = func(int) error { return nil }
	return d
}

// began is when the tests began: what a tick is called must not change while
// one of them goes on.
var began = func() time.Time {
	if t, err := time.Parse(time.RFC3339, os.Getenv(beganVar)); err == nil {
		return t
	}
	return time.Now()
}()

// tick is a whole minute, n minutes ago.
func tick(n int) time.Time {
	return began.UTC().Truncate(time.Minute).Add(-time.Duration(n) * time.Minute)
}

func claimOf(job string, tick time.Time) cronce.Claim {
	return cronce.Claim{RunID: cronce.NewRunID(), Job: job, Tick: tick}
}

// A journal is read by people with cat and jq: a JSON object a line, the words
// as the documents have them.
func TestJournal_IsReadable(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	c := claimOf("backup", tick(1))
	c.Definition = cronce.Definition{Schedule: "* * * * *", Zone: "UTC"}
	l := mustClaim(t, d, c)
	answerAs[*cronce.SkippedError](t, d, claimOf("backup", tick(0)))
	if err := d.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Failed, ExitCode: 3, Message: "<a> & b"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(d.dir + "/jobs/backup/journal.000001.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i, want := range []struct{ event, key, value string }{
		{"segment", "job", "backup"}, {"define", "definition", ""}, {"start", "id", l.Run.ID}, {"skip", "skip", "overlap"}, {"end", "outcome", "failed"},
	} {
		var m map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &m); err != nil {
			t.Fatal(err)
		}
		if m["event"] != want.event || m[want.key] == nil || want.value != "" && m[want.key] != want.value {
			t.Errorf("line %d is %s, want event %s with %s %q", i+1, lines[i], want.event, want.key, want.value)
		}
	}
	if !strings.Contains(lines[4], "<a> & b") {
		t.Errorf("text is escaped more than JSON needs: %s", lines[4])
	}
}

// No two names share a folder, also where A and a are the same to the file
// system; none leads elsewhere; ordinary ones stay as they are.
func TestFolderName(t *testing.T) {
	for name, want := range map[string]string{
		"backup": "backup", "db-2.nightly_x": "db-2.nightly_x", "Backup": "backup~", "a/b": "a_b~", "../../etc": "etc~", ".": "~", "..": "~", ".x": "x~", "-rf": "rf~",
		"/usr/bin/php /srv/x/cron.php --all": "usr_bin_php_srv_x_cron.php_--all~", "日報": "~", strings.Repeat("x", 200): strings.Repeat("x", 100) + "~",
	} {
		got := folderName(name)
		if got != want && !(strings.HasSuffix(want, "~") && strings.HasPrefix(got, want) && len(got) == len(want)+20) {
			t.Errorf("folder of %q is %q, want %q", name, got, want)
		}
	}
	seen := map[string]string{}
	var names []string
	for a := range 128 {
		for _, b := range []string{"", "a", "A", "/", ".", "~", "é", "é"} {
			names = append(names, string(rune(a))+b, b+string(rune(a)))
		}
	}
	for _, name := range names {
		folder := folderName(name + "x")
		if other, ok := seen[strings.ToLower(folder)]; ok && other != name {
			t.Errorf("%q and %q share the folder %q", name, other, folder)
		}
		seen[strings.ToLower(folder)] = name
		if len(folder) > 255 || folder[0] == '.' || strings.ContainsFunc(folder, func(r rune) bool { return r <= ' ' || r > '}' && r != '~' || r == '/' }) {
			t.Errorf("folder of %q is %q", name, folder)
		}
	}
}

// Run ids become names of files.
func TestClaim_RunIDMustBeAUUID(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/store")
	for _, id := range []string{"x", "../../../../etc/passwd-1234567890abcd", "0190A0B0-0000-7000-8000-000000000000", "0190a0b0-0000-7000-8000-00000000000/", cronce.NewRunID() + "0"} {
		c := claimOf("job", tick(1))
		c.RunID = id
		if _, err := d.Claim(t.Context(), c); err == nil || !strings.Contains(err.Error(), "run id") {
			t.Errorf("run id %q: %v", id, err)
		}
		if err := d.Finish(t.Context(), cronce.Lease{Run: cronce.Run{ID: id, Job: "job"}}, cronce.Result{Outcome: cronce.Succeeded}); err == nil {
			t.Errorf("run id %q can be finished", id)
		}
	}
}

// Spans cover what they are given, however few they must be.
func TestCover(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0).UTC() }
	var spans []span
	var given []int
	for _, group := range [][]int{{5, 1, 3}, {100}, {2, 4}, {1000, 1010}, {7000}, {50000}, {600000}, {7000000}, {80000000}, {80000001, 900000000}, {6}} {
		var ticks []time.Time
		for _, n := range group {
			ticks = append(ticks, at(n))
		}
		given = append(given, group...)
		spans = cover(spans, ticks)
		if len(spans) > maxSpans {
			t.Fatalf("%d spans", len(spans))
		}
		for _, n := range given {
			if !covers(spans, at(n)) {
				t.Errorf("%d is not covered by %v", n, spans)
			}
		}
		if !slices.IsSortedFunc(spans, func(a, b span) int { return a.From.Compare(b.From) }) {
			t.Errorf("not in order: %v", spans)
		}
	}
	for _, n := range []int{0, 8000, 70000000, 100000000, 900000001} {
		if covers(spans, at(n)) {
			t.Errorf("%d is covered by %v, far from all ticks", n, spans)
		}
	}
}

// History is bounded by size and by age, oldest first, with the output of its
// runs, and never a run that lives; ticks that are forgotten stay decided.
func TestRetention(t *testing.T) {
	for name, o := range map[string]Options{
		"by size": {KeepBytes: 20 << 10},
		"by age":  {KeepAge: 30 * time.Minute, KeepBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dir = t.TempDir() + "/store"
			d, err := openDriver(o, testHost(t))
			if err != nil {
				t.Fatal(err)
			}
			quick(d).segmentBytes = 4 << 10
			now := time.Date(2030, 3, 1, 12, 0, 30, 0, time.UTC)
			d.clock = func() time.Time { return now }
			c := claimOf("job", time.Time{})
			c.Overlap.Policy = cronce.OverlapAllow
			live := mustClaim(t, d, c)
			var ticks []time.Time
			for range 200 {
				tick := now.Truncate(time.Minute)
				ticks = append(ticks, tick)
				c := claimOf("job", tick)
				c.Overlap.Policy = cronce.OverlapAllow
				if err := d.Finish(t.Context(), mustClaim(t, d, c), cronce.Result{Outcome: cronce.Succeeded, Output: []byte("tail")}); err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Minute)
			}
			runs, err := d.Runs(t.Context(), cronce.RunQuery{Job: "job"})
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) < 25 || len(runs) > 60 {
				t.Errorf("%d runs are left, want the last 30 or so", len(runs))
			}
			if runs[0].ID != live.Run.ID || !runs[0].Live() || !runs[len(runs)-1].Tick.Equal(ticks[199]) {
				t.Errorf("left: from %+v to %+v", runs[0], runs[len(runs)-1])
			}
			output, err := os.ReadDir(d.folder("job") + "/output")
			// The first segment stays for the run that lives, with its neighbours.
			if err != nil || len(output) != len(runs)-1 {
				t.Errorf("%d outputs of %d runs, %v", len(output), len(runs), err)
			}
			for _, tick := range ticks {
				c := claimOf("job", tick)
				c.Overlap.Policy = cronce.OverlapAllow
				answerAs[*cronce.TakenError](t, newDriver(t, d.dir), c)
			}
			if err := d.Finish(t.Context(), live, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A long history costs a claim nothing: one segment is read.
func TestClaim_ReadsTheNewestSegmentOnly(t *testing.T) {
	d := quick(newDriver(t, t.TempDir()+"/store"))
	d.segmentBytes = 2 << 10
	for n := 60; n > 1; n-- {
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(n))))
	}
	all := segments(t, d, "job")
	if len(all) < 10 {
		t.Fatalf("%d segments", len(all))
	}
	// What cannot be read is not read.
	for _, n := range all[:len(all)-1] {
		if err := os.WriteFile(d.folder("job")+"/"+segmentName(n), []byte("garbage\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = quick(newDriver(t, d.dir))
	l := mustClaim(t, d, claimOf("job", tick(1)))
	if !l.PreviousSuccess.Equal(tick(2)) {
		t.Errorf("previous success %v, want %v", l.PreviousSuccess, tick(2))
	}
	mustFinish(t, d, l)
	// An older tick may be in them.
	answerAs[*cronce.ConfigError](t, d, claimOf("job", tick(30)))
}

// A claim made again after its record has moved to an older segment is still
// answered as it was.
func TestClaim_RepeatedAfterRollover(t *testing.T) {
	d := quick(newDriver(t, t.TempDir()+"/store"))
	d.segmentBytes = 1 // each claim begins one
	byHand := claimOf("job", time.Time{})
	l := mustClaim(t, d, byHand)
	skipped := claimOf("job", tick(9))
	answerAs[*cronce.SkippedError](t, d, skipped)
	mustFinish(t, d, l)
	for n := 5; n > 0; n-- {
		mustFinish(t, d, mustClaim(t, d, claimOf("job", tick(n))))
	}
	for _, d := range []*driver{d, newDriver(t, d.dir)} {
		if e := answerAs[*cronce.TakenError](t, d, byHand); e.Run.ID != byHand.RunID || e.Run.Outcome != cronce.Succeeded {
			t.Errorf("answered with %+v", e.Run)
		}
		if e := answerAs[*cronce.SkippedError](t, d, skipped); e.Holder == nil || e.Holder.ID != byHand.RunID {
			t.Errorf("answered with %+v, holder %+v", e.Run, e.Holder)
		}
		if err := d.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Failed}); err != nil {
			t.Errorf("a repeated end: %v", err)
		}
	}
}

// FuzzJournal: whatever follows them, complete lines are not lost, and nothing
// in a journal makes its reader panic.
func FuzzJournal(f *testing.F) {
	whole := `{"event":"segment","at":"2030-01-01T00:00:00Z","format":1,"segment":1,"job":"job","snapshot":{"fence":7,"open":[{"event":"start","at":"2030-01-01T00:00:00Z","id":"a","lock":{"file":"job.lock","dev":1,"ino":2}}]}}
{"event":"start","at":"2030-01-01T00:00:01Z","id":"b","tick":"2030-01-01T00:00:00Z","slot":1,"attempt":1,"fence":8}
{"event":"end","at":"2030-01-01T00:00:02Z","id":"b","outcome":"succeeded"}
`
	for _, s := range []string{"", "\n", "x\n", "{}\n", "\x00", whole, whole[:150], `{"event":"end","id":"a","outcome":"lost"}` + "\n",
		`{"event":"segment"}` + "\n", `{"event":"start","id":"c","lock":{"file":"../x"}}` + "\n" + `{"event":"forget","forgotten":[{"from":"2030-01-01T00:00:00Z"}]}` + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		parseLines(b, true)
		for cut := range []int{0, 1} {
			have := append([]byte(whole), b...)
			have = have[:len(have)-min(cut, len(b))]
			recs, size, _ := parseLines(have, true)
			if len(recs) < 3 || size < int64(len(whole)) || size > int64(len(have)) {
				t.Fatalf("%d records in %d of %d bytes: lines before the garbage were lost", len(recs), size, len(have))
			}
			if recs[1].ID != "b" || recs[2].Outcome != cronce.Succeeded {
				t.Fatalf("records %+v", recs[:3])
			}
			st := newState("job")
			for _, r := range recs {
				st.apply(&r)
			}
			next := st.next()
			if _, err := json.Marshal(next); err != nil {
				t.Fatal(err)
			}
			h := history{job: "job"}
			h.add(recs, func(record) bool { return true })
			if len(h.runs) == 0 {
				t.Fatal("no runs")
			}
			more, rest, err := parseLines(have[size:], false)
			if err == nil && (len(more) != 0 || rest != 0) {
				t.Fatalf("%d records after the end of the journal", len(more))
			}
		}
	})
}

func benchStore(b *testing.B) *driver {
	d, err := openDriver(Options{Dir: b.TempDir() + "/store"}, thisHost())
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func claimAndFinish(b *testing.B, d *driver, c cronce.Claim) {
	l, err := cronce.NewStore(d).Claim(b.Context(), c)
	if err == nil {
		err = d.Finish(b.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// One program that goes on, as serve.
func BenchmarkClaimFinish(b *testing.B) {
	d := benchStore(b)
	for b.Loop() {
		claimAndFinish(b, d, claimOf("job", time.Time{}))
	}
}

// A program started for the run, as cron does: the store is opened and the
// journal, which is long, read for the first time.
func BenchmarkOpenClaimFinish(b *testing.B) {
	d := quick(benchStore(b))
	for range 14000 { // more than is kept
		claimAndFinish(b, d, claimOf("job", time.Time{}))
	}
	for b.Loop() {
		d, err := openDriver(Options{Dir: d.dir}, thisHost())
		if err != nil {
			b.Fatal(err)
		}
		claimAndFinish(b, d, claimOf("job", time.Time{}))
	}
}

// The answer to all but the winner.
func BenchmarkTaken(b *testing.B) {
	d := benchStore(b)
	t := tick(1)
	claimAndFinish(b, d, claimOf("job", t))
	s := cronce.NewStore(d)
	for b.Loop() {
		if _, err := s.Claim(b.Context(), claimOf("job", t)); err == nil {
			b.Fatal("decided twice")
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	d := benchStore(b)
	s := cronce.NewStore(d)
	l, err := s.Claim(b.Context(), claimOf("job", tick(1)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Renew(b.Context(), l); err != nil {
			b.Fatal(err)
		}
	}
}
