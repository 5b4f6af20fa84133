package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// ofBoot are the @reboot jobs of a serve whose store hosts share. They are this host's
// alone, each host being started by itself, so that its local store has their runs. One that
// is due at times as well is the fleet's, so that it cannot overlap itself.
type ofBoot struct {
	dir   string // of the local store
	store *cronce.Store
	note  *localstore.Note // for 'cronce status'
}

// split takes out what is the host's alone.
func (s *server) split(jobs []fileJob) (fleet, host []fileJob) {
	for _, job := range jobs {
		if s.store.Shared() && job.Reboot() && job.Schedule == "" {
			host = append(host, job)
		} else {
			fleet = append(fleet, job)
		}
	}
	return fleet, host
}

// openBoot opens the local store for the jobs of this host.
func (s *server) openBoot(jobs []fileJob) (b *ofBoot, err error) {
	m, err := localstore.OpenMachine(os.Getenv(cli.LocalStoreVariable))
	if err != nil {
		return nil, err
	}
	b = &ofBoot{dir: m.Dir()}
	if b.store, err = localstore.Open(localstore.Options{Dir: b.dir}); err != nil {
		return nil, err
	}
	if b.note, err = localstore.NoteServe(b.dir); err == nil {
		err = b.note.Set(names(jobs))
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *ofBoot) close() {
	if b.note != nil {
		b.note.Close()
	}
	b.store.Close()
}

// together runs schedulers as one: what they report is that of one, and what goes on is named
// when none of them starts anything any more.
func together(ctx context.Context, report func(cronce.Event), schedulers ...*cronce.Scheduler) (err error) {
	starting := atomic.Int32{}
	starting.Store(int32(len(schedulers)))
	var all sync.WaitGroup
	for i, s := range schedulers {
		s.Report = func(e cronce.Event) {
			if e.Kind != cronce.EventDraining || starting.Add(-1) == 0 {
				report(e)
			}
		}
		all.Go(func() {
			if ended := s.Run(ctx); i == 0 {
				err = ended
			}
		})
	}
	all.Wait()
	return err
}

// offerBoot offers the @reboot lines of jobs.
func (s *server) offerBoot(scheduler *cronce.Scheduler, jobs []fileJob) {
	for _, job := range jobs {
		if !job.Reboot() || s.atBoot != nil && !s.atBoot(job.Name) {
			continue
		}
		tick, id, err := bootOf(job.Name)
		if err == nil {
			err = scheduler.Offer(job.Name, tick, id)
		}
		if err != nil {
			s.out.say(job.Name, "NOT RUN    @reboot: %v", err)
		}
	}
}

// bootOf is the tick of a job's @reboot line for this boot of the machine, and
// the id of its run. The clock may be set between boot and now, so that the
// tick is not the same each time; the id is, by the kernel's own id of the boot.
func bootOf(job string) (tick time.Time, runID string, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return tick, "", fmt.Errorf("which boot this is: %w", err)
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return tick, "", fmt.Errorf("when the machine was started: %w", err)
	}
	var seconds float64
	if _, err := fmt.Sscan(string(text), &seconds); err != nil {
		return tick, "", fmt.Errorf("/proc/uptime: %w", err)
	}
	tick = time.Now().Add(-time.Duration(seconds * float64(time.Second))).Truncate(time.Second)
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(id)) + "|" + job))
	// A UUIDv7 of the time 0: older than any other run of the job.
	x := "000000000000" + "7" + hex.EncodeToString(sum[:])[:19]
	return tick, x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-8" + x[17:20] + "-" + x[20:32], nil
}
