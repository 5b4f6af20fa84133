package guard

import "sync"

// TailBytes is how much of a command's output is kept for the record.
const TailBytes = 64 << 10

// Tail keeps the last TailBytes of what is added, and counts all of it. It may
// be used by several goroutines.
type Tail struct {
	mu    sync.Mutex
	ring  []byte // at most TailBytes, oldest at start once full
	start int
	total int64
	last  byte
}

// Add adds a piece of output.
func (t *Tail) Add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(p)
}

// AddLine adds a line, on a line of its own.
func (t *Tail) AddLine(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total > 0 && t.last != '\n' {
		t.add([]byte{'\n'})
	}
	t.add([]byte(text + "\n"))
}

func (t *Tail) add(p []byte) {
	if len(p) == 0 {
		return
	}
	t.total += int64(len(p))
	t.last = p[len(p)-1]
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

// Bytes returns what is kept, in order, and how much there was.
func (t *Tail) Bytes() ([]byte, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append([]byte(nil), t.ring[t.start:]...), t.ring[:t.start]...), t.total
}
