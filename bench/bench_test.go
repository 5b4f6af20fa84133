package bench

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	rounds   = flag.Int("rounds", 3, "measure everything this often, and show medians")
	ticks    = flag.Int("ticks", 5, "watch the firing for so many seconds")
	addLimit = flag.Duration("addlimit", 20*time.Second, "give up adding entries after this")
	sizes    = []int{10_000, 100_000}
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(taskVariable); ok {
		if err := runTask(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text, ok := os.LookupEnv(memberVariable); ok {
		if err := runMember(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// BenchmarkEverySecond shows, for each number of entries and each scheduler,
// the figures of result. There is no time of one operation in it: the work is
// paced by the clock.
func BenchmarkEverySecond(b *testing.B) {
	for i, entries := range sizes {
		for _, s := range schedulers {
			b.Run(fmt.Sprintf("entries=%d/%s", entries, s.name), func(b *testing.B) {
				all, err := measureAll()
				if err != nil {
					b.Fatal(err)
				}
				r := all[i][s.name]
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(r.CPU, "cpu-ms/tick")
				b.ReportMetric(r.P50, "late-p50-ms")
				b.ReportMetric(r.P99, "late-p99-ms")
				b.ReportMetric(100*r.Lost, "lost-%")
				b.ReportMetric(r.Memory, "rss-MB")
				b.ReportMetric(r.Add, "add-µs/entry")
			})
		}
	}
	if all, err := measureAll(); err == nil {
		table(os.Stdout, all)
	}
}

// measureAll measures everything once a program: the schedulers in turn, so
// that a busy minute of the machine hits all of them.
var measureAll = sync.OnceValues(func() ([]map[string]result, error) {
	all := make([]map[string]result, len(sizes))
	for i, entries := range sizes {
		got := map[string][]result{}
		for range *rounds {
			for _, s := range schedulers {
				t := task{Scheduler: s.name, Entries: entries, Ticks: *ticks, AddLimit: *addLimit}
				r, err := t.inOwnProcess()
				if err != nil {
					return nil, err
				}
				got[s.name] = append(got[s.name], r)
			}
		}
		all[i] = map[string]result{}
		for name, results := range got {
			all[i][name] = medians(results)
		}
	}
	return all, nil
})

// table shows the results to people.
func table(out io.Writer, all []map[string]result) {
	fmt.Fprintf(out, "\nEntries that fire every second; medians of %d rounds of %d s.\n", *rounds, *ticks)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join([]string{
		"entries", "scheduler", "CPU ms/tick", "late p50 ms", "late p99 ms", "lost %", "RSS MB", "add to running µs", "",
	}, "\t"))
	for i, entries := range sizes {
		for _, s := range schedulers {
			r := all[i][s.name]
			fmt.Fprintf(w, "%d\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t", entries, s.name, r.CPU, r.P50, r.P99, 100*r.Lost, r.Memory, r.Add)
			if r.Added < entries {
				fmt.Fprintf(w, " given up at %d", r.Added)
			}
			fmt.Fprintln(w)
		}
	}
	w.Flush()
}
