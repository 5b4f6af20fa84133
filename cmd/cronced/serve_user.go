package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/cronce/cronce/crontab"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// serveUser is the process that serve --system has for one user: a serve that is
// told of its jobs. It is no command for people.
func serveUser(ctx context.Context, stdout io.Writer) error {
	for _, fd := range []int{ordersFD, thinFD, turnsFD} {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, syscall.FD_CLOEXEC); errno != 0 {
			return cli.Misuse("", "'serve-user' is started by serve --system only")
		}
	}
	os.WriteFile("/proc/self/comm", []byte("cronced"), 0) // for ps, which would show "exe"
	dec := gob.NewDecoder(bufio.NewReader(os.NewFile(ordersFD, "orders")))
	var first userOrder
	if err := dec.Decode(&first); err != nil {
		return fmt.Errorf("the orders of serve --system: %w", err)
	}
	jobs, err := rejoin(first.Jobs)
	if err != nil {
		return err
	}
	store, err := localstore.Open(localstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	orders := make(chan userOrder)
	s := &server{
		store: store, orders: orders, notBefore: first.NotBefore, reap: newReaper(os.Getpid()),
		thin: &thin{os.NewFile(thinFD, "cronce"), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), thinFD)},
		out:  newLines(stdout, false),
		atBoot: func(name string) bool {
			return slices.ContainsFunc(first.Jobs, func(j userJob) bool { return j.AtBoot && j.Lines[0].Job.Name == name })
		},
	}
	defer s.out.close()
	t := &turns{w: os.NewFile(turnsFD, "turns"), waiting: map[string]chan struct{}{}}
	if first.Bounded {
		s.gate = t
	}
	go func() {
		defer close(orders)
		o := first
		o.Jobs = nil // they are served from the start
		for err := error(nil); err == nil; o, err = next(dec) {
			for _, id := range o.Turns {
				t.come(id)
			}
			if o.Jobs != nil || o.Drain || o.Rest {
				orders <- o
			}
		}
	}()
	return s.run(ctx, jobs, 0)
}

// next reads the next order.
func next(dec *gob.Decoder) (o userOrder, err error) {
	err = dec.Decode(&o)
	return o, err
}

// rejoin makes jobs of what is told of them.
func rejoin(told []userJob) (jobs []fileJob, err error) {
	for _, j := range told {
		job, err := crontab.Rejoin(j.Lines)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, fileJob{Job: job})
	}
	return jobs, nil
}

// take serves the jobs that an order tells of, in place of those before.
func (s *server) take(o userOrder) {
	if o.Jobs == nil && !o.Rest {
		return
	}
	s.resting = o.Rest
	jobs, err := rejoin(o.Jobs)
	if err == nil {
		err = s.scheduler.Set(s.plans(jobs))
	}
	if err != nil {
		s.out.say("serve", "NOT LOADED %v; what was served goes on", err)
		return
	}
	s.noteJobs(jobs)
	s.out.say("serve", "loaded     %s", count(len(jobs), "job"))
}
