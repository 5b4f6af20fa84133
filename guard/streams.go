package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// streams are a command's standard streams and our ends of them.
type streams struct {
	child   [3]int // what the command gets
	ours    []int  // its ends to close once the command has them
	feed    *os.File
	sources []*source
	tail    *Tail
	copying sync.WaitGroup

	mu        sync.Mutex
	lostBytes int64 // could not be written
	lostErr   error // why, the first time
}

// source is our end of one stream of output, and where it goes.
type source struct {
	fd   int      // -1: closed, or passed on by now
	from *os.File // the same, once it is passed on
	to   *os.File
}

// newStreams opens what the command will read and write.
func newStreams(c Command) (s *streams, err error) {
	s = &streams{tail: c.Tail}
	if s.tail == nil {
		s.tail = &Tail{}
	}
	for i, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		s.child[i] = -1
		if f != nil {
			s.child[i] = int(f.Fd())
		}
	}
	if c.Stdin == nil && c.Input != "" {
		feed := 0
		if s.child[0], feed, err = s.pipe(1); err != nil {
			return nil, fmt.Errorf("a pipe for the command's input: %w", err)
		}
		s.feed = os.NewFile(uintptr(feed), "input")
	}
	if !c.Direct() {
		for i, to := range []*os.File{c.Stdout, c.Stderr} {
			if i == 1 && sameFile(c.Stdout, c.Stderr) {
				s.child[2] = s.child[1] // one pipe keeps the order
				break
			}
			src := &source{to: to}
			if s.child[1+i], src.fd, err = s.pipe(0); err != nil {
				return nil, fmt.Errorf("a pipe for the command's output: %w", err)
			}
			s.sources = append(s.sources, src)
		}
	}
	for i, fd := range s.child {
		if fd >= 0 {
			continue
		}
		null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("no stream %d for the command: %w", i, &os.PathError{Op: "open", Path: os.DevNull, Err: err})
		}
		s.child[i] = null
		s.ours = append(s.ours, null)
	}
	return s, nil
}

// pipe makes a pipe of which that end is ours, and does not block.
func (s *streams) pipe(end int) (theirs, ours int, err error) {
	var fd [2]int
	if err := syscall.Pipe2(fd[:], syscall.O_CLOEXEC); err != nil {
		return -1, -1, os.NewSyscallError("pipe2", err)
	}
	theirs, ours = fd[1-end], fd[end]
	s.ours = append(s.ours, theirs)
	return theirs, ours, syscall.SetNonblock(ours, true)
}

// sameFile reports whether two streams go to one place.
func sameFile(a, b *os.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// started closes what only the command needs.
func (s *streams) started() {
	for _, fd := range s.ours {
		syscall.Close(fd)
	}
}

// give begins to write the command's input.
func (s *streams) give(input string) {
	if s.feed != nil {
		// Not waited for: a command need not read its input.
		go func() {
			io.WriteString(s.feed, input)
			s.feed.Close()
		}()
	}
}

// begin begins to pass a stream on, as there is something in it. Most commands
// of a crontab print nothing, and need not wait for a goroutine.
func (s *streams) begin(src *source) {
	// A reader of our output that goes away must not end us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	src.from = os.NewFile(uintptr(src.fd), "output") // which lets the poller have it, as it does not block
	src.fd = -1
	s.copying.Go(func() { s.pass(src) })
}

// close closes a stream in which there was nothing.
func (src *source) close() {
	syscall.Close(src.fd)
	src.fd = -1
}

// maxPiece is how much output is passed on at once.
const maxPiece = 32 << 10

// pass copies one stream until its end, or until finish says that nobody is
// left to write to it.
func (s *streams) pass(src *source) {
	defer src.from.Close()
	buf := make([]byte, 4<<10) // most commands print less, and each page of it takes time
	for {
		n, err := src.from.Read(buf)
		s.passed(src, buf[:n])
		if n == len(buf) && n < maxPiece {
			buf = make([]byte, 2*n)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	// What is still in the pipe. It need not end: a process that is not ours
	// may have it open.
	src.from.SetReadDeadline(time.Time{})
	raw, err := src.from.SyscallConn()
	if err != nil {
		return
	}
	for {
		n := 0
		raw.Read(func(fd uintptr) bool { n, _ = syscall.Read(int(fd), buf); return true })
		if n <= 0 {
			return
		}
		s.passed(src, buf[:n])
	}
}

// passed hands a piece of output on and keeps it. A reader of ours that goes
// away does not stop the command. What cannot be written is lost, and is not
// passed over in silence: without us the command would have had the error.
func (s *streams) passed(src *source, p []byte) {
	if len(p) == 0 {
		return
	}
	s.tail.Add(p)
	if src.to == nil {
		return
	}
	n, err := src.to.Write(p)
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPIPE):
		src.to = nil
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lostBytes += int64(len(p) - n)
		if s.lostErr == nil {
			s.lostErr = err
		}
	}
}

// lost says what could not be written, if anything.
func (s *streams) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lostErr == nil {
		return nil
	}
	return fmt.Errorf("%d bytes of its output are lost: %w", s.lostBytes, s.lostErr)
}

// abandon closes our ends when there is no command.
func (s *streams) abandon() {
	for _, src := range s.sources {
		src.close()
	}
	if s.feed != nil {
		s.feed.Close()
	}
}

// finish lets what is still in the pipes be passed on, and closes them. It
// reports whether there is something to wait for.
func (s *streams) finish() bool {
	busy := false
	for _, src := range s.sources {
		if left := []pollFD{{fd: int32(src.fd), events: pollIn}}; src.fd >= 0 {
			if poll(left, 0); left[0].revents&pollIn != 0 {
				s.begin(src)
			} else {
				src.close()
			}
		}
		if src.from != nil {
			src.from.SetReadDeadline(time.Now())
			busy = true
		}
	}
	if s.feed != nil {
		s.feed.Close()
	}
	return busy
}
