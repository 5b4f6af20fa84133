package localstore

import (
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/storetest"
)

func TestStore(t *testing.T) {
	ticks := 1000
	if raceBuilt {
		ticks = 50 // each claim opens and locks files; the detector makes that slow
	}
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		dir := t.TempDir() + "/store"
		var clients sync.Map // of *driver, by *cronce.Store
		return storetest.Harness{
			Open: func(t *testing.T) *cronce.Store {
				d := newDriver(t, dir)
				d.patience = time.Minute // 64 at one lock, on a busy machine
				s := cronce.NewStore(d)
				clients.Store(s, d)
				return s
			},
			Kill: func(t *testing.T, s *cronce.Store) {
				d, _ := clients.Load(s)
				kill(d.(*driver))
			},
			Ticks:   ticks,
			Clients: 64, // each is a process of its own, and reads on where it was
		}
	})
}

// kill does to a driver what the kernel does to the locks of a process that
// dies.
func kill(d *driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, l := range d.leases {
		l.file.Close()
		delete(d.leases, id)
	}
	for id, w := range d.waits {
		w.timer.Stop()
		unlock(w.fd)
		delete(d.waits, id)
	}
}
