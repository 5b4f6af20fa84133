package cronce_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/cronce/cronce"
)

// simulated is a job of the simulated month, and when it was offered by which
// schedule.
type simulated struct {
	cronce.Job
	takes time.Duration
	spans []span
}

// span is a time in which a job had one definition and was either served or not.
type span struct {
	from, to time.Time
	job      cronce.Job
	up       bool
}

// ticks are the span's ticks: after from, up to to.
func (s span) ticks(t *testing.T) (ticks []time.Time) {
	t.Helper()
	parsed, err := s.job.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for tick := parsed.Next(s.from); !tick.After(s.to); tick = parsed.Next(tick) {
		ticks = append(ticks, tick.UTC())
	}
	return ticks
}

// Two hundred jobs in ten zones over a month with clock changes forward and
// back, with restarts side by side and with gaps, reloads, pauses and edited
// schedules: every tick that was served is decided, none twice; of those in a
// gap at most the last is caught up.
func TestScheduler_SimulatedMonth(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "Europe/London", "Europe/Paris", "Australia/Lord_Howe",
		"Australia/Sydney", "Asia/Kolkata", "America/Sao_Paulo", "Asia/Seoul", "Africa/Cairo"}
	expressions := []string{"30 2 * * *", "0 2 * * *", "30 1 * * *", "0 0 * * *", "15 3 * * 0", "0 12 1,15 * *", "H H * * *",
		"0 9 * * MON-FRI", "59 23 L * *", "0 1,2,3 * * *", "0 4 * * 1#2", "45 1 * * *"}
	const seed = 20260330
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	// In memory where that is to be had: 15,000 claims are as many fsyncs.
	memory, err := os.MkdirTemp("/dev/shm", "cronce-month")
	if err != nil {
		memory = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	dir := memory + "/store"
	synctest.Test(t, func(t *testing.T) {
		// New York goes forward on 2 April 2000, Europe on 26 March; Sydney
		// and Lord Howe go back on 26 March.
		time.Sleep(time.Until(time.Date(2000, 3, 20, 0, 0, 0, 5e8, time.UTC)))
		end := time.Date(2000, 4, 20, 0, 0, 0, 5e8, time.UTC)

		jobs := make([]*simulated, 200)
		for i := range jobs {
			j := &simulated{takes: time.Duration(rng.IntN(300)) * time.Second}
			j.Name, j.Zone = fmt.Sprintf("job %d", i), zones[i%len(zones)]
			switch {
			case i == 0:
				j.Schedule = "*/30 * * * *"
			case i < 6:
				j.Schedule = []string{"@hourly", "20 * * * *", "0 */2 * * *"}[i%3]
			default:
				j.Schedule = expressions[rng.IntN(len(expressions))]
			}
			jobs[i] = j
		}
		var mu sync.Mutex
		ran := map[string]int{}
		plans := func(store *cronce.Store) (plans []cronce.Plan) {
			for _, j := range jobs {
				plans = append(plans, cronce.Plan{Job: j.Job, Work: func(ctx context.Context, l cronce.Lease, _ func()) (cronce.Result, error) {
					return store.Hold(ctx, l, 0, func(context.Context) cronce.Result {
						mu.Lock()
						ran[l.Run.Job+" "+cronce.Stamp(l.Run.Tick)]++
						mu.Unlock()
						time.Sleep(j.takes)
						return cronce.Result{Outcome: cronce.Succeeded}
					})
				}})
			}
			return plans
		}
		// mark begins a new span of every job.
		mark := func(up bool) {
			now := time.Now()
			for _, j := range jobs {
				if n := len(j.spans); n > 0 {
					j.spans[n-1].to = now
				}
				j.spans = append(j.spans, span{from: now, job: j.Job, up: up})
			}
		}
		edit := func() {
			for range 1 + rng.IntN(4) {
				j := jobs[6+rng.IntN(len(jobs)-6)]
				j.Schedule = expressions[rng.IntN(len(expressions))]
			}
		}
		type server struct {
			*cronce.Scheduler
			stop context.CancelFunc
			done chan struct{}
		}
		serve := func() *server {
			store := openStore(t, dir)
			ctx, stop := context.WithCancel(context.Background())
			s := &server{&cronce.Scheduler{Store: store, Report: func(e cronce.Event) {
				if e.Kind == cronce.EventRefused || e.Kind == cronce.EventMissed || e.Err != nil && e.Kind == cronce.EventEnded {
					t.Errorf("%s: tick %v: %v", e.Job, e.Tick, e.Err)
				}
			}}, stop, make(chan struct{})}
			s.BaseContext = context.Background()
			if err := s.Set(plans(store)); err != nil {
				t.Fatal(err)
			}
			go func() {
				defer close(s.done)
				s.Run(ctx)
			}()
			return s
		}
		paused := map[string]bool{}
		control := openStore(t, dir)
		request := func(kind cronce.RequestKind, job string) {
			if err := control.Request(t.Context(), cronce.Request{Kind: kind, Job: job, By: "test"}); err != nil {
				t.Error(err)
			}
			paused[job] = kind == cronce.Pause
		}

		mark(true)
		now := serve()
		counts := map[string]int{}
		for time.Now().Before(end) {
			// A time that is never at a tick: what is served at which instant is plain.
			time.Sleep(time.Duration(3600+rng.IntN(24*3600)) * time.Second)
			switch what := rng.IntN(5); what {
			case 0: // a deploy without a gap, with edits
				edit()
				next := serve()
				mark(true)
				now.stop()
				<-now.done
				now = next
				counts["deploys"]++
			case 1: // downtime
				now.stop()
				mark(false)
				<-now.done
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Duration(60+rng.IntN(3*3600))*time.Second + 5e8)))
				mark(true)
				now = serve()
				counts["gaps"]++
			case 2: // a reload with edits
				edit()
				if err := now.Set(plans(now.Store)); err != nil {
					t.Fatal(err)
				}
				mark(true)
				counts["reloads"]++
			default:
				job := jobs[rng.IntN(len(jobs))].Name
				if paused[job] {
					request(cronce.Resume, job)
				} else {
					request(cronce.Pause, job)
				}
				counts["pauses"]++
			}
		}
		now.stop()
		mark(false)
		<-now.done

		runs, err := control.Runs(t.Context(), cronce.RunQuery{})
		if err != nil {
			t.Fatal(err)
		}
		decided := map[string]cronce.Run{}
		for _, r := range runs {
			key := r.Job + " " + cronce.Stamp(r.Tick)
			if _, twice := decided[key]; twice {
				t.Errorf("%s is decided twice", key)
			}
			decided[key] = r
		}
		for key, n := range ran {
			if n != 1 || decided[key].Outcome != cronce.Succeeded {
				t.Errorf("%s ran %d times, on record is %+v", key, n, decided[key])
			}
		}
		served, caught := 0, 0
		for _, j := range jobs {
			for i, s := range j.spans[:len(j.spans)-1] {
				ticks := s.ticks(t)
				for n, tick := range ticks {
					key := j.Name + " " + cronce.Stamp(tick)
					_, ok := decided[key]
					delete(decided, key)
					switch {
					case s.up && !ok:
						t.Errorf("%s was served and nobody decided it", key)
					case s.up:
						served++
					case ok && n < len(ticks)-1:
						t.Errorf("%s passed in a gap, is not the last, and was decided", key)
					case ok && i+1 < len(j.spans) && j.spans[i+1].from.Sub(tick) > time.Hour:
						t.Errorf("%s passed in a gap and was caught up after more than an hour", key)
					case ok:
						caught++
					}
				}
			}
		}
		for key, r := range decided {
			t.Errorf("%s was decided and is no tick of the job at that time: %+v", key, r)
		}
		t.Logf("%d ticks served, %d caught up, %d runs, %v", served, caught, len(ran), counts)
		if served < 5000 || caught == 0 || counts["gaps"] == 0 || counts["deploys"] == 0 || counts["reloads"] == 0 {
			t.Error("the month tested too little")
		}
	})
}
