package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// reaper is the shell program that ends what a test process has left, however
// that ended: its standard input is a pipe whose other end nobody but the test
// process has. A server runs only after its pid has a file in $1/groups, so
// that after the move none can start. Postgres gives its children groups of
// their own.
const reaper = `read -r _
mv "$1/groups" "$1/closed"
for f in "$1"/closed/*; do
	pid=${f##*/}
	kill -9 "-$pid" $(cat "/proc/$pid/task/$pid/children")
done
rm -rf "$1" || { sleep 1; rm -rf "$1"; }`

// registered is the shell program that starts a server: "$@" after its pid is
// in the folder $0.
const registered = `: >"$0/$$" && exec "$@"`

// home is the folder of this process's servers. It lasts as long as the
// process, and so do the servers that are registered there.
var home = sync.OnceValues(func() (string, error) {
	base := os.TempDir()
	if os.Geteuid() == 0 && !forAll(base) {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "cronce-testenv-")
	if err != nil {
		return "", err
	}
	// Servers that refuse root have to get through to their own folders.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "groups"), 0o700); err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-c", reaper, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what a terminal sends to the test is not for it
	// The pipe's end is open until the process ends: nobody closes it.
	if _, err := cmd.StdinPipe(); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("the process that ends servers: %w", err)
	}
	pipes = append(pipes, cmd)
	return dir, nil
})

// pipes keeps the reaper's pipe from the garbage collector, which would close it.
var pipes []*exec.Cmd

// forAll reports whether every user gets through to a folder.
func forAll(dir string) bool {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
	}
	return true
}
