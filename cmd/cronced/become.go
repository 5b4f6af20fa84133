package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cronce/cronce/internal/cli"
)

// askedBy tells a program that root has become, as another user, who asks.
const askedBy = "CRONCE_ASKED_BY"

// become replaces this process, of root's, by a program as that user. No
// variable of root's goes with it but those of the account's environment.
func become(a systemAccount, path string, args ...string) error {
	by := requester()
	groups := make([]int, len(a.groups))
	for i, id := range a.groups {
		groups[i] = int(id)
	}
	loseTerminal()
	err := errors.Join(syscall.Setgroups(groups), syscall.Setgid(int(a.gid)))
	if err == nil {
		err = syscall.Setuid(int(a.uid))
	}
	if err == nil {
		err = os.Chdir("/")
	}
	if err == nil {
		syscall.Umask(0o022)
		err = syscall.Exec(path, args, append(a.environment(), askedBy+"="+by))
	}
	return fmt.Errorf("this process cannot become one of user %s: %w", a.name, err)
}

// loseTerminal gives up root's terminal as the one that controls this process:
// who is in the session of a terminal can put words into its input, for root's
// shell to read. The streams stay what they are. A leader of a session cannot,
// but is the one who reads there.
func loseTerminal() {
	const noTTY = 0x5422 // TIOCNOTTY of ioctl(2), see tty_ioctl(4)
	if id, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0); errno != 0 || int(id) == os.Getpid() {
		return
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return // there is none
	}
	defer tty.Close()
	syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), noTTY, 0)
}

// userFlag takes --user NAME out of a command line, where it says as whom the
// command is to be run; name is empty where it does not.
func userFlag(args []string) (name string, rest []string, err error) {
	command, _ := cli.SplitSubcommand(args)
	own := len(args)
	if i := slices.Index(args, "--"); i >= 0 {
		own = i // what stands behind is another program's
	}
	if !slices.Contains(asUserCommands, command) || slices.ContainsFunc(args[:own], func(w string) bool { return w == "--system" || w == "-system" }) {
		return "", args, nil // --system looks at what there is of others as root
	}
	for i := 1; i < own; i++ {
		flag, value, joined := strings.Cut(args[i], "=")
		if flag != "--user" && flag != "-user" {
			continue
		}
		end := i + 1
		if !joined && end < own {
			value, end = args[end], end+1
		}
		if value == "" {
			return "", nil, cli.Misuse(command, "flag needs an argument: --user")
		}
		return value, slices.Concat(args[:i], args[end:]), nil
	}
	return "", args, nil
}

// asUserCommands are those that act on a store, and do so as another user for root.
var asUserCommands = []string{"pause", "resume", "release", "trigger", "job", "status", "runs"}

// asUser runs a command as that user: this process becomes it.
func asUser(name string, args []string) error {
	account, err := findAccount(name)
	if err != nil {
		return cli.Misuse(args[0], "--user: %w", err)
	}
	if os.Geteuid() != 0 && os.Geteuid() != int(account.uid) {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("only root can do this as user %s: as root: cronce %s --user %[1]s …", name, args[0])}
	}
	if args[0] != "status" && args[0] != "runs" {
		return become(account, "/proc/self/exe", append([]string{"cronced"}, args...)...)
	}
	thin, err := openThin()
	if err != nil {
		return err
	}
	return become(account, thin.path, append([]string{"cronce"}, args...)...)
}
