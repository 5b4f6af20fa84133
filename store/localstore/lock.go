package localstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// The lock files of a job. None is ever unlinked: whoever held the old file
// and whoever locked a new one of the same name would both be let in.
const (
	jobLock  = "job.lock"  // the one run of the job; lives as long as any process of the run
	waitLock = "wait.lock" // the one place to wait for that run's end; dies with its process
)

// numberedLock is the lock of one of several runs, under overlap=allow.
func numberedLock(n int) string { return fmt.Sprintf("run.%03d.lock", n) }

// isRunLock tells whether a file's name is of a lock that a run can have.
func isRunLock(name string) bool { return name == jobLock || isNumberedLock(name) }

// isNumberedLock tells whether a file's name is one of those.
func isNumberedLock(name string) bool {
	digits, ok := strings.CutPrefix(name, "run.")
	if !ok {
		return false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(digits, ".lock"))
	return err == nil && n > 0 && numberedLock(n) == name
}

// errBusy is a lock that somebody else holds.
var errBusy = errors.New("locked")

// flock takes the lock if it is free. A lock belongs to the open file, not to
// the process: every open of ours excludes every other.
func flock(fd int) error {
	err := retry(func() error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if err == syscall.EWOULDBLOCK {
		return errBusy
	}
	return err
}

// unlock frees a lock that no other process is to keep: explicitly, as a child
// that another goroutine is just forking has a copy of the descriptor until it
// execs.
func unlock(fd int) {
	syscall.Flock(fd, syscall.LOCK_UN)
	syscall.Close(fd)
}

// lockFile opens and locks a lock file. errBusy: somebody holds it. The file
// is looked at again once it is locked: had it been replaced meanwhile, the
// lock would exclude nobody.
func lockFile(path string) (fd int, st syscall.Stat_t, err error) {
	for {
		fd, err := open(path, syscall.O_RDWR|syscall.O_CREAT)
		if err != nil {
			return -1, st, err
		}
		st, err := fstat(fd)
		if err == nil {
			err = isFile(path, st)
		}
		if err == nil {
			err = flock(fd)
		}
		if err != nil {
			syscall.Close(fd)
			return -1, st, err
		}
		if now, err := stat(path); err == nil && now.Dev == st.Dev && now.Ino == st.Ino {
			return fd, st, nil
		}
		unlock(fd)
	}
}

// lockDir takes the decide lock of a job: flock(2) on its folder itself. There
// is no file that could be deleted under it, and whoever holds it holds the
// very folder that has the journal. It waits for patience at most.
func lockDir(ctx context.Context, store, dir string, patience time.Duration) (int, error) {
	end := time.Now().Add(patience)
	pause := 200 * time.Microsecond
	for {
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		fd, err := open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		for {
			if err = flock(fd); err != errBusy {
				break
			}
			if ctx.Err() != nil || !time.Now().Before(end) {
				break
			}
			// flock(2) itself cannot be told to give up after a while.
			time.Sleep(pause/2 + rand.N(pause))
			pause = min(pause*3/2, 5*time.Millisecond)
		}
		switch {
		case err == errBusy && ctx.Err() != nil:
			syscall.Close(fd)
			return -1, ctx.Err()
		case err == errBusy:
			err = &cronce.UnavailableError{Store: store, Err: fmt.Errorf("%w for %s: %s decides for this job and does not go on (see %s)",
				errBusy, patience, describeFlocker(fd), dir)}
			syscall.Close(fd)
			return -1, err
		case err != nil:
			syscall.Close(fd)
			return -1, err
		}
		mine, err := fstat(fd)
		now, err2 := stat(dir)
		if err == nil && err2 == nil && mine.Dev == now.Dev && mine.Ino == now.Ino {
			return fd, nil
		}
		unlock(fd) // the folder was moved or deleted meanwhile
	}
}

// closeLease closes a run's lock. A copy in a child that is being forked just
// now would keep the lock for a moment and cost the next tick, so it is closed
// between forks; Go holds ForkLock until a child has exec'd.
func closeLease(f *os.File, free bool) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if free {
		if c, err := f.SyscallConn(); err == nil {
			c.Control(func(fd uintptr) { syscall.Flock(int(fd), syscall.LOCK_UN) })
		}
	}
	f.Close()
}
