package localstore

import (
	"slices"
	"sync"
)

// looks shares searches through /proc among the claims of a process: whoever
// asks while one is under way has part in the next, which begins after that.
// A search takes as long as there are processes, and after a new job has come
// each of many claims at once would make one.
type looks struct {
	mu      sync.Mutex
	looking bool
	next    *look
}

// look is one search.
type look struct {
	done  chan struct{}
	found []openFile // once done
}

// flocked is what a search finds that begins after the call.
func (l *looks) flocked(search func() []openFile) []openFile {
	l.mu.Lock()
	if l.next == nil {
		l.next = &look{done: make(chan struct{})}
	}
	mine := l.next
	if !l.looking {
		l.looking = true
		go l.look(search)
	}
	l.mu.Unlock()
	<-mine.done
	return slices.Clone(mine.found)
}

// look searches for as long as somebody asks.
func (l *looks) look(search func() []openFile) {
	for {
		l.mu.Lock()
		now := l.next
		l.next, l.looking = nil, now != nil
		l.mu.Unlock()
		if now == nil {
			return
		}
		now.found = search()
		close(now.done)
	}
}
