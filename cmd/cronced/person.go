package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// maxWhyBytes is how long a reason may be: records keep no more of it.
const maxWhyBytes = 256

// whyFlag adds --why to the flags.
func whyFlag(f *cli.Flags) *string {
	why := new(string)
	f.Func("why", "", func(v string) error {
		switch *why = v; {
		case strings.TrimSpace(v) == "":
			return errors.New("it is empty")
		case len(v) > maxWhyBytes:
			return fmt.Errorf("%d bytes: at most %d are kept", len(v), maxWhyBytes)
		case !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl):
			return errors.New("one line of text is expected")
		}
		return nil
	})
	return why
}

// oneJob reads the job's name, the only argument of a command.
func oneJob(command string, args []string) (string, error) {
	if len(args) == 0 {
		return "", cli.Misuse(strings.Fields(command)[0], "a job's name is needed, as in: cronce %s backup", command)
	}
	if len(args) > 1 {
		return "", cli.Misuse(strings.Fields(command)[0], "one job is expected, and then nothing: unexpected %q", args[1])
	}
	if err := cronce.CheckName(args[0]); err != nil {
		return "", cli.Misuse(strings.Fields(command)[0], "%w", err)
	}
	return args[0], nil
}

// onBehalf is who asks, where root has become this user for it.
var onBehalf string

// requester says for the records who asks: the user that this process has, the
// host, and the person behind, where that is another. It is for people; nothing
// is decided by it.
func requester() string {
	if onBehalf != "" {
		return onBehalf
	}
	uid := os.Getuid()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := account().Username
	text := fmt.Sprintf("%s (uid %d)@%s", plain(name), uid, plain(host))
	sudo, login, logname := os.Getenv("SUDO_USER"), loginUser(uid), os.Getenv("LOGNAME")
	switch {
	case sudo != "" && sudo != name:
		text += " via sudo by " + plain(sudo)
	case login != "" && login != name:
		text += " logged in as " + plain(login)
	case logname != "" && logname != name:
		text += " with LOGNAME " + plain(logname)
	}
	return text
}

// plain is the part of a name that cannot disturb a line of text.
func plain(name string) string {
	name = strings.ToValidUTF8(name, "?")
	name = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, name)
	const longest = 64
	for len(name) > longest {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return name
}

// loginUser is who logged in, if that is another than uid: as the kernel keeps
// it for a login, which su and sudo do not change, else the owner of the
// controlling terminal.
func loginUser(uid int) string {
	id, ok := auditUser()
	if !ok {
		id, ok = terminalOwner()
	}
	if !ok || id == uid {
		return ""
	}
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", id)
}

// auditUser is the kernel's login uid of this process.
func auditUser() (int, bool) {
	b, err := os.ReadFile("/proc/self/loginuid")
	id, err2 := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 32)
	const unset = 1<<32 - 1
	return int(id), err == nil && err2 == nil && id != unset
}

// terminalOwner is the owner of the controlling terminal, if it is a pseudo
// terminal: whoever opened it, also after su.
func terminalOwner() (int, bool) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, false
	}
	// pid (name) state ppid pgrp session tty_nr …
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 5 {
		return 0, false
	}
	tty, err := strconv.ParseUint(f[4], 10, 32)
	major, minor := tty>>8&0xfff, tty&0xff|tty>>12&0xfff00
	const ptsMajor, ptsMajors = 136, 8
	if err != nil || major < ptsMajor || major >= ptsMajor+ptsMajors {
		return 0, false
	}
	info, err := os.Stat(fmt.Sprintf("/dev/pts/%d", (major-ptsMajor)<<20+minor))
	if err != nil {
		return 0, false
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), true
}
