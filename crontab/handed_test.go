package crontab_test

import (
	"bytes"
	"encoding/gob"
	"reflect"
	"testing"
	"time"

	"github.com/cronce/cronce/crontab"
)

// A job that was taken to pieces for another process is the same there: in what
// it is defined as, when it is due, how often, and byte for byte in what it does.
func TestRejoin_SameJobInAnotherProcess(t *testing.T) {
	f := parse(t, "A=\xff\n"+
		"CRON_TZ=Europe/Paris\n"+
		"# cronce: name=both overlap=wait=5m timeout=50m\n"+
		"0 8-18 * * 1-5  ann  poll \xe9 %in\xe9\n"+
		"# cronce: name=both overlap=wait=5m timeout=50m\n"+
		"0 12 * * 0,6  ann  poll \xe9 %in\xe9\n"+
		"*/5 * * * *  bob  thrice\n"+
		"*/5 * * * *  bob  thrice\n"+
		"*/5 * * * *  bob  thrice\n"+
		"# cronce: seconds=yes\n"+
		"*/20 H * * * *  bob  hashed\n"+
		"@reboot  bob  once\n"+
		"@reboot  ann  mixed\n"+
		"@every 7m  ann  mixed\n", crontab.Options{Form: crontab.SystemForm, Zone: "UTC"})
	if len(f.Errors) > 0 || len(f.Jobs) != 5 {
		t.Fatalf("%d jobs, %v", len(f.Jobs), f.Errors)
	}
	for _, job := range f.Jobs {
		var wire bytes.Buffer
		if err := gob.NewEncoder(&wire).Encode(job.Lines); err != nil {
			t.Fatal(err)
		}
		var lines []*crontab.Line
		if err := gob.NewDecoder(&wire).Decode(&lines); err != nil {
			t.Fatal(err)
		}
		got, err := crontab.Rejoin(lines)
		if err != nil {
			t.Fatalf("%s: %v", job.Name, err)
		}
		if got.Job != job.Job || got.Reboot() != job.Reboot() {
			t.Errorf("%s became\n%+v, was\n%+v", job.Name, got.Job, job.Job)
		}
		for i, l := range got.Lines {
			was := job.Lines[i]
			if l.Command != was.Command || l.Stdin != was.Stdin || l.User != was.User || !reflect.DeepEqual(l.Env, was.Env) {
				t.Errorf("%s: line %+v, was %+v", job.Name, l, was)
			}
		}
		if job.Schedule == "" {
			continue
		}
		s, err := job.Parse()
		if err != nil {
			t.Fatal(err)
		}
		tick := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
		for range 200 {
			tick = s.Next(tick)
			if got.Slots(tick) != job.Slots(tick) || job.Slots(tick) == 0 {
				t.Fatalf("%s at %s: %d slots, were %d", job.Name, tick, got.Slots(tick), job.Slots(tick))
			}
		}
	}
	if _, err := crontab.Rejoin(nil); err == nil {
		t.Error("a job without lines was made")
	}
}
