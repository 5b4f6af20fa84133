package localstore

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/cronce/cronce"
)

// Files are opened by system calls of our own and not by package os: os hands
// each one to the network poller first, and a thin program that starts for
// every job need not start that.

// retry calls f again for as long as a signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}

// open opens a file close-on-exec and never through a symbolic link. It does
// not wait for the other end of a pipe.
func open(path string, flags int) (int, error) {
	if flags&(syscall.O_DIRECTORY|syscall.O_RDWR) == 0 {
		flags |= syscall.O_NONBLOCK // O_RDWR does not wait either, and goes to programs that may be surprised
	}
	fd := -1
	err := retry(func() (err error) {
		fd, err = syscall.Open(path, flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
		return err
	})
	switch err {
	case nil:
		return fd, nil
	case syscall.ENXIO, syscall.EISDIR:
		return -1, &notFileError{path} // a pipe or socket; a folder
	}
	return -1, &os.PathError{Op: "open", Path: path, Err: err}
}

// notFileError is something else in the place of a file: a folder, a pipe.
type notFileError struct{ path string }

func (e *notFileError) Error() string { return e.path + " is not a file" }

// isFile refuses what is none; a pipe can be locked, and keeps nothing.
func isFile(path string, st syscall.Stat_t) error {
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return &notFileError{path}
	}
	return nil
}

func fstat(fd int) (st syscall.Stat_t, err error) {
	err = retry(func() error { return syscall.Fstat(fd, &st) })
	return st, err
}

func lstat(path string) (st syscall.Stat_t, err error) {
	err = retry(func() error { return syscall.Lstat(path, &st) })
	return st, err
}

func stat(path string) (st syscall.Stat_t, err error) {
	err = retry(func() error { return syscall.Stat(path, &st) })
	return st, err
}

// readFrom reads a file from that offset to its end.
func readFrom(fd int, offset int64) ([]byte, error) {
	st, err := fstat(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return nil, &notFileError{path}
	}
	buf := make([]byte, max(st.Size-offset, 0)+512)
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		var m int
		err := retry(func() (err error) { m, err = syscall.Pread(fd, buf[n:], offset+int64(n)); return err })
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return buf[:n], nil
		}
		n += m
	}
}

// readFile reads a whole file.
func readFile(path string) ([]byte, error) {
	fd, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	return readFrom(fd, 0)
}

// readDir is the names in a folder.
func readDir(dir string) (names []string, err error) {
	fd, err := open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	buf := make([]byte, 4<<10)
	for {
		n := 0
		err := retry(func() (err error) { n, err = syscall.Getdents(fd, buf); return err })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: dir, Err: err}
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}

// writeAll writes b at the file's position.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		var n int
		err := retry(func() (err error) { n, err = syscall.Write(fd, b); return err })
		if err != nil {
			return err
		}
		if n == 0 {
			return syscall.EIO
		}
		b = b[n:]
	}
	return nil
}

func fsync(fd int) error { return retry(func() error { return syscall.Fsync(fd) }) }

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	fd := -1
	err := retry(func() (err error) {
		fd, err = syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer syscall.Close(fd)
	return fsync(fd)
}

var tmpNumber atomic.Int64

// replaceFile gives the file a new content in one step.
func replaceFile(path string, content []byte) error {
	tmp := fmt.Sprintf("%s.tmp%d-%d", path, os.Getpid(), tmpNumber.Add(1))
	fd, err := open(tmp, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC)
	if err != nil {
		return err
	}
	err = writeAll(fd, content)
	if err == nil {
		err = fsync(fd)
	}
	if e := syscall.Close(fd); err == nil {
		err = e
	}
	if err == nil {
		err = syscall.Rename(tmp, path)
	}
	if err != nil {
		syscall.Unlink(tmp)
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return syncDir(parent(path))
}

const fallocKeepSize = 1 // FALLOC_FL_KEEP_SIZE

// reserve makes sure that size bytes from offset can be written later, without
// changing the file's length. Where the file system knows no such thing, there
// is nothing to be had.
func reserve(fd int, offset, size int64) error {
	err := retry(func() error { return syscall.Fallocate(fd, fallocKeepSize, offset, size) })
	switch err {
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL:
		return nil
	}
	return err
}

func statfs(path string) (kind int64, readOnly bool, err error) {
	var st syscall.Statfs_t
	err = retry(func() error { return syscall.Statfs(path, &st) })
	const stRdonly = 1
	return int64(st.Type), st.Flags&stRdonly != 0, err
}

// notStarted is what an error of the disk means at a claim.
const notStarted = "the work was not started"

// diskError says what an error of the disk is, and what it means to the job.
// Any other error it returns as it is.
func diskError(dir, consequence string, err error) error {
	what := "it cannot be used now"
	var errno syscall.Errno
	var notFile *notFileError
	switch {
	case errors.As(err, &notFile):
		return &cronce.ConfigError{Store: dir, What: notFile.Error(), Cure: "move it away"}
	case !errors.As(err, &errno):
		return err // an answer, or an error that says all itself
	case errors.Is(err, syscall.ENOSPC):
		what = "the disk is full"
	case errors.Is(err, syscall.EDQUOT):
		what = "the disk quota is used up"
	case errors.Is(err, syscall.EROFS):
		what = "the file system is read-only now"
	case errors.Is(err, syscall.EIO):
		what = "the disk has errors"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return &cronce.ConfigError{Store: dir, What: "no access: " + err.Error(),
			Cure: thisHost().accessCure(dir)}
	case errors.Is(err, syscall.ELOOP):
		return &cronce.ConfigError{Store: dir, What: "a symbolic link is in the place of a file: " + err.Error(), Cure: "remove the link"}
	}
	if consequence != "" {
		what += ", " + consequence
	}
	return &cronce.UnavailableError{Store: dir, Err: fmt.Errorf("%s: %w", what, err)}
}
