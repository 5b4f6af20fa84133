package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// task is one measurement; it is handed to a process of its own.
type task struct {
	Scheduler string
	Entries   int
	Ticks     int           // how many seconds of firing are watched
	AddLimit  time.Duration // when to give up adding to a running scheduler
}

// result is what one measurement found.
type result struct {
	CPU      float64 // ms a tick, user and system, of the whole process
	P50, P99 float64 // ms after the whole second, of the fires that came
	Lost     float64 // share of the fires that did not come, 0 to 1
	Memory   float64 // MB resident at its highest

	Added int     // entries added to a running scheduler, Entries unless it took too long
	Add   float64 // µs an entry
}

// taskVariable hands the task to the child process.
const taskVariable = "CRONCE_BENCH_TASK"

// inOwnProcess runs the task in a new process of this test program.
func (t task) inOwnProcess() (r result, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return r, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s with %d entries: %w", t.Scheduler, t.Entries, err)
	}
	return r, json.Unmarshal(out, &r)
}

// runTask is the child process.
func runTask(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	var r result
	if err := t.fire(&r); err != nil {
		return err
	}
	if err := t.add(&r); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func (t task) make() (scheduler, error) {
	for _, s := range schedulers {
		if s.name == t.Scheduler {
			return s.make()
		}
	}
	return nil, errors.New("no such scheduler: " + t.Scheduler)
}

// fire watches t.Entries entries for t.Ticks seconds, from the middle of a
// second to the middle of another, once they have found their pace.
func (t task) fire(r *result) error {
	s, err := t.make()
	if err != nil {
		return err
	}
	var late lateness
	for range t.Entries {
		if err := s.Add(late.note); err != nil {
			return err
		}
	}
	s.Start()
	defer s.Stop()

	sleepToHalfSecond(2)
	late.watched.Store(true)
	before := cpu()
	sleepToHalfSecond(t.Ticks)
	used := cpu() - before
	late.watched.Store(false)

	r.CPU = ms(used) / float64(t.Ticks)
	r.P50, r.P99 = late.quantile(0.50), late.quantile(0.99)
	r.Lost = 1 - float64(late.count())/float64(t.Ticks*t.Entries)
	r.Memory = float64(usage().Maxrss) / 1024
	return nil
}

// add adds t.Entries entries to a scheduler that runs already.
func (t task) add(r *result) error {
	s, err := t.make()
	if err != nil {
		return err
	}
	s.Start()
	defer s.Stop()
	start := time.Now()
	for r.Added < t.Entries && time.Since(start) < t.AddLimit {
		if err := s.Add(func() {}); err != nil {
			return err
		}
		r.Added++
	}
	r.Add = ms(time.Since(start)) * 1000 / float64(r.Added)
	return nil
}

// lateness counts fires by how long after a whole second they came. A fire
// that is late by more than a second looks early in the next; it shows as load
// on the whole, and where the load is too high, as lost.
type lateness struct {
	watched atomic.Bool
	counts  [1e9 / latenessStep]atomic.Int64
}

const latenessStep = 100e3 // ns

func (l *lateness) note() {
	if now := time.Now(); l.watched.Load() {
		l.counts[now.Nanosecond()/latenessStep].Add(1)
	}
}

func (l *lateness) count() (n int64) {
	for i := range l.counts {
		n += l.counts[i].Load()
	}
	return n
}

// quantile is the lateness in ms that the share q of all fires kept below.
func (l *lateness) quantile(q float64) float64 {
	rest := int64(math.Ceil(q * float64(l.count())))
	for i := range l.counts {
		if rest -= l.counts[i].Load(); rest <= 0 {
			return float64(i+1) * latenessStep / 1e6
		}
	}
	return 0
}

// sleepToHalfSecond sleeps to the middle of the n-th second from this one.
func sleepToHalfSecond(n int) {
	now := time.Now()
	time.Sleep(now.Truncate(time.Second).Add(time.Duration(n)*time.Second + time.Second/2).Sub(now))
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u
}

func cpu() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// spent is what some work took.
type spent struct {
	time time.Duration
	cpu  time.Duration // of this process, and of the servers that it has started
}

func spend(work func() error) (s spent, err error) {
	begun, used := time.Now(), cpu()+childrenCPU()
	err = work()
	return spent{time.Since(begun), cpu() + childrenCPU() - used}, err
}

// childrenCPU is what the processes below this one have used so far, in steps of 10 ms, with those of them that have ended.
func childrenCPU() (used time.Duration) {
	parents, own := map[string]string{}, map[string]time.Duration{}
	processes, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range processes {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid := filepath.Base(filepath.Dir(path))
		parents[pid] = fields[1]
		for _, ticks := range fields[11:15] { // user and system, its own and its ended children's
			n, _ := strconv.Atoi(ticks)
			own[pid] += time.Duration(n) * 10 * time.Millisecond
		}
	}
	self := strconv.Itoa(os.Getpid())
	for pid := range parents {
		for above := parents[pid]; above != ""; above = parents[above] {
			if above == self {
				used += own[pid]
				break
			}
		}
	}
	return used
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// medians of every figure on its own.
func medians(results []result) (m result) {
	of := func(figure func(result) float64) float64 {
		values := make([]float64, len(results))
		for i, r := range results {
			values[i] = figure(r)
		}
		return median(values)
	}
	m.CPU = of(func(r result) float64 { return r.CPU })
	m.P50 = of(func(r result) float64 { return r.P50 })
	m.P99 = of(func(r result) float64 { return r.P99 })
	m.Lost = of(func(r result) float64 { return r.Lost })
	m.Memory = of(func(r result) float64 { return r.Memory })
	m.Added = int(of(func(r result) float64 { return float64(r.Added) }))
	m.Add = of(func(r result) float64 { return r.Add })
	return m
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
