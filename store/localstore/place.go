package localstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// host is what the place of a store depends on, so that tests can have another.
type host struct {
	shared string // where stores made by root are
	passwd string
	uid    int
	store  string // CRONCE_STORE
	by     string // who makes a store, for the record
	statfs func(path string) (kind int64, readOnly bool, err error)
}

func thisHost() host {
	return host{
		shared: "/var/lib/cronce",
		passwd: "/etc/passwd",
		uid:    os.Geteuid(),
		store:  os.Getenv("CRONCE_STORE"),
		statfs: statfs,
	}
}

// place is where a store is, and what may be made on the way to it.
type place struct {
	dir string
	// mkdir are the folders that may be made, outermost first. A folder that
	// somebody named is made, the ones above it are not: where a disk is not
	// mounted, a new and empty store in its place would decide ticks again.
	mkdir []string
}

// place finds the store of this user. It depends on the user id alone, as
// cron's environment and a person's differ.
func (h host) place(explicit string) (place, error) {
	named := explicit
	if named == "" {
		named = h.store
	}
	if named != "" {
		dir := strings.TrimPrefix(named, "file://")
		if !strings.HasPrefix(dir, "/") {
			scheme, rest, colon := strings.Cut(dir, ":")
			if port, err := strconv.Atoi(rest); colon && err == nil && port > 0 {
				return place{}, &cronce.ConfigError{Store: named, What: "this is neither an absolute path nor a URL",
					Cure: "a URL begins with what the server is, as redis://" + named + "; a folder is named as /srv/cronce"}
			}
			if colon { // of what follows a part may be a password
				return place{}, &cronce.ConfigError{Store: scheme + ":…", What: "this is neither an absolute path nor a URL",
					Cure: "a URL has :// behind " + scheme + "; a folder is named as /srv/cronce"}
			}
			return place{}, &cronce.ConfigError{Store: named, What: "this is not an absolute path",
				Cure: "name the store by one, as /srv/cronce: cron starts jobs in another working directory than a shell does, and would find another store"}
		}
		if dir = strings.TrimRight(dir, "/"); dir == "" {
			dir = "/"
		}
		return place{dir, []string{dir}}, nil
	}

	shared := h.shared + "/" + strconv.Itoa(h.uid)
	haveShared, err := exists(shared)
	if err != nil {
		return place{}, err
	}
	home, err := h.home()
	if err != nil && !haveShared && h.uid != 0 {
		return place{}, err
	}
	if home == "" {
		return place{shared, []string{h.shared, shared}}, nil
	}
	local := home + "/.local/state/cronce"
	haveLocal, err := exists(local)
	switch {
	case err != nil && !haveShared:
		return place{}, err
	case haveShared && haveLocal:
		return place{}, &cronce.ConfigError{Store: shared, What: "there is also " + local,
			Cure: "only one of them can know what has run: while no job runs, look at both, then move one away"}
	case haveShared, h.uid == 0 && !haveLocal:
		return place{shared, []string{h.shared, shared}}, nil
	}
	return place{local, []string{home + "/.local", home + "/.local/state", local}}, nil
}

// init makes the store of that user, as root.
func (h host) init(uid, gid int, by string) (string, error) {
	h.uid, h.store = uid, ""
	dir := h.shared + "/" + strconv.Itoa(uid)
	if home, err := h.home(); err == nil {
		local := home + "/.local/state/cronce"
		if have, err := exists(local); err != nil {
			return "", err
		} else if have {
			return "", &cronce.ConfigError{Store: dir, What: "the user has a store already, " + local,
				Cure: "only one of them could know what has run: use that, or move it away while no job runs"}
		}
	}
	return dir, h.give(dir, uid, gid, by)
}

// note puts on record who made a store for another user. It is not for root to
// write into that user's folder, so it stands beside it.
func (h host) note(dir, by string) error {
	f, err := os.OpenFile(h.shared+"/made", os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err == nil {
		_, err = f.WriteString(dir + " " + madeLine(by))
		err = errors.Join(err, f.Close())
	}
	return diskError(dir, "", err)
}

// madeLine says when and by whom a store was made.
func madeLine(by string) string {
	if by == "" {
		by = cronce.ThisProcess("").String()
	}
	return fmt.Sprintf("made %s by %s\n", cronce.Stamp(time.Now()), cut(by, maxText))
}

// foreign refuses to make somebody the owner of what is there already: of
// anything but a folder of theirs, or an empty one of root's, as a call that was
// interrupted leaves it.
func foreign(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err != nil {
		return diskError(dir, "", err)
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	names, err := readDir(dir)
	if err == nil && (owner == uid || owner == 0 && len(names) == 0) {
		return nil
	}
	what := fmt.Sprintf("it is there already, and belongs to user %d", owner)
	if err != nil {
		what = "it is there already, and is not a folder"
	}
	return &cronce.ConfigError{Store: dir, What: what, Cure: "look at what it is, then move it away"}
}

// home is the user's home in the passwd file. The file is read as it is:
// os/user would start a C library or parse NSS for it in every job.
func (h host) home() (string, error) {
	b, err := os.ReadFile(h.passwd)
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	id := strconv.Itoa(h.uid)
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimRight(string(line), "\n"), ":")
		if len(f) < 7 || f[2] != id {
			continue
		}
		home := strings.TrimRight(f[5], "/")
		if info, err := os.Stat(home); home != "" && err == nil && info.IsDir() {
			return home, nil
		}
		break
	}
	return "", &cronce.ConfigError{Store: h.shared + "/" + id,
		What: fmt.Sprintf("user %s has no home in %s to keep a store in", id, h.passwd),
		Cure: fmt.Sprintf("set CRONCE_STORE to a folder of that user, or as root: install -d -m 755 %s && install -d -m 700 -o %s %[1]s/%[2]s", h.shared, id)}
}

