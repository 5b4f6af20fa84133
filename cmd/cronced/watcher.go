package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// watchEvery is how often crontabs are looked at. A file that changed since the
// last look is still being written, as far as we can know: it is taken when it
// has been left alone from one look to the next.
const watchEvery = time.Second

// restlessFor is how long a file may be another at each look before that is said.
const restlessFor = 10 * time.Second

// watcher knows the files that are served, each by itself: one that is always
// being rewritten keeps no other from being loaded.
type watcher struct {
	paths  []string // that there are to be
	config []string // those of paths that are YAML
	files  map[string]*watched
	order  []string // of files: paths, and those that are going
}

// watched is a file, and what is served of it.
type watched struct {
	contents
	read     fileState // the version that was read
	seen     fileState // at the last look
	stale    bool      // it is to be read again, also that version
	due      bool      // it is to be read, and rests
	restless time.Time // since when it has been another at each look; zero: it rests
	told     bool      // that it cannot be read
}

// fileState is what tells that a file is another than before. That of a file
// that is not there is zero.
type fileState struct {
	dev, ino      uint64
	size          int64
	mtime, change syscall.Timespec
}

func stateOf(path string) fileState {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return fileState{}
	}
	return stateFrom(st)
}

func stateFrom(st syscall.Stat_t) fileState {
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG { // a pipe that is written to is no other
		return fileState{dev: st.Dev, ino: st.Ino}
	}
	return fileState{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
}

// onlyFile refuses a path that is there and no file: to open a pipe could wait
// for ever.
func onlyFile(path string) (fileState, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return stateOf(path), fmt.Errorf("%s is no file but a pipe or the like: these are read only at the start", path)
	}
	return fileState{}, nil
}

// statesOf are the states of files.
func statesOf(paths []string) (states []fileState) {
	for _, path := range paths {
		states = append(states, stateOf(path))
	}
	return states
}

// again has all files read once more, as soon as they rest.
func (w *watcher) again() {
	for _, f := range w.files {
		f.stale, f.told = true, false
	}
}

// look looks at the files and reports whether there is something to load, or to
// say. At the first look all of them are to be loaded.
func (w *watcher) look() (some bool) {
	first := w.files == nil
	if first {
		w.files = map[string]*watched{}
	}
	for _, path := range w.paths {
		if w.files[path] == nil {
			w.files[path] = &watched{stale: true}
			if first {
				w.files[path].seen = stateOf(path)
			}
		}
	}
	w.order = slices.Clone(w.paths)
	for path, f := range w.files {
		if !slices.Contains(w.paths, path) {
			w.order = append(w.order, path)
		}
		state := stateOf(path)
		switch {
		case state == f.seen:
			f.due, f.restless = f.stale || state != f.read, time.Time{}
			f.told = f.told && f.due
		case f.restless.IsZero():
			f.due, f.restless = false, time.Now()
		}
		f.seen = state
		some = some || f.due || f.wearies()
	}
	slices.Sort(w.order[len(w.paths):])
	return some
}

// wearies reports whether the file has not rested for so long that it is to be said.
func (f *watched) wearies() bool {
	return !f.told && !f.restless.IsZero() && time.Since(f.restless) >= restlessFor
}

// load reads the files that are to be read. Of one that cannot be used, what
// was served is kept, and why is told, once; fresh is whether anything is another.
// A reader that gives no state with its error is asked again at the next look.
func (w *watcher) load(read func(path string) (contents, fileState, error)) (fresh bool, kept []error) {
	for _, path := range w.order {
		f := w.files[path]
		if !f.due {
			if f.wearies() {
				f.told = true
				kept = append(kept, fmt.Errorf("%s: %w", path, errRestless))
			}
			continue
		}
		f.due = false
		if f.seen == (fileState{}) && !slices.Contains(w.paths, path) {
			delete(w.files, path)
			fresh = true
			continue
		}
		c, state, err := read(path)
		if err == nil && c.blank && len(f.jobs) > 0 {
			err = fmt.Errorf("%s is empty (a comment in it, and no job of it is served)", path)
		}
		f.read, f.stale = state, false
		switch {
		case err == nil:
			f.contents, f.told, fresh = c, false, true
		case !f.told:
			f.told = state == (fileState{})
			kept = append(kept, err)
		}
	}
	return fresh, kept
}

var errRestless = errors.New("it is being rewritten all the time")

// readWhole reads an open file, but no more than one byte beyond the most that
// is of use: again where it was changed meanwhile.
func readWhole(f *os.File, most int64) (text []byte, state fileState, err error) {
	var st syscall.Stat_t
	stat := func() fileState {
		err = errors.Join(err, syscall.Fstat(int(f.Fd()), &st))
		return stateFrom(st)
	}
	for range 10 {
		before := stat()
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(f, most+1))
		}
		after := stat()
		if err != nil {
			return nil, fileState{}, err
		}
		if before == after || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			return text, after, nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, fileState{}, err
		}
	}
	return nil, fileState{}, errRestless
}
