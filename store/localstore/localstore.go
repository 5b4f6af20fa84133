// Package localstore keeps jobs, runs and locks of one machine in plain files:
// nothing to install, nothing to run. A job is a folder with a lock file and a
// journal that cat, jq and lslocks can read; see docs/local-store.md.
//
// A lease lasts as long as any process has the job's lock file open, see
// [cronce.Lease.Lock]: the kernel frees it with its last holder, whatever
// happens to them.
package localstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// Options says where a store is and how long it keeps its history. The zero
// value is this user's own store.
type Options struct {
	// Dir is the store's folder, an absolute path. It is made if its parent
	// exists. Empty: CRONCE_STORE, else the place that goes with the user id,
	// see [Place].
	Dir string

	// By says for the record who makes the store, if it is made now. Empty:
	// this process's user.
	By string

	// ReadOnly opens the store, also another user's, only to look at it.
	// What changes it is refused, and a store that does not exist is empty.
	ReadOnly bool

	// KeepAge and KeepBytes bound the history of each job; what exceeds
	// either is forgotten, oldest first. 0 is the default, less than 0 is
	// unbounded. A forgotten tick stays decided.
	KeepAge   time.Duration // default 90 days
	KeepBytes int64         // default 8 MiB
}

// The default retention.
const (
	DefaultKeepAge   = 90 * 24 * time.Hour
	DefaultKeepBytes = 8 << 20
)

// Place is the folder of this user's store: CRONCE_STORE if it is set, else
// /var/lib/cronce/<uid> where that exists or the user is root, else
// .local/state/cronce under the home in /etc/passwd. It does not depend on HOME,
// which cron and a shell set differently. It makes nothing.
func Place() (string, error) {
	p, err := thisHost().place("")
	return p.dir, err
}

// DefaultPlace is Place where nothing names a store, CRONCE_STORE either.
func DefaultPlace() (string, error) {
	h := thisHost()
	h.store = ""
	p, err := h.place("")
	return p.dir, err
}

// Init makes the store of another user in /var/lib/cronce, as root, for instance
// for one without a home. It returns its folder.
//
// Beside it is noted that by asked for it.
func Init(uid, gid int, by string) (string, error) { return thisHost().init(uid, gid, by) }

// Open opens the store, and makes it if it does not exist. *cronce.ConfigError:
// it cannot keep the promise, and what to do about it.
func Open(o Options) (*cronce.Store, error) {
	h := thisHost()
	h.by = o.By
	d, err := openDriver(o, h)
	if err != nil {
		return nil, err
	}
	return cronce.NewStore(d), nil
}

// driver is the store as one process uses it.
type driver struct {
	dir       string // its real path, as the kernel shows it for open files
	named     string // as it was asked for
	readOnly  bool
	keepAge   time.Duration
	keepBytes int64

	// These are other than usual in tests only.
	clock         func() time.Time
	fsync         func(fd int) error
	segmentBytes  int64
	patience      time.Duration // how long a claim waits for the decide lock
	endPatience   time.Duration // and the end of a run
	waitForgotten time.Duration // a place to wait is given up when its claim is not repeated
	grace         time.Duration // between TERM and KILL at a revocation
	// settle is how long left-overs are given to go before they cost a tick: a
	// process that is being ended, or has just told of the end, keeps its copy
	// of the lock for a moment.
	settle  time.Duration
	flocked func() []openFile // searches through /proc

	looks looks

	mu     sync.Mutex
	states map[string]*state // as last read, by job; one goroutine at a time has it
	leases map[string]*leased
	waits  map[string]*waiter
}

// leased is a lease that this process has.
type leased struct {
	file     *os.File
	holder   cronce.Holder // as on record
	orphaned bool
}

var _ cronce.LocalDriver = (*driver)(nil)

// Local makes it a [cronce.LocalDriver].
func (d *driver) Local() {}

// segmentBytes is when a new segment is begun. A claim reads the newest
// segment whole, so it is small; each is a file, so it is not tiny.
const segmentBytes = 16 << 10

func openDriver(o Options, h host) (*driver, error) {
	p, err := h.place(o.Dir)
	if err != nil {
		return nil, err
	}
	d := &driver{
		dir: p.dir, named: p.dir, readOnly: o.ReadOnly, keepAge: o.KeepAge, keepBytes: o.KeepBytes,
		clock: time.Now, fsync: fsync, segmentBytes: segmentBytes,
		patience: 10 * time.Second, endPatience: time.Minute, waitForgotten: 10 * time.Second, grace: cronce.DefaultGrace, settle: 2 * time.Second, flocked: flocked,
		states: map[string]*state{}, leases: map[string]*leased{}, waits: map[string]*waiter{},
	}
	if d.keepAge == 0 {
		d.keepAge = DefaultKeepAge
	}
	if d.keepBytes == 0 {
		d.keepBytes = DefaultKeepBytes
	}
	if !o.ReadOnly {
		self() // read now, and not while others wait for a decide lock
		if err := h.prepare(p); err != nil {
			return nil, err
		}
	} else if have, err := exists(p.dir); err != nil {
		return nil, err
	} else if !have {
		if _, err := os.Lstat(p.dir); errors.Is(err, syscall.ENOTDIR) {
			return nil, &cronce.ConfigError{Store: p.dir, What: "this is in no folder: " + err.Error(), Cure: "set CRONCE_STORE or --store to a folder"}
		}
		return d, nil
	} else if info, err := os.Stat(p.dir); err == nil && !info.IsDir() {
		return nil, notStore(p.dir)
	} else if err := h.checkFormat(p.dir, false); err != nil {
		return nil, err
	}
	// The kernel shows open files by their real path; so must we, to find them.
	if d.dir, err = filepath.EvalSymlinks(p.dir); err != nil {
		return nil, &cronce.UnavailableError{Store: p.dir, Err: err}
	}
	return d, nil
}

// folder is the folder of a job.
func (d *driver) folder(job string) string { return d.dir + "/jobs/" + folderName(job) }

// now is the store's clock, to the microsecond.
func (d *driver) now() time.Time { return d.clock().UTC().Truncate(time.Microsecond) }

// Now is this host's clock.
func (d *driver) Now(ctx context.Context) (time.Time, error) { return d.now(), ctx.Err() }

// take hands out what is known of a job's journal; put takes it back.
func (d *driver) take(job string) *state {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := d.states[job]
	delete(d.states, job)
	return st
}

func (d *driver) put(job string, st *state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.states[job] = st
}

// Init has nothing to do: a store is known since it was made.
func (d *driver) Init(ctx context.Context) error { return errors.Join(d.writable(), ctx.Err()) }

// Close gives up places to wait. Leases, and the locks that keep them, stay
// with whoever has them.
func (d *driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, w := range d.waits {
		w.timer.Stop()
		unlock(w.fd)
		delete(d.waits, id)
	}
	return nil
}

// writable refuses to change a store opened to be looked at.
func (d *driver) writable() error {
	if d.readOnly {
		return &cronce.ConfigError{Store: d.dir, What: "it was opened read-only", Cure: "do this as the store's own user"}
	}
	return nil
}
