package request

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
)

// TailBytes is how much of the answers is kept for the record.
const TailBytes = 64 << 10

// tail keeps the end of what is read, and counts it, without secrets: some
// servers show in their answers what they were sent.
type tail struct {
	secrets [][]byte  // the longest first
	first   [256]bool // the bytes that they begin with
	pending []byte    // not looked through: a secret may begin in it
	kept    []byte
	total   int64
}

// newTail returns a tail without these secrets.
func newTail(secrets []string) *tail {
	t := &tail{secrets: parts(secrets)}
	for _, s := range t.secrets {
		t.first[s[0]] = true
	}
	return t
}

// ReadFrom reads to the end.
func (t *tail) ReadFrom(r io.Reader) (read int64, err error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		read += int64(n)
		t.pending = append(t.pending, buf[:n]...)
		t.redact(err != nil)
		if errors.Is(err, io.EOF) {
			return read, nil
		} else if err != nil {
			return read, err
		}
	}
}

// redact moves what can be without secrets from pending to kept; at the end
// that is all of it.
func (t *tail) redact(end bool) {
	longest := 0
	if len(t.secrets) > 0 {
		longest = len(t.secrets[0])
	}
	done, from := 0, 0
	for done < len(t.pending) && (end || len(t.pending)-done >= longest) {
		if !t.first[t.pending[done]] {
			done++
			continue
		}
		i := slices.IndexFunc(t.secrets, func(s []byte) bool { return bytes.HasPrefix(t.pending[done:], s) })
		if i < 0 {
			done++
			continue
		}
		t.keep(t.pending[from:done])
		t.keep([]byte("[secret]"))
		done += len(t.secrets[i])
		from = done
	}
	t.keep(t.pending[from:done])
	t.pending = append(t.pending[:0], t.pending[done:]...)
}

func (t *tail) keep(p []byte) {
	t.total += int64(len(p))
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*TailBytes {
		t.kept = append(t.kept[:0], t.bytes()...)
	}
}

// keepLine keeps a line, on a line of its own.
func (t *tail) keepLine(text string) {
	if n := len(t.kept); n > 0 && t.kept[n-1] != '\n' {
		text = "\n" + text
	}
	t.keep([]byte(text + "\n"))
}

// bytes returns what is kept.
func (t *tail) bytes() []byte { return t.kept[max(0, len(t.kept)-TailBytes):] }

// leastSecret is how long a word of a secret must be to be one by itself.
const leastSecret = 8

// parts are what must not be shown of secrets, the longest first: their whole
// values and, as in "Bearer …", their longer words.
func parts(secrets []string) (all [][]byte) {
	for _, s := range secrets {
		if s != "" {
			all = append(all, []byte(s))
		}
		for _, word := range strings.Fields(s) {
			if len(word) >= leastSecret {
				all = append(all, []byte(word))
			}
		}
	}
	slices.SortFunc(all, func(a, b []byte) int { return cmp.Or(len(b)-len(a), bytes.Compare(a, b)) })
	return slices.CompactFunc(all, bytes.Equal)
}

// redact takes the secrets out of a text.
func redact(text string, secrets []string) string {
	t := newTail(secrets)
	t.ReadFrom(strings.NewReader(text))
	return string(t.bytes())
}
