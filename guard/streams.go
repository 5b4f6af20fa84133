package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// TailBytes is how much of a command's output is kept for the record.
const TailBytes = 64 << 10

// streams are a command's standard streams and our ends of them.
type streams struct {
	child   [3]*os.File // what the command gets
	ours    []*os.File  // its ends to close once the command has them
	feed    *os.File    // our end of its input
	sources []*source
	tail    tail
	copying sync.WaitGroup

	mu        sync.Mutex
	lostBytes int64 // could not be written
	lostErr   error // why, the first time
}

// source is our end of one stream of output, and where it goes.
type source struct {
	from *os.File
	to   *os.File
}

// newStreams opens what the command will read and write.
func newStreams(c Command) (*streams, error) {
	s := &streams{child: [3]*os.File{c.Stdin, c.Stdout, c.Stderr}}
	if c.Stdin == nil && c.Input != "" {
		r, w, err := pipe(1)
		if err != nil {
			return nil, fmt.Errorf("a pipe for the command's input: %w", err)
		}
		s.child[0], s.feed = r, w
		s.ours = append(s.ours, r)
	}
	if !c.direct() {
		for i, to := range []*os.File{c.Stdout, c.Stderr} {
			if i == 1 && sameFile(c.Stdout, c.Stderr) {
				s.child[2] = s.child[1] // one pipe keeps the order
				break
			}
			r, w, err := pipe(0)
			if err != nil {
				return nil, fmt.Errorf("a pipe for the command's output: %w", err)
			}
			s.child[1+i] = w
			s.ours = append(s.ours, w)
			s.sources = append(s.sources, &source{r, to})
		}
	}
	for i, f := range s.child {
		if f != nil {
			continue
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("no stream %d for the command: %w", i, err)
		}
		s.child[i] = null
		s.ours = append(s.ours, null)
	}
	return s, nil
}

// pipe returns a pipe of which that end is ours. os.Pipe hands both to the
// network poller, which takes time; the command gets its end as it is anyway.
func pipe(ours int) (r, w *os.File, err error) {
	var fd [2]int
	if err := syscall.Pipe2(fd[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	// os.NewFile lets the poller have what does not block.
	if err := syscall.SetNonblock(fd[ours], true); err != nil {
		syscall.Close(fd[0])
		syscall.Close(fd[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd[0]), "|0"), os.NewFile(uintptr(fd[1]), "|1"), nil
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
	for _, f := range s.ours {
		f.Close()
	}
}

// copy begins to pass input and output on.
func (s *streams) copy(input string) {
	if s.feed != nil {
		// Not waited for: a command need not read its input.
		go func() {
			io.WriteString(s.feed, input)
			s.feed.Close()
		}()
	}
	for _, src := range s.sources {
		s.copying.Go(func() { s.pass(src) })
	}
}

// maxPiece is how much output is passed on at once.
const maxPiece = 32 << 10

// pass copies one stream until its end, or until drain says that nobody is
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
	s.tail.add(p)
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
		src.from.Close()
	}
	if s.feed != nil {
		s.feed.Close()
	}
}

// drain passes on what is still in the pipes, and closes them.
func (s *streams) drain() {
	for _, src := range s.sources {
		src.from.SetReadDeadline(time.Now())
	}
	s.copying.Wait()
	if s.feed != nil {
		s.feed.Close()
	}
}

// tail keeps the last TailBytes of what is added.
type tail struct {
	mu    sync.Mutex
	ring  []byte // at most TailBytes, oldest at start once full
	start int
	total int64
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	if len(p) > TailBytes {
		p = p[len(p)-TailBytes:]
	}
	grow := min(TailBytes-len(t.ring), len(p))
	t.ring = append(t.ring, p[:grow]...)
	for p = p[grow:]; len(p) > 0; {
		n := copy(t.ring[t.start:], p)
		p = p[n:]
		t.start = (t.start + n) % TailBytes
	}
}

// bytes returns what is kept, in order, and how much there was.
func (t *tail) bytes() ([]byte, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append([]byte(nil), t.ring[t.start:]...), t.ring[:t.start]...), t.total
}
