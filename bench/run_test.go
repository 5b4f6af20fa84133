package bench

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var runs = flag.Int("runs", 300, "start each program in front of a command this often, and show medians")

// BenchmarkInFrontOfTrue shows what cronce takes beside flock(1), and beside
// the least that a Go program and a guard in Go can take, in front of the shortest
// command there is: the wall time, user and system time with the command's, and the peak of
// resident memory, also with a command that prints 100 MB.
func BenchmarkInFrontOfTrue(b *testing.B) {
	for _, name := range fronts {
		b.Run(name, func(b *testing.B) {
			all, err := measureFronts()
			if err != nil {
				b.Fatal(err)
			}
			f := all[name]
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(f.Wall, "wall-ms")
			b.ReportMetric(f.Wall/all[flock].Wall, "x-flock")
			b.ReportMetric(f.CPU, "cpu-ms")
			b.ReportMetric(f.Peak, "peak-MB")
			b.ReportMetric(f.Printing, "peak-printing-MB")
		})
	}
	if all, err := measureFronts(); err == nil {
		tableOfFronts(os.Stdout, all)
	}
}

// front is what one program takes.
type front struct {
	Wall, CPU      float64 // ms
	Peak, Printing float64 // MB
}

const (
	flock      = "flock"
	bareGo     = "bare Go"
	leastGuard = "least guard"
	cronceRun  = "cronce run"
)

// fronts in the order of turns.
var fronts = []string{flock, bareGo, leastGuard, cronceRun}

// measureFronts measures once a program, run after run in turn.
var measureFronts = sync.OnceValues(func() (map[string]front, error) {
	dir, err := os.MkdirTemp("", "cronce-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := buildPrograms(dir, "../cmd/cronce", "floor"); err != nil {
		return nil, err
	}
	lines := map[string][]string{
		flock:      {"flock", "-n", filepath.Join(dir, "lock")},
		bareGo:     {filepath.Join(dir, "floor"), filepath.Join(dir, "lock")},
		leastGuard: {filepath.Join(dir, "floor"), "-guard", filepath.Join(dir, "journal")},
		cronceRun:  {filepath.Join(dir, "cronce"), "run", "--store", filepath.Join(dir, "store"), "bench", "--"},
	}
	wall, cpu := map[string][]float64{}, map[string][]float64{}
	for range *runs {
		for _, name := range fronts {
			command := exec.Command(lines[name][0], append(lines[name][1:], "/bin/true")...)
			start := time.Now()
			if err := command.Run(); err != nil {
				return nil, fmt.Errorf("%s: %w", command, err)
			}
			wall[name] = append(wall[name], ms(time.Since(start)))
			cpu[name] = append(cpu[name], ms(command.ProcessState.UserTime()+command.ProcessState.SystemTime()))
		}
	}
	all := map[string]front{}
	for _, name := range fronts {
		f := front{Wall: median(wall[name]), CPU: median(cpu[name])}
		for _, peak := range []struct {
			of      *float64
			command []string
		}{
			{&f.Peak, []string{"/bin/true"}},
			{&f.Printing, []string{"/usr/bin/head", "-c", "100M", "/dev/zero"}},
		} {
			if *peak.of, err = peakOf(dir, slices.Concat(lines[name], peak.command)); err != nil {
				return nil, err
			}
		}
		all[name] = f
	}
	return all, nil
})

// buildPrograms builds programs as they are released, each in the module of its
// folder, into dir.
func buildPrograms(dir string, folders ...string) error {
	for _, folder := range folders {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", ".")
		build.Dir = folder
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", build, err, out)
		}
	}
	return nil
}

// peakOf is the median of what some runs had resident at most, in MB.
func peakOf(dir string, line []string) (float64, error) {
	path, err := exec.LookPath(line[0])
	if err != nil {
		return 0, err
	}
	var peaks []float64
	for range 5 {
		out, err := exec.Command(filepath.Join(dir, "floor"), slices.Concat([]string{"-peak", path}, line[1:])...).Output()
		if err != nil {
			return 0, fmt.Errorf("the memory of %s: %w", line, err)
		}
		kib, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return 0, err
		}
		peaks = append(peaks, kib/1024)
	}
	return median(peaks), nil
}

// tableOfFronts shows the results to people.
func tableOfFronts(out io.Writer, all map[string]front) {
	fmt.Fprintf(out, "\nIn front of true; medians of %d runs in turn, and the most memory at once, also in front of what prints 100 MB.\n", *runs)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "program\twall ms\tof flock\tCPU ms\tMB\tMB, printing\t")
	for _, name := range fronts {
		f := all[name]
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t\n", name, f.Wall, f.Wall/all[flock].Wall, f.CPU, f.Peak, f.Printing)
	}
	w.Flush()
}
