package localstore

import (
	"os"
	"strconv"
)

// Provide makes the store of another user in /var/lib/cronce, as root, unless
// there is one already, there or in the user's home. *cronce.ConfigError: what
// is there is none of that user's. It opens no store: that is for the user.
func Provide(uid, gid int) error { return thisHost().provide(uid, gid) }

func (h host) provide(uid, gid int) error {
	h.uid = uid
	dir := h.shared + "/" + strconv.Itoa(uid)
	shared, err := exists(dir)
	if err != nil {
		return err
	}
	if home, err := h.home(); err == nil && !shared {
		// Where root cannot look, as into a home on another machine, the user can.
		if local, err := exists(home + "/.local/state/cronce"); err != nil || local {
			return nil
		}
	}
	return h.give(dir, uid, gid, "serve --system")
}

// give makes the folder of a user's store, if it is not there, and that user
// its owner. by made it, for the record.
func (h host) give(dir string, uid, gid int, by string) error {
	if err := foreign(dir, uid); err != nil {
		return err
	}
	there, err := exists(dir)
	if err != nil {
		return err
	}
	err = h.make(place{dir, []string{h.shared, dir}})
	if err == nil {
		// Only now the user can enter it; the modes are from the start on.
		err = os.Lchown(dir, uid, gid)
	}
	if err == nil && !there {
		err = h.note(dir, by)
	}
	return diskError(dir, "", err)
}
