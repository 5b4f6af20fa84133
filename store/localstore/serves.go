package localstore

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cronce/cronce"
)

// servesDir is the folder of the notes of serves. Each note is locked by the
// serve that wrote it, for as long as that lives.
const servesDir = "serves"

// Note is what a serve notes in a store for people who ask: that it is at work,
// and which jobs it serves. No decision depends on it.
type Note struct{ file *os.File }

// NoteServe begins a note in the store at dir, which must exist; dir is as
// Options.Dir. The notes of serves that have ended are taken away.
func NoteServe(dir string) (*Note, error) {
	p, err := thisHost().place(dir)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(p.dir, servesDir)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	err = eachNote(folder, func(path string, _ *os.File, alive bool) error {
		if alive {
			return nil
		}
		return os.Remove(path)
	})
	if err != nil {
		return nil, err
	}
	// It gets its name when it is locked, so that nobody takes it away before.
	id := cronce.NewRunID()
	hidden := filepath.Join(folder, "."+id)
	f, err := os.OpenFile(hidden, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	n := &Note{f}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		err = n.Set(nil)
	}
	if err == nil {
		err = os.Rename(hidden, filepath.Join(folder, id+".json"))
	}
	if err != nil {
		os.Remove(hidden)
		f.Close()
		return nil, err
	}
	return n, nil
}

// Set notes which jobs are served from now on.
func (n *Note) Set(jobs []string) error {
	b, err := json.Marshal(noted{Holder: cronce.ThisProcess("serve"), Jobs: jobs})
	if err == nil {
		_, err = n.file.WriteAt(append(b, '\n'), 0)
	}
	if err == nil {
		err = n.file.Truncate(int64(len(b) + 1))
	}
	return err
}

// Close ends the note.
func (n *Note) Close() error { return n.file.Close() }

// noted is what is in the file of a note.
type noted struct {
	Holder cronce.Holder `json:"holder"`
	Jobs   []string      `json:"jobs"`
}

// Serves are the serves that are at work on a store.
type Serves struct {
	Count   int
	Unknown bool // what one of them serves, or whether there is one, cannot be read
	jobs    map[string]bool
}

// Serve reports whether one of them serves the job, as far as is known.
func (s Serves) Serve(job string) bool { return s.Unknown || s.jobs[job] }

// ReadServes reads the notes in the store at dir, which is as Options.Dir.
func ReadServes(dir string) Serves {
	s := Serves{jobs: map[string]bool{}}
	p, err := thisHost().place(dir)
	if err == nil {
		err = eachNote(filepath.Join(p.dir, servesDir), func(_ string, f *os.File, alive bool) error {
			if !alive {
				return nil
			}
			s.Count++
			var n noted
			b, err := io.ReadAll(f)
			if err == nil {
				err = json.Unmarshal(b, &n)
			}
			for _, job := range n.Jobs {
				s.jobs[job] = true
			}
			return err // it may be in the middle of a change
		})
	}
	s.Unknown = err != nil
	return s
}

// eachNote calls do for each note, and says whether its serve is alive. Where it
// is not, the note stays locked meanwhile.
func eachNote(folder string, do func(path string, f *os.File, alive bool) error) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // it is only being made
		}
		path := filepath.Join(folder, e.Name())
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another one took it away
		} else if err != nil {
			return err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if alive := errors.Is(err, syscall.EWOULDBLOCK); alive || err == nil {
			err = do(path, f, alive)
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
