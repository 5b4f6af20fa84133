package localstore

import (
	"errors"
	"os"
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

// tick is a whole second, n minutes ago.
func tick(n int) time.Time {
	return time.Now().UTC().Truncate(time.Minute).Add(-time.Duration(n) * time.Minute)
}

func claimOf(job string, tick time.Time) cronce.Claim {
	return cronce.Claim{RunID: cronce.NewRunID(), Job: job, Tick: tick}
}

func TestSmoke(t *testing.T) {
	d := newDriver(t, t.TempDir()+"/s")
	s := cronce.NewStore(d)
	ctx := t.Context()
	c := claimOf("backup", tick(1))
	l, err := s.Claim(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	var taken *cronce.TakenError
	if _, err := s.Claim(ctx, claimOf("backup", tick(1))); !errors.As(err, &taken) {
		t.Fatal(err)
	}
	var skipped *cronce.SkippedError
	if _, err := s.Claim(ctx, claimOf("backup", tick(0))); !errors.As(err, &skipped) {
		t.Fatal(err)
	}
	t.Log(skipped)
	if err := s.Finish(ctx, l, cronce.Result{Outcome: cronce.Succeeded, Output: []byte("hello\n"), OutputBytes: 6}); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Runs(ctx, cronce.RunQuery{})
	t.Logf("%+v %v", runs, err)
	jobs, err := s.Jobs(ctx)
	t.Logf("%+v %v", jobs, err)
	b, _ := os.ReadFile(d.dir + "/jobs/backup/journal.000001.jsonl")
	t.Logf("%s", b)
}

func BenchmarkClaimFinish(b *testing.B) {
	dir := b.TempDir() + "/s"
	h := thisHost()
	d, err := openDriver(Options{Dir: dir}, h)
	if err != nil {
		b.Fatal(err)
	}
	s := cronce.NewStore(d)
	for b.Loop() {
		l, err := s.Claim(b.Context(), claimOf("bench", time.Time{}))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Finish(b.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			b.Fatal(err)
		}
	}
}