// exists tells whether there is anything at that path.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	}
	return false, &cronce.ConfigError{Store: path, What: "cannot be looked at: " + err.Error(),
		Cure: "let this user reach it, or set CRONCE_STORE to another folder"}
}

// prepare makes the store where it does not exist yet and refuses it where it
// cannot keep the promise.
func (h host) prepare(p place) error {
	refuse := func(what, cure string) error {
		return &cronce.ConfigError{Store: p.dir, What: what, Cure: cure}
	}
	info, err := os.Stat(p.dir)
	if errors.Is(err, syscall.ENOENT) {
		if err = h.make(p); err == nil {
			info, err = os.Stat(p.dir)
		}
	}
	if err != nil {
		return refuse("cannot be used: "+err.Error(), "make the folder for this user, with mode 0700, or set CRONCE_STORE to another one")
	}
	if !info.IsDir() {
		return notStore(p.dir)
	}
	if faults := h.faults(p.dir, info); len(faults) > 0 {
		return faults[0]
	}
	return h.checkFormat(p.dir, true)
}

// faults are what keeps a folder from being a store of this user.
func (h host) faults(dir string, info os.FileInfo) (all []error) {
	refuse := func(what, cure string) {
		all = append(all, &cronce.ConfigError{Store: dir, What: what, Cure: cure})
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != h.uid {
		refuse(fmt.Sprintf("it belongs to user %d, this is user %d", owner, h.uid), h.ownerCure(dir, owner))
	}
	if info.Mode().Perm()&0o022 != 0 {
		refuse(fmt.Sprintf("others can write to it (mode %04o)", info.Mode().Perm()), "chmod 0700 "+dir)
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		refuse(fmt.Sprintf("its user cannot write to it (mode %04o)", info.Mode().Perm()), "chmod 0700 "+dir)
	}
	if err := h.checkWay(dir); err != nil {
		all = append(all, err)
	}
	kind, readOnly, err := h.statfs(dir)
	if err != nil {
		return append(all, &cronce.UnavailableError{Store: dir, Err: err})
	}
	if name := networkName(kind, dir); name != "" {
		refuse("it is on "+name+", where a lock of one host does not reliably hold on another",
			"set CRONCE_STORE to a folder on a local disk; for a fleet use a shared store, as redis or postgres")
	}
	if readOnly {
		refuse("its file system is mounted read-only", "mount it writable, or set CRONCE_STORE to another folder")
	}
	return all
}

func notStore(dir string) error {
	return &cronce.ConfigError{Store: dir, What: "this is not a folder",
		Cure: "a store is a folder: set CRONCE_STORE or --store to one, or to a name that is free"}
}

// notFolder is the refusal of what should be a folder of the store, and is not.
// A symbolic link would do for the names in it, but the folder that it leads to
// can be another one tomorrow, while runs go on.
func notFolder(store, path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return &cronce.ConfigError{Store: store, What: path + " is a symbolic link",
			Cure: "while no job runs, put the folder itself there; only the whole store may be one"}
	}
	return &cronce.ConfigError{Store: store, What: path + " is not a folder", Cure: "move it away"}
}

// checkJobs refuses a store whose jobs are somewhere else.
func checkJobs(dir string) error {
	jobs := dir + "/jobs"
	if info, err := os.Lstat(jobs); err == nil && !info.IsDir() {
		return notFolder(dir, jobs)
	}
	return nil
}

