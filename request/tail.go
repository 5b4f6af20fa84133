package request

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
)

// TailBytes is how much of an answer is kept for the record.
const TailBytes = 64 << 10

// tail keeps the end of what is read, without secrets: some servers show in
// their answers what they were sent.
type tail struct {
	secrets []string
	kept    []byte
	total   int64
}

// margin is how much more than TailBytes is kept, so that no part of a secret
// can stay at the front.
func (t *tail) margin() int {
	longest := 0
	for _, s := range t.secrets {
		longest = max(longest, len(s))
	}
	return longest
}

// ReadFrom reads to the end.
func (t *tail) ReadFrom(r io.Reader) (int64, error) {
	most := TailBytes + t.margin()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		t.total += int64(n)
		t.kept = append(t.kept, buf[:n]...)
		if len(t.kept) > 2*most {
			t.kept = append(t.kept[:0], t.kept[len(t.kept)-most:]...)
		}
		if errors.Is(err, io.EOF) {
			return t.total, nil
		} else if err != nil {
			return t.total, err
		}
	}
}

// bytes returns what is kept.
func (t *tail) bytes() []byte {
	cut := int64(len(t.kept)) < t.total
	out := redact(t.kept, t.secrets)
	if cut {
		out = out[min(t.margin(), len(out)):] // there may be the end of a secret
	}
	return out[max(0, len(out)-TailBytes):]
}

// leastSecret is how long a word of a secret must be to be one by itself.
const leastSecret = 8

// redact takes the secrets out of a text: their whole values and, as in "Bearer
// …", their longer words.
func redact(text []byte, secrets []string) []byte {
	var all []string
	for _, s := range secrets {
		all = append(all, s)
		for _, word := range strings.Fields(s) {
			if len(word) >= leastSecret {
				all = append(all, word)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	for _, s := range all {
		if s != "" {
			text = bytes.ReplaceAll(text, []byte(s), []byte("[secret]"))
		}
	}
	return text
}
