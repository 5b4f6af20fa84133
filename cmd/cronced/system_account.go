package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// systemAccount is a user of the machine as its jobs are run: what cron takes
// from the passwd and group files.
type systemAccount struct {
	name, home string
	uid, gid   uint32
	groups     []uint32
}

// accountFiles are what an account is read from: where one changes, so may they.
var accountFiles = []string{"/etc/passwd", "/etc/group", "/etc/shadow"}

// lookAccount finds a user to run jobs as. The error says why they are not.
func lookAccount(name string, now time.Time) (systemAccount, error) {
	a, err := findAccount(name)
	if err == nil {
		err = expired(name, now)
	}
	return a, err
}

// findAccount finds a user, also one whose account has expired.
func findAccount(name string) (a systemAccount, err error) {
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		return a, fmt.Errorf("there is no user %q in /etc/passwd", name)
	}
	var ids []string
	if err == nil {
		ids, err = u.GroupIds()
	}
	if err != nil {
		return a, fmt.Errorf("user %q cannot be looked up: %w", name, err)
	}
	number := func(text string) uint32 {
		n, e := strconv.ParseUint(text, 10, 32)
		err = errors.Join(err, e)
		return uint32(n)
	}
	a = systemAccount{name: u.Username, home: u.HomeDir, uid: number(u.Uid), gid: number(u.Gid)}
	for _, id := range ids {
		a.groups = append(a.groups, number(id))
	}
	slices.Sort(a.groups)
	if err != nil {
		return a, fmt.Errorf("user %q in /etc/passwd: %w", name, err)
	}
	return a, nil
}

// expired says that the account has passed its end, as shadow(5) has it. One
// with a locked password runs its jobs, as under cron.
func expired(name string, now time.Time) error {
	b, err := os.ReadFile("/etc/shadow")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("whether user %q has expired: %w", name, err)
	}
	const expiry, secondsADay = 7, 24 * 60 * 60
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimRight(string(line), "\n"), ":")
		if len(f) <= expiry || f[0] != name {
			continue
		}
		if day, err := strconv.ParseInt(f[expiry], 10, 64); err == nil && day >= 0 && now.Unix()/secondsADay >= day {
			return fmt.Errorf("the account of user %q expired on %s (chage -l %[1]s)", name, time.Unix(day*secondsADay, 0).UTC().Format(time.DateOnly))
		}
		break
	}
	return nil
}

// environment is what cron gives a user's jobs, and USER; the language and the
// time zone are those of serve.
func (a systemAccount) environment() []string {
	env := []string{"HOME=" + a.home, "LOGNAME=" + a.name, "USER=" + a.name, "PATH=/usr/bin:/bin", "SHELL=/bin/sh"}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name == "TZ" || name == "LANG" || name == "LANGUAGE" || strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	return env
}

// same reports whether a process of one is as good as one of the other.
func (a systemAccount) same(b systemAccount) bool {
	return a.name == b.name && a.home == b.home && a.uid == b.uid && a.gid == b.gid && slices.Equal(a.groups, b.groups)
}