// make makes the store's folders. One that another process made meanwhile is
// as good.
func (h host) make(p place) error {
	for _, dir := range p.mkdir {
		mode := os.FileMode(0o700)
		if dir == h.shared {
			mode = 0o755 // others' stores are in it
		}
		err := os.Mkdir(dir, mode)
		if errors.Is(err, syscall.EEXIST) {
			continue
		}
		if err == nil {
			err = syncDir(parent(dir))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkWay refuses a way to the store that others can bend: a symbolic link of
// another user, or a folder above from which everybody can move it away. In a
// sticky folder, as /tmp, only its owner can.
func (h host) checkWay(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return &cronce.UnavailableError{Store: dir, Err: err}
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); info.Mode()&os.ModeSymlink != 0 && owner != h.uid && owner != 0 {
		return &cronce.ConfigError{Store: dir, What: fmt.Sprintf("it is a symbolic link of user %d", owner),
			Cure: "name the folder itself in CRONCE_STORE"}
	}
	above, err := os.Stat(parent(dir))
	if err != nil {
		return &cronce.UnavailableError{Store: dir, Err: err}
	}
	if above.Mode().Perm()&0o002 != 0 && above.Mode()&os.ModeSticky == 0 {
		return &cronce.ConfigError{Store: dir, What: "everybody can move it away, as its parent is writable for all",
			Cure: "chmod o-w " + parent(dir)}
	}
	return nil
}

func parent(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		return dir[:i]
	}
	return "/"
}

// formatLine is the first line of the file "format" in a store, below it stands
// who made it; the number is raised by a change that older programs must not touch.
const (
	formatNumber = 1
	formatLine   = "cronce local store, format 1\n"
)

// checkFormat reads the store's format, and with init writes it into a new store.
func (h host) checkFormat(dir string, init bool) error {
	name := dir + "/format"
	if err := checkJobs(dir); err != nil {
		return err
	}
	b, err := readFile(name)
	var notFile *notFileError
	switch {
	case err == nil && strings.HasPrefix(string(b), formatLine):
		return nil
	case errors.As(err, &notFile):
		return diskError(dir, "", err)
	case errors.Is(err, syscall.ELOOP):
		return &cronce.ConfigError{Store: dir, What: name + " is a symbolic link", Cure: "put the file itself there"}
	case errors.Is(err, syscall.ENOTDIR):
		return notFolder(dir, dir)
	case err == nil:
		return &cronce.ConfigError{Store: dir, What: fmt.Sprintf("its format is %.80q, this program knows %q", b, formatLine),
			Cure: "use the cronce that wrote it, or a newer one"}
	case !errors.Is(err, syscall.ENOENT):
		return &cronce.ConfigError{Store: dir, What: "its format cannot be read: " + err.Error(), Cure: "chmod 0600 " + name}
	}
	if have, err := exists(dir + "/jobs"); err != nil {
		return err
	} else if have {
		return &cronce.ConfigError{Store: dir, What: "it has jobs, but the file that tells its format is gone",
			Cure: fmt.Sprintf("if a cronce as old as this one wrote it: printf '%s\\n' > %s", strings.TrimSpace(formatLine), name)}
	}
	if !init {
		return nil
	}
	// Written aside and renamed, so that no other process reads half of it.
	if err := replaceFile(name, []byte(formatLine+madeLine(h.by))); err != nil {
		return diskError(dir, notStarted, err)
	}
	return nil
}

// network is a file system that more than one host can mount, and its magic number
// of statfs(2).
type network struct {
	magic uint32
	name  string
}

// networks is a list: a map would be made anew in each process, for one look.
var networks = [...]network{
	{0x6969, "NFS"}, {0x517b, "SMB"}, {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"}, {0x5346414f, "AFS"}, {0x6b414653, "AFS"},
	{0x00c36400, "CephFS"}, {0x0bd00bd0, "Lustre"}, {0x01021997, "9p"}, {0x73757245, "Coda"}, {0x564c, "NCP"},
	{0x7461636f, "OCFS2"}, {0x01161970, "GFS2"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}, {0xaad7aaea, "PanFS"},
	{0x786f4256, "a folder of the VirtualBox host"}, {0xbacbacbc, "a folder of the VMware host"},
}

const fuseMagic = 0x65735546

// localFuse are the FUSE file systems known to be of one host. Of any other,
// nobody can tell.
var localFuse = [...]string{"fuseblk", "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs", "fuse.bindfs"}

// networkName names the file system if it is none of this host alone.
func networkName(kind int64, dir string) string {
	for _, n := range networks {
		if n.magic == uint32(kind) {
			return n.name
		}
	}
	if uint32(kind) == fuseMagic {
		if t := mountType(dir); !slices.Contains(localFuse[:], t) {
			return "a FUSE file system (" + t + ")"
		}
	}
	return ""
}

// mountType is the type of the file system as the kernel's list of mounts has
// it, with the subtype, as fuse.sshfs.
func mountType(dir string) string {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return "unknown"
	}
	dev := fmt.Sprintf("%d:%d", major(uint64(st.Dev)), minor(uint64(st.Dev)))
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range bytes.Lines(b) {
		before, after, ok := strings.Cut(string(line), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if ok && len(f) > 2 && f[2] == dev && len(g) > 0 {
			return g[0]
		}
	}
	return "unknown"
}

func major(dev uint64) uint64 { return dev>>8&0xfff | dev>>32&^0xfff }
func minor(dev uint64) uint64 { return dev&0xff | dev>>12&0xffffff00 }
