package localstore

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"syscall"
)

// Machine keeps, in this user's local store, a lock for each job that a store elsewhere
// decides for. Such a lock decides nothing. It is what the processes of a run keep when
// all have died who could have ended them with their lease.
type Machine struct{ dir string }

// OpenMachine makes the place ready. dir is that of the local store; empty is the place
// that goes with the user id, whatever CRONCE_STORE says. The errors are those of [Open].
func OpenMachine(dir string) (*Machine, error) {
	h := thisHost()
	h.store = ""
	p, err := h.place(dir)
	if err == nil {
		err = h.prepare(p)
	}
	if err != nil {
		return nil, err
	}
	return &Machine{dir: p.dir}, nil
}

// Dir is the folder of the local store.
func (m *Machine) Dir() string { return m.dir }

// ErrMachineHeld says that processes on this machine have the lock of a job.
var ErrMachineHeld = errors.New("held on this machine")

// lock is the file for that job of that store, which is named by a URL without secrets.
func (m *Machine) lock(store, job string) string {
	return m.dir + "/shared/" + folderName(store) + "/" + folderName(job) + ".lock"
}

// Lock takes the lock, for as long as any process has the file open. [ErrMachineHeld]:
// another has it.
func (m *Machine) Lock(store, job string) (*os.File, error) {
	path := m.lock(store, job)
	for _, dir := range []string{m.dir + "/shared", parent(path)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, syscall.EEXIST) {
			return nil, diskError(m.dir, "", err)
		}
	}
	fd, st, err := lockFile(path)
	if err == errBusy {
		return nil, ErrMachineHeld
	}
	if err != nil {
		return nil, diskError(m.dir, "", err)
	}
	if st.Size == 0 { // for people who find the file
		if b, err := json.Marshal(label{Lock: jobLock, Job: job, Store: store}); err == nil {
			writeAll(fd, append(b, '\n'))
		}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Holders are the processes that have the lock, as far as this user may look into them.
func (m *Machine) Holders(store, job string) (pids []int) {
	st, err := stat(m.lock(store, job))
	if err != nil {
		return nil
	}
	id := lockID{Dev: uint64(st.Dev), Ino: st.Ino}
	for _, o := range flocked() {
		if o.is(id) && !slices.Contains(pids, o.pid) {
			pids = append(pids, o.pid)
		}
	}
	return pids
}

// Unlock gives the lock up; processes that have inherited it keep it, unless free.
func (m *Machine) Unlock(lock *os.File, free bool) { closeLease(lock, free) }
