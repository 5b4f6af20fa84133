package localstore

import (
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		dir := t.TempDir() + "/store"
		clients := map[*cronce.Store]*driver{}
		return storetest.Harness{
			Open: func(t *testing.T) *cronce.Store {
				d := newDriver(t, dir)
				s := cronce.NewStore(d)
				clients[s] = d
				return s
			},
			Kill: func(t *testing.T, s *cronce.Store) { kill(clients[s]) },
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
