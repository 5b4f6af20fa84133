package main

import "os"

// pipes are the ends of pipes for one child process, ours and its own, so that all of them can be closed where it does not come to
// be.
type pipes []*os.File

// open makes a pipe.
func (p *pipes) open() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err == nil {
		*p = append(*p, r, w)
	}
	return r, w, err
}

// close closes all of them.
func (p pipes) close() {
	for _, f := range p {
		f.Close()
	}
}
