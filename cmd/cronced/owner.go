package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cronce/cronce/internal/cli"
)

// mayRun refuses an open crontab or YAML file whose jobs are not for this user
// to run: a crontab of cron's that is another user's, and, for root, any file
// that others than root can have written.
func mayRun(path string, f *os.File) error {
	if name := spoolUser(path); name != "" && name != account().Username {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"%s is the crontab of user %s, whose jobs this would run as %s: cronce serve --system serves it, and cronce trigger JOB --system --user %[2]s runs a job of it (as root)", path, name, account().Username)}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if what, cure := notRoots(path, info); what != "" {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s: %s, and its jobs would run as root: %s", path, what, cure)}
	}
	return nil
}

// spools are where cron has the crontabs of users, each named for its user, on
// Debian, Red Hat and SUSE.
var spools = []string{cronSpool, "/var/spool/cron", "/var/spool/cron/tabs"}

// spoolUser is whose crontab of cron's that is; empty: nobody's.
func spoolUser(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	for _, dir := range spools {
		if err == nil && filepath.Dir(real) == dir {
			return filepath.Base(real)
		}
	}
	return ""
}

// notRoots says why a file, or the symbolic link that leads to it, is not
// root's alone, and what to do; empty: it is.
func notRoots(path string, info os.FileInfo) (what, cure string) {
	for _, its := range []func() (os.FileInfo, error){
		func() (os.FileInfo, error) { return os.Lstat(path) },
		func() (os.FileInfo, error) { return info, nil },
	} {
		info, err := its()
		if err != nil {
			return err.Error(), "try again"
		}
		link := info.Mode()&os.ModeSymlink != 0
		st := info.Sys().(*syscall.Stat_t)
		name := userName(st.Uid)
		switch {
		case link && st.Uid != 0:
			return "it is a symbolic link of user " + name, "name the file itself"
		case st.Uid != 0:
			return "it belongs to user " + name, fmt.Sprintf("chown root %s, or, as that user: runuser -u %s -- cronce …", path, name)
		case !link && st.Mode&0o022 != 0:
			return fmt.Sprintf("others than root can write to it (mode %04o)", st.Mode&0o7777), "chmod go-w " + path
		}
	}
	return "", ""
}

// userName is the name of a user, or the number where there is none.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil && !strings.ContainsAny(u.Username, " \t") {
		return u.Username
	}
	return id
}
