package localstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ownerCure is what to do about a folder that belongs to another user. Where it is
// that user's store, to take it away would stop that user's jobs.
func (h host) ownerCure(dir string, owner int) string {
	as := "as that user"
	if name := h.name(owner); name != "" {
		as += ", by root: --user " + name + ", or runuser -u " + name + " -- cronce …"
	}
	cure := "a store has one user: do this " + as + ", or set CRONCE_STORE to another folder"
	_, err := os.Lstat(dir + "/format")
	used := err == nil || !errors.Is(err, syscall.ENOENT)
	if dir == h.shared+"/"+strconv.Itoa(owner) || used && dir != h.shared+"/"+strconv.Itoa(h.uid) {
		return cure
	}
	return fmt.Sprintf("%s; to give it to this user: chown -R %d %s", cure, h.uid, dir)
}

// name is the user's name in the passwd file, empty where there is none.
func (h host) name(uid int) string {
	b, _ := os.ReadFile(h.passwd)
	for line := range bytes.Lines(b) {
		if f := strings.Split(string(line), ":"); len(f) >= 7 && f[2] == strconv.Itoa(uid) {
			return f[0]
		}
	}
	return ""
}

// accessCure is what to do where a file of the store cannot be reached.
func (h host) accessCure(dir string) string {
	info, err := os.Stat(dir)
	if err == nil {
		if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != h.uid {
			return h.ownerCure(dir, owner)
		}
	}
	return fmt.Sprintf("give it to its user: chown -R %d %s; chmod -R u+rwX %s", h.uid, dir, dir)
}
