package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
)

var (
	jobs    = flag.Int("jobs", 1000, "serve so many jobs")
	minutes = flag.Int("minutes", 2, "watch the spread jobs for so long")
)

// BenchmarkServe shows how late `cronce serve` claims ticks, by the store's own
// records: of jobs that are spread over the minute, and of as many that are all
// due in one second. Each run is `true` under a guard process.
func BenchmarkServe(b *testing.B) {
	dir, err := os.MkdirTemp("", "cronce-bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := buildPrograms(dir, "../cmd/cronce", "../cmd/cronced"); err != nil {
		b.Fatal(err)
	}
	var names []string
	all := map[string]served{}
	for _, c := range []struct {
		name    string
		measure func(s serving) ([]cronce.Run, error)
		args    []string
	}{
		{"spread", serving.spread, nil},
		{"burst", serving.burst, nil},
		{"burst/max-running=8", serving.burst, []string{"--max-running", "8"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := serving{bin: dir, dir: b.TempDir(), args: c.args}
			runs, err := c.measure(s)
			if err != nil {
				b.Fatal(err)
			}
			r := sumUp(runs)
			names, all[c.name] = append(names, c.name), r
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.P50, "late-p50-ms")
			b.ReportMetric(r.P99, "late-p99-ms")
			b.ReportMetric(r.Max, "late-max-ms")
			b.ReportMetric(float64(r.AtOnce), "at-once")
		})
	}
	tableOfServed(os.Stdout, names, all)
}

// served is what the records say.
type served struct {
	Ticks         int
	Skipped       int
	P50, P99, Max float64 // ms from the tick to its claim
	AtOnce        int     // runs that went on at the same time, at most
	Span          float64 // s from the first claim to the last end
}

func sumUp(runs []cronce.Run) (s served) {
	var late []float64
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	first, last := runs[0].Start, runs[0].End
	for _, r := range runs {
		s.Ticks++
		late = append(late, ms(r.Start.Sub(r.Tick)))
		if r.Start.Before(first) {
			first = r.Start
		}
		if r.End.After(last) {
			last = r.End
		}
		if r.Skip != "" {
			s.Skipped++
			continue
		}
		edges = append(edges, edge{r.Start, 1}, edge{r.End, -1})
	}
	slices.Sort(late)
	s.P50, s.P99, s.Max = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	slices.SortFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	now := 0
	for _, e := range edges {
		now += e.by
		s.AtOnce = max(s.AtOnce, now)
	}
	s.Span = last.Sub(first).Seconds()
	return s
}

// serving is a serve to be measured.
type serving struct {
	bin, dir string
	args     []string
}

// spread serves jobs that are spread over the minute, once each has had its
// first tick: on a new store that one takes longer.
func (s serving) spread() ([]cronce.Run, error) {
	second := func(i int) int { return i % 60 }
	return s.serve(second, func() (from, to time.Time) {
		time.Sleep(65 * time.Second)
		from = time.Now()
		time.Sleep(time.Duration(*minutes) * time.Minute)
		return from, time.Now()
	})
}

// burst serves jobs that are all due in one second, for the second time.
func (s serving) burst() ([]cronce.Run, error) {
	due := time.Now().Add(70 * time.Second).Truncate(time.Second)
	return s.serve(func(int) int { return due.Second() }, func() (from, to time.Time) {
		time.Sleep(time.Until(due) + 30*time.Second)
		return due.Add(-time.Second), due
	})
}

// serve serves the jobs, each due at its second of every minute, while watch
// goes on, and returns what was decided for the ticks after from, up to to.
func (s serving) serve(second func(i int) int, watch func() (from, to time.Time)) ([]cronce.Run, error) {
	var crontab strings.Builder
	for i := range *jobs {
		fmt.Fprintf(&crontab, "# cronce: name=job-%d seconds=yes zone=UTC\n%d * * * * *  true\n", i, second(i))
	}
	path, store := filepath.Join(s.dir, "crontab"), filepath.Join(s.dir, "store")
	if err := os.WriteFile(path, []byte(crontab.String()), 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	serve := exec.Command(filepath.Join(s.bin, "cronce"), append([]string{"serve", "--store", store, "--crontab", path}, s.args...)...)
	serve.Stdout, serve.Stderr = log, log
	if err := serve.Start(); err != nil {
		return nil, err
	}
	from, to := watch()
	serve.Process.Signal(syscall.SIGTERM)
	if err := serve.Wait(); err != nil {
		return nil, err
	}
	out, err := exec.Command(filepath.Join(s.bin, "cronce"), "runs", "--json", "-n", "0", "--store", store).Output()
	if err != nil {
		return nil, err
	}
	var runs []cronce.Run
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var r cronce.Run
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if r.Tick.After(from) && !r.Tick.After(to) {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil, errors.New("nothing was decided")
	}
	return runs, nil
}

// tableOfServed shows the results to people.
func tableOfServed(out io.Writer, names []string, all map[string]served) {
	fmt.Fprintf(out, "\n%d jobs, each once a minute, running true; ms from the tick to its claim, by the store's records.\n", *jobs)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "jobs\tticks\tskipped\tp50\tp99\tmax\truns at once\tseconds\t")
	for _, name := range names {
		r := all[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\t%.1f\t\n", name, r.Ticks, r.Skipped, r.P50, r.P99, r.Max, r.AtOnce, r.Span)
	}
	w.Flush()
}
