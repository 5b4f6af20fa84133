package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/bsm/redislock"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/all"
	"github.com/cronce/cronce/store/localstore"
)

var (
	fleetJobs  = flag.Int("fleet-jobs", 10_000, "have so many jobs due in one second")
	fleetHosts = flag.Int("fleet-hosts", 3, "run them on so many processes")
	takeovers  = flag.Int("takeovers", 5, "kill so many holders of each kind")
)

// member is one process of a fleet; it is handed to a process of its own.
type member struct {
	URL      string // of a store; of a Redis for Redislock; a folder of a local store
	Schedule string // of each job, with seconds
	Jobs     int
	Say      bool // a line for each run that starts, and then it goes on until the end
	// Redislock is the rival in place of a scheduler: a lock of 15 s for one job,
	// tried every second.
	Redislock bool
}

// memberVariable hands the member to the child process.
const memberVariable = "CRONCE_BENCH_MEMBER"

// start starts it. Its output is lines.
func (m member) start() (*exec.Cmd, *bufio.Reader, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, bufio.NewReader(out), cmd.Start()
}

// runMember is the child process.
func runMember(text string) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if m.Redislock {
		return m.lock(ctx)
	}
	store, err := openStore(ctx, m.URL)
	if err != nil {
		return err
	}
	defer store.Close()
	s := &cronce.Scheduler{Store: store, Report: func(e cronce.Event) {
		if e.Kind == cronce.EventRefused {
			fmt.Fprintln(os.Stderr, e.Job, e.Err)
		}
	}}
	for i := range m.Jobs {
		job := cronce.Job{Name: fmt.Sprintf("job-%05d", i), Schedule: m.Schedule, Zone: "UTC"}
		err := s.Add(job, func(ctx context.Context, _ cronce.Run) error {
			if m.Say {
				fmt.Println("running")
				<-ctx.Done()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func openStore(ctx context.Context, at string) (*cronce.Store, error) {
	if strings.HasPrefix(at, "/") {
		return localstore.Open(localstore.Options{Dir: at})
	}
	return all.Open(ctx, at)
}

// lock is the rival's process.
func (m member) lock(ctx context.Context) error {
	c, err := goRedis(m.URL)
	if err != nil {
		return err
	}
	defer c.Close()
	locks := redislock.New(c)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		l, err := locks.Obtain(ctx, "failover", cronce.DefaultTTL, nil)
		if err == nil {
			fmt.Println("running")
			for range time.Tick(cronce.DefaultTTL / 3) {
				if err := l.Refresh(ctx, cronce.DefaultTTL, nil); err != nil {
					return err
				}
			}
		}
		if !errors.Is(err, redislock.ErrNotObtained) {
			return err
		}
		select {
		case <-second.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// fleetStore is a store that a fleet can share, or a rival's place.
type fleetStore struct {
	name      string
	start     func(b *testing.B) string
	redislock bool
}

var fleetStores = []fleetStore{
	{"redis", func(b *testing.B) string { return testenv.StartRedis(b, "appendonly no").URL() + "0" }, false},
	{"postgres", func(b *testing.B) string { return testenv.StartPostgres(b).URL() }, false},
	{"mariadb", func(b *testing.B) string { return testenv.StartMariaDB(b).URL() }, false},
}

// BenchmarkDue shows how late the ticks of many jobs, all due in one second of a
// minute, are claimed by several processes on one store, by its own records and clock. Each is a
// scheduler whose jobs are Go functions that return at once: the starts of as many
// programs would measure those. The second such minute counts; in the first the jobs are new.
func BenchmarkDue(b *testing.B) {
	var names []string
	found := map[string]burst{}
	for _, s := range fleetStores {
		b.Run(s.name, func(b *testing.B) {
			r, err := measureBurst(s.start(b))
			if err != nil {
				b.Fatal(err)
			}
			names, found[s.name] = append(names, s.name), r
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.p50, "late-p50-ms")
			b.ReportMetric(r.p99, "late-p99-ms")
			b.ReportMetric(r.most, "late-max-ms")
		})
	}
	fmt.Printf("\n%d jobs due in one second, on %d processes; ms from the tick to its claim, by the store.\n", *fleetJobs, *fleetHosts)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "store\tp50\tp99\tmax\ttwice\tnot run\truns of each process\t")
	for _, name := range names {
		r := found[name]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%d\t%d\t%v\t\n", name, r.p50, r.p99, r.most, r.twice, r.without, r.shares)
	}
	w.Flush()
}

// burst is what the records say of one tick of all jobs.
type burst struct {
	p50, p99, most float64 // ms
	twice, without int     // ticks with more than one run, and with none
	shares         []int   // runs of each process
}

func measureBurst(at string) (r burst, err error) {
	ctx := context.Background()
	store, err := openStore(ctx, at)
	if err != nil {
		return r, err
	}
	defer store.Close()
	if err := store.Init(ctx); err != nil {
		return r, err
	}
	m := member{URL: at, Jobs: *fleetJobs, Schedule: fmt.Sprintf("%d * * * * *", time.Now().Add(50*time.Second).Second())}
	for range *fleetHosts {
		cmd, _, err := m.start()
		if err != nil {
			return r, err
		}
		defer func() {
			cmd.Process.Signal(syscall.SIGTERM)
			if e := cmd.Wait(); err == nil && e != nil {
				err = e
			}
		}()
	}
	// The first tick of all jobs, and a minute after it the one that counts.
	first, err := decided(ctx, store, func(ticks map[time.Time]int) (time.Time, bool) {
		for tick, n := range ticks {
			if n == m.Jobs {
				return tick, true
			}
		}
		return time.Time{}, false
	}, time.Time{})
	if err != nil {
		return r, err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return r, err
	}
	tick := first.Add(now.Sub(first).Truncate(time.Minute) + time.Minute)
	time.Sleep(tick.Sub(now))
	if _, err := decided(ctx, store, func(ticks map[time.Time]int) (time.Time, bool) { return tick, ticks[tick] >= m.Jobs }, tick); err != nil {
		return r, err
	}
	runs, err := store.Runs(ctx, cronce.RunQuery{Since: tick})
	if err != nil {
		return r, err
	}
	return sumUpBurst(runs, tick), nil
}

// decided waits until the runs by tick satisfy done.
func decided(ctx context.Context, s *cronce.Store, done func(map[time.Time]int) (time.Time, bool), since time.Time) (time.Time, error) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Second) {
		runs, err := s.Runs(ctx, cronce.RunQuery{Since: since})
		if err != nil {
			return time.Time{}, err
		}
		ticks := map[time.Time]int{}
		for _, r := range runs {
			ticks[r.Tick]++
		}
		if tick, ok := done(ticks); ok {
			return tick, nil
		}
	}
	return time.Time{}, errors.New("not all ticks were decided within five minutes")
}

func sumUpBurst(runs []cronce.Run, tick time.Time) (r burst) {
	var late []float64
	byJob, byProcess := map[string]int{}, map[int]int{}
	for _, run := range runs {
		if !run.Tick.Equal(tick) {
			continue
		}
		late = append(late, ms(run.Start.Sub(run.Tick)))
		if run.Skip == "" {
			byJob[run.Job]++
			byProcess[run.Holder.PID]++
		}
	}
	for _, n := range byJob {
		if n > 1 {
			r.twice++
		}
	}
	r.without = *fleetJobs - len(byJob)
	for _, n := range byProcess {
		r.shares = append(r.shares, n)
	}
	slices.Sort(r.shares)
	slices.Sort(late)
	r.p50, r.p99, r.most = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	return r
}

// BenchmarkFailover shows how long a job that is due every second is not run after the process
// that had it was killed, while another stands by. The kills come at different times since the
// last renewal.
func BenchmarkFailover(b *testing.B) {
	stores := append([]fleetStore{{"local", func(b *testing.B) string { return b.TempDir() }, false}}, fleetStores...)
	stores = append(stores, fleetStore{"redislock", fleetStores[0].start, true})
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) {
			at := s.start(b)
			if !s.redislock {
				store, err := openStore(context.Background(), at)
				if err == nil {
					err = errors.Join(store.Init(context.Background()), store.Close())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			var took []float64
			m := member{URL: at, Schedule: "* * * * * *", Jobs: 1, Say: true, Redislock: s.redislock}
			holder, out, err := m.start()
			if err == nil {
				err = running(out)
			}
			for i := range *takeovers {
				if err != nil {
					b.Fatal(err)
				}
				next, nextOut, e := m.start()
				if e != nil {
					b.Fatal(e)
				}
				time.Sleep(cronce.DefaultTTL/3 + time.Duration(i)*cronce.DefaultTTL/3/time.Duration(*takeovers))
				killed := time.Now()
				holder.Process.Kill()
				err = running(nextOut)
				took = append(took, time.Since(killed).Seconds())
				holder.Wait()
				holder = next
			}
			holder.Process.Kill()
			holder.Wait()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(slices.Min(took), "min-s")
			b.ReportMetric(median(took), "median-s")
			b.ReportMetric(slices.Max(took), "max-s")
		})
	}
}

// running waits for a member to say that its run has started.
func running(out io.Reader) error {
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && line != "running\n" {
		err = fmt.Errorf("it said %q", line)
	}
	return err
}
