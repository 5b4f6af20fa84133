package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// Claims and ends that share a script do not share their damage: a job that
// somebody has broken fails alone.
func TestDamageIsOneJobsAlone(t *testing.T) {
	t.Parallel()
	s := &underTest{url: testenv.Redis(t)}
	d := s.open(t, s.url)
	if err := d.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken := d.keys("job-7", leaseKeys)[0]
	if err := d.client.Do(t.Context(), d.client.B().Set().Key(broken).Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	store := cronce.NewStore(d)
	var wg sync.WaitGroup
	for i := range 100 {
		job := fmt.Sprint("job-", i)
		c := claimOf(t, d, job)
		wg.Go(func() {
			l, err := store.Claim(t.Context(), c)
			if job == "job-7" {
				if err == nil {
					t.Error("the broken job was claimed")
				}
				return
			}
			if err == nil {
				err = store.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded})
			}
			if err != nil {
				t.Errorf("%s, beside the broken one: %v", job, err)
			}
		})
	}
	wg.Wait()
	for i := range 100 {
		runs, err := d.Runs(t.Context(), cronce.RunQuery{Job: fmt.Sprint("job-", i)})
		if i != 7 && (err != nil || len(runs) != 1 || runs[0].Outcome != cronce.Succeeded) {
			t.Errorf("job-%d has the runs %v, %v", i, runs, err)
		}
	}
}

// While a script is under way the other steps gather and go as one; who gives up before
// that is not sent at all.
func TestTogether(t *testing.T) {
	t.Parallel()
	sent, land := make(chan []*step), make(chan error)
	group := &together{d: &driver{place: "redis://place"}, send: func(_ context.Context, _ int, steps []*step) error {
		sent <- steps
		return <-land
	}}
	var wg sync.WaitGroup
	do := func(ctx context.Context, name string, want error) {
		wg.Go(func() {
			if err := group.do(ctx, &step{args: []string{name}}); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		})
	}
	failure := errors.New("no answer")
	do(t.Context(), "first", nil)
	<-sent
	const n = passengers + 6
	ctx, giveUp := context.WithCancel(t.Context())
	for i := range n {
		do(t.Context(), fmt.Sprint(i), failure)
	}
	do(ctx, "impatient", context.Canceled)
	for group.gathered() < n+1 {
		runtime.Gosched()
	}
	giveUp()
	for group.gathered() > n {
		runtime.Gosched()
	}
	land <- nil
	seen := map[string]bool{}
	for _, want := range []int{passengers, 6} {
		steps := <-sent
		for _, s := range steps {
			seen[s.args[0]] = true
		}
		if len(steps) != want {
			t.Errorf("%d went together, want %d", len(steps), want)
		}
		land <- failure
	}
	wg.Wait()
	if len(seen) != n || seen["impatient"] {
		t.Errorf("%d steps were sent, want %d without the one that was given up", len(seen), n)
	}
}

func (t *together) gathered() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
