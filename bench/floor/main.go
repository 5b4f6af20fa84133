// Command floor is the least that a Go program can do in front of a command:
// it takes a lock and becomes the command.
//
//	floor FILE PROGRAM [ARG …]
//
// With "-guard" before the file it does the least that a guard can do, see guard.go.
// With "-peak" in place of the file it starts the program instead, and prints
// the most memory that it had resident at once, in KiB. A process counts for
// its child what it has itself when it forks, so only a small one can tell.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	run, args := lockAndBecome, os.Args[1:]
	switch args[0] {
	case "-peak":
		run = peak
	case "-guard":
		run, args = guard, args[1:]
	}
	if err := run(args[0], args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func lockAndBecome(file string, command []string) error {
	fd, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CREAT, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	return syscall.Exec(command[0], command, os.Environ())
}

func peak(_ string, command []string) error {
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec(command[0], command, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{uintptr(null), uintptr(null), 2},
	})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	if _, err := syscall.Wait4(pid, &status, 0, &usage); err != nil {
		return err
	}
	if status.ExitStatus() != 0 {
		return fmt.Errorf("%s: exit %d", command[0], status.ExitStatus())
	}
	fmt.Println(usage.Maxrss)
	return nil
}
