package bench

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/schedule"
)

const everySecond = "* * * * * *"

// scheduler is what is measured of each.
type scheduler interface {
	// Add has work called in a goroutine of its own, every second.
	Add(work func()) error
	Start()
	Stop()
}

// schedulers in the order of turns.
var schedulers = []struct {
	name string
	make func() (scheduler, error)
}{
	{"cronce", newTimetable},
	{"robfig", newRobfig},
	{"gocron", newGocron},
}

type timetable struct {
	cronce.Timetable
	cancel context.CancelFunc
	ended  chan struct{}
}

func newTimetable() (scheduler, error) { return &timetable{ended: make(chan struct{})}, nil }

func (t *timetable) Add(work func()) error {
	s, err := schedule.Parse(everySecond, schedule.Options{Seconds: schedule.Always, Zone: time.UTC})
	if err != nil {
		return err
	}
	t.Timetable.Add(s, func(time.Time) { go work() })
	return nil
}

func (t *timetable) Start() {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(t.ended)
		t.Run(ctx)
	}()
}

func (t *timetable) Stop() {
	t.cancel()
	<-t.ended
}

type robfig struct{ *cron.Cron }

func newRobfig() (scheduler, error) {
	return robfig{cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))}, nil
}

func (r robfig) Add(work func()) error {
	_, err := r.AddFunc(everySecond, work)
	return err
}

func (r robfig) Stop() { <-r.Cron.Stop().Done() }

type gocronScheduler struct{ gocron.Scheduler }

func newGocron() (scheduler, error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	return gocronScheduler{s}, err
}

func (g gocronScheduler) Add(work func()) error {
	_, err := g.NewJob(gocron.CronJob(everySecond, true), gocron.NewTask(work))
	return err
}

func (g gocronScheduler) Stop() { g.Shutdown() }
