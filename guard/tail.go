package guard

import "io"

// tail passes output on and keeps its last TailBytes. A reader that goes away
// does not stop the command: its output is kept and counted all the same.
type tail struct {
	pass  io.Writer
	ring  []byte // at most TailBytes, oldest at start once full
	start int
	total int64
}

func (t *tail) Write(p []byte) (int, error) {
	if t.pass != nil {
		if _, err := t.pass.Write(p); err != nil {
			t.pass = nil
		}
	}
	t.total += int64(len(p))
	n := len(p)
	if len(p) > TailBytes {
		p = p[len(p)-TailBytes:]
	}
	grow := min(TailBytes-len(t.ring), len(p))
	t.ring = append(t.ring, p[:grow]...)
	for p = p[grow:]; len(p) > 0; {
		k := copy(t.ring[t.start:], p)
		p = p[k:]
		t.start = (t.start + k) % TailBytes
	}
	return n, nil
}

// bytes returns what is kept, in order.
func (t *tail) bytes() []byte {
	return append(append([]byte(nil), t.ring[t.start:]...), t.ring[:t.start]...)
}
