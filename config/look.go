package config

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cronce/cronce/request"
)

// named is another file that a file names.
type named struct {
	at   place
	key  string
	text string // as it is written there
	path string
}

// Missing says which of the files that requests read could not be read now, in
// the file's order. That is no mistake: they are read for each request, and may
// be there by then, or be another user's.
func (f *File) Missing() (all []*Error) {
	for _, n := range f.named {
		err := request.CheckFile(n.path)
		if err == nil {
			continue
		}
		what := fmt.Sprintf("cannot be used now (%v)", err)
		if errors.Is(err, fs.ErrNotExist) {
			what = "is not there now"
		}
		all = append(all, &Error{Path: f.Path, Line: n.at.line, Column: n.at.column, Err: err,
			Msg: fmt.Sprintf("%s: %s %s; it is read at each request", n.key, n.text, what)})
	}
	slices.SortStableFunc(all, func(a, b *Error) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return all
}

// CheckStore says what is wrong with the folder that a file names as store,
// without opening it: it is made where it does not exist, but not its parent.
func (f *File) CheckStore() error {
	dir := strings.TrimPrefix(f.Store, "file://")
	if dir == "" || strings.Contains(dir, "://") {
		return nil
	}
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(dir))
	}
	if err == nil {
		return nil
	}
	what := fmt.Sprintf("store: %v", err)
	if errors.Is(err, fs.ErrNotExist) {
		what = fmt.Sprintf("store: there is no %s, in which %s could be made", filepath.Dir(dir), filepath.Base(dir))
	}
	return &Error{Path: f.Path, Line: f.storeAt.line, Column: f.storeAt.column, Msg: what, Err: err}
}

// firstLine is one with which a file for Parse begins, and no crontab can.
var firstLine = regexp.MustCompile(`^(---|(jobs|defaults|store|x-[\w-]+):)(\s|$)`)

// Looks reports whether the file at that path begins as one for Parse does.
func Looks(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" && text[0] != '#' {
			return firstLine.MatchString(lines.Text())
		}
	}
	return false
}
