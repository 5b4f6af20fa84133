package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Disk is a small disk that a server alone has its data on.
type Disk struct {
	t      testing.TB
	filler string // the file that takes the room, as we reach it
}

// SmallDisk restarts the server with its data on a disk of that size ("64m"), for restarts
// with Kept only. The disk is in a mount namespace that ends with the test, however that
// ends. Only root can make one: ok is false for anyone else.
func (s *Server) SmallDisk(size string) (d *Disk, ok bool) {
	s.t.Helper()
	if os.Geteuid() != 0 {
		s.t.Log("not root: no disk is made that could be filled")
		return nil, false
	}
	s.kill()
	data := s.path("data")
	holder := exec.Command("unshare", "-m", "sh", "-ec", smallDisk, "sh", data, size)
	holder.Stderr = os.Stderr
	in, err1 := holder.StdinPipe()
	out, err2 := holder.StdoutPipe()
	if err := errors.Join(err1, err2, holder.Start()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.kill()
		in.Close()
		holder.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.t.Fatalf("%s: no small disk: %v", s.name, err)
	}
	pid := strconv.Itoa(holder.Process.Pid)
	s.within = []string{"nsenter", "--mount=/proc/" + pid + "/ns/mnt", "--"}
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
	return &Disk{t: s.t, filler: filepath.Join("/proc", pid, "root", data, "filler")}, true
}

// smallDisk is the shell program that mounts a disk of the size $2 over the folder $1, with
// what is in there, and keeps it as long as its input.
const smallDisk = `mkdir "$1.old"
mount --bind "$1" "$1.old"
mount -t tmpfs -o "size=$2" none "$1"
cp -a "$1.old/." "$1"
chown --reference="$1.old" "$1"
chmod --reference="$1.old" "$1"
umount "$1.old"
echo ready
exec cat`

// Fill takes all the room that is left.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{1 << 20, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Fatal(fmt.Errorf("the disk was to be filled: %w", err))
		}
	}
}

// Free gives that room back.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.filler); err != nil {
		d.t.Fatal(err)
	}
}
