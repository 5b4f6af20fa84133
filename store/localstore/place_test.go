package localstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// fakeHost is a host with a user of this process's id and a home.
func fakeHost(t *testing.T) (h host, home string) {
	t.Helper()
	root := t.TempDir()
	home = root + "/home/ann"
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	h = host{shared: root + "/var/lib/cronce", passwd: root + "/passwd", uid: 1000, statfs: statfs}
	for _, dir := range []string{root + "/var", root + "/var/lib"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	passwd := "root:x:0:0:root:" + root + "/root:/bin/sh\n+::::::\nann:x:1000:1000:Ann:" + home + "/:/bin/sh\nann2:x:1000:1000::/elsewhere:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nhalf:x:77\nslash:x:78:78::/:/bin/sh\n"
	if err := os.WriteFile(h.passwd, []byte(passwd), 0o600); err != nil {
		t.Fatal(err)
	}
	return h, home
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// The place depends on the user id and on what exists, never on HOME or XDG
// variables, which cron and a shell set differently.
func TestPlace(t *testing.T) {
	t.Setenv("HOME", "/tmp/elsewhere")
	t.Setenv("XDG_STATE_HOME", "/tmp/elsewhere")
	for _, test := range []struct {
		name  string
		uid   int
		make  []string // below the shared folder, or below the home with a ~
		dir   string
		env   string
		want  string
		wrong string // a part of the error
	}{
		{name: "a user's home", uid: 1000, want: "~/.local/state/cronce"},
		{name: "made by root", uid: 1000, make: []string{"/1000"}, want: "/1000"},
		{name: "another's made by root", uid: 1000, make: []string{"/1001"}, want: "~/.local/state/cronce"},
		{name: "both", uid: 1000, make: []string{"/1000", "~/.local/state/cronce"}, wrong: "there is also"},
		{name: "root", uid: 0, want: "/0"},
		{name: "no home", uid: 65534, wrong: "no home"},
		{name: "no home, made by root", uid: 65534, make: []string{"/65534"}, want: "/65534"},
		{name: "home is /", uid: 78, wrong: "no home"},
		{name: "not in passwd", uid: 4242, wrong: "CRONCE_STORE"},
		{name: "half a line in passwd", uid: 77, wrong: "no home"},
		{name: "CRONCE_STORE", uid: 1000, make: []string{"/1000"}, env: "/srv/x/", want: "=/srv/x"},
		{name: "CRONCE_STORE as a URL", uid: 1000, env: "file:///srv/x", want: "=/srv/x"},
		{name: "named, beats CRONCE_STORE", uid: 1000, dir: "/srv/y", env: "/srv/x", want: "=/srv/y"},
		{name: "relative", uid: 1000, env: "store", wrong: "absolute"},
		{name: "of another kind", uid: 1000, env: "redis://localhost", wrong: "absolute"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, home := fakeHost(t)
			h.uid, h.store = test.uid, test.env
			full := func(s string) string {
				if s, ok := strings.CutPrefix(s, "~"); ok {
					return home + s
				}
				if s, ok := strings.CutPrefix(s, "="); ok {
					return s
				}
				return h.shared + s
			}
			for _, dir := range test.make {
				mkdir(t, full(dir))
			}
			p, err := h.place(test.dir)
			var config *cronce.ConfigError
			if test.wrong != "" {
				if !errors.As(err, &config) || !strings.Contains(config.Error(), test.wrong) || config.Cure == "" {
					t.Errorf("place is %q, %v; want a *ConfigError that says %q", p.dir, err, test.wrong)
				}
				return
			}
			if err != nil || p.dir != full(test.want) {
				t.Errorf("place is %q, %v; want %q", p.dir, err, full(test.want))
			}
		})
	}
}

// own is a host whose user is the one that runs the test.
func own(t *testing.T) (h host, home string) {
	h, home = fakeHost(t)
	h.uid = os.Geteuid()
	line := fmt.Sprintf("me:x:%d:0::%s:/bin/sh\n", h.uid, home)
	if err := os.WriteFile(h.passwd, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return h, home
}

// A new store is for its user only.
func TestOpen_MakesTheStore(t *testing.T) {
	h, home := own(t)
	dir := home + "/.local/state/cronce"
	if h.uid == 0 {
		dir = h.shared + "/0"
	}
	var wg sync.WaitGroup
	for range 20 { // as the lines of a crontab do in its first minute
		wg.Go(func() {
			d, err := openDriver(Options{}, h)
			if err != nil || d.dir != dir {
				t.Errorf("opened %v, %v; want %s", d, err, dir)
			}
		})
	}
	wg.Wait()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the store is %v, %v; want mode 0700", info.Mode(), err)
	}
	b, err := os.ReadFile(dir + "/format")
	if err != nil || !strings.HasPrefix(string(b), formatLine+"made ") {
		t.Errorf("format is %q, %v", b, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("in the new store: %v, %v; want the format only", names, err)
	}
}

// What root does for a user without a home.
func TestInit(t *testing.T) {
	h, _ := own(t)
	dir, err := h.init(h.uid, os.Getegid(), "ann@host")
	if err != nil || dir != fmt.Sprintf("%s/%d", h.shared, h.uid) {
		t.Fatalf("made %q, %v", dir, err)
	}
	if _, err := h.init(h.uid, os.Getegid(), "bob@host"); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if b, err := os.ReadFile(h.shared + "/made"); err != nil || strings.Count(string(b), "\n") != 1 || !strings.HasPrefix(string(b), dir+" made ") || !strings.HasSuffix(string(b), " by ann@host\n") {
		t.Errorf("on record: %q, %v", b, err)
	}
	if d, err := openDriver(Options{}, h); err != nil || d.dir != dir {
		t.Errorf("opened %v, %v; want %s", d, err, dir)
	}
	other, home := own(t)
	mkdir(t, home+"/.local/state/cronce")
	var config *cronce.ConfigError
	if dir, err := other.init(other.uid, os.Getegid(), ""); !errors.As(err, &config) {
		t.Errorf("beside the store in the home: %q, %v", dir, err)
	}
	if have, _ := exists(other.shared); have {
		t.Error("it was made all the same")
	}
}

// Whatever breaks the promise is refused by name, with the cure.
func TestOpen_Refuses(t *testing.T) {
	on := func(kind int64) func(*testing.T, *host, string) {
		return func(t *testing.T, h *host, dir string) {
			h.statfs = func(string) (int64, bool, error) { return kind, false, nil }
		}
	}
	chmod := func(mode os.FileMode) func(*testing.T, *host, string) {
		return func(t *testing.T, h *host, dir string) {
			mkdir(t, dir)
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		harm func(t *testing.T, h *host, dir string)
		says string
	}{
		"NFS":           {on(0x6969), "NFS"},
		"CIFS":          {on(0xff534d42), "CIFS"},
		"SMB2":          {on(0xfe534d42), "SMB"},
		"SMB2 negative": {on(int64(int32(-0x1acb2be))), "SMB"}, // as a 32-bit kernel has it
		"Ceph":          {on(0x00c36400), "Ceph"},
		"AFS":           {on(0x5346414f), "AFS"},
		"Lustre":        {on(0x0bd00bd0), "Lustre"},
		"9p":            {on(0x01021997), "9p"},
		"FUSE":          {on(fuseMagic), "FUSE"},
		"read-only": {func(t *testing.T, h *host, dir string) {
			h.statfs = func(string) (int64, bool, error) { return 0xef53, true, nil }
		}, "read-only"},
		"another's":                 {func(t *testing.T, h *host, dir string) { mkdir(t, dir); h.uid++ }, "belongs to user"},
		"writable for the group":    {chmod(0o770), "others can write"},
		"writable for all":          {chmod(0o707), "others can write"},
		"writable for all, sticky":  {chmod(0o777 | os.ModeSticky), "others can write"},
		"not writable for its user": {chmod(0o500), "cannot write"},
		"a file": {func(t *testing.T, h *host, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a folder"},
		"no parent": {func(t *testing.T, h *host, dir string) {
			if err := os.Remove(parent(dir)); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
		"a parent that all can write to": {func(t *testing.T, h *host, dir string) {
			if err := os.Chmod(parent(dir), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "move it away"},
		"another's link": {func(t *testing.T, h *host, dir string) {
			if os.Geteuid() != 0 {
				// Only root can make one; checkWay is asked as if by another.
				h.uid++
			}
			target := t.TempDir()
			if err := os.Symlink(target, dir); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				if err := os.Lchown(dir, 1234, 1234); err != nil {
					t.Fatal(err)
				}
			}
		}, "user"},
		"a newer format": {func(t *testing.T, h *host, dir string) {
			mkdir(t, dir)
			if err := os.WriteFile(dir+"/format", []byte("cronce local store, format 2\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "format 2"},
		"in a file": {func(t *testing.T, h *host, dir string) {
			if err := os.RemoveAll(parent(dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(parent(dir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
		"jobs elsewhere": {func(t *testing.T, h *host, dir string) {
			if _, err := openDriver(Options{Dir: dir}, *h); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(t.TempDir(), dir+"/jobs"); err != nil {
				t.Fatal(err)
			}
		}, "jobs is a symbolic link"},
		"a pipe in place of the format": {func(t *testing.T, h *host, dir string) {
			mkdir(t, dir)
			if err := syscall.Mkfifo(dir+"/format", 0o600); err != nil {
				t.Fatal(err)
			}
		}, "format is not a file"},
		"jobs without a format": {func(t *testing.T, h *host, dir string) { mkdir(t, dir+"/jobs") }, "format is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := own(t)
			dir := t.TempDir() + "/above/store"
			mkdir(t, parent(dir))
			test.harm(t, &h, dir)
			_, err := openDriver(Options{Dir: dir}, h)
			var config *cronce.ConfigError
			if !errors.As(err, &config) || !strings.Contains(config.What, test.says) || config.Cure == "" {
				t.Errorf("%v; want a *ConfigError that says %q, with a cure", err, test.says)
			}
			// Whoever only looks at it is told the same of what cannot be looked at.
			switch name {
			case "a file", "in a file", "jobs elsewhere", "a newer format", "a pipe in place of the format", "jobs without a format":
				_, err := openDriver(Options{Dir: dir, ReadOnly: true}, h)
				if !errors.As(err, &config) || !strings.Contains(config.What, test.says) || config.Cure == "" {
					t.Errorf("to look at it: %v; want a *ConfigError that says %q, with a cure", err, test.says)
				}
			}
		})
	}
}

// In a sticky folder, as /tmp, nobody but its owner can move the store away.
func TestOpen_StickyParentIsGoodEnough(t *testing.T) {
	h, _ := own(t)
	above := t.TempDir()
	if err := os.Chmod(above, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := openDriver(Options{Dir: above + "/store"}, h); err != nil {
		t.Error(err)
	}
}

// Looking at a store makes none, and changes none.
func TestOpen_ReadOnly(t *testing.T) {
	dir := t.TempDir() + "/store"
	d, err := openDriver(Options{Dir: dir, ReadOnly: true}, testHost(t))
	if err != nil {
		t.Fatal(err)
	}
	s := cronce.NewStore(d)
	if jobs, err := s.Jobs(t.Context()); err != nil || len(jobs) != 0 {
		t.Errorf("jobs of no store: %v, %v", jobs, err)
	}
	if runs, err := s.Runs(t.Context(), cronce.RunQuery{}); err != nil || len(runs) != 0 {
		t.Errorf("runs of no store: %v, %v", runs, err)
	}
	if have, _ := exists(dir); have {
		t.Error("it was made")
	}
	c := start(t, "holder", dir)
	c.read()
	if d, err = openDriver(Options{Dir: dir, ReadOnly: true}, testHost(t)); err != nil {
		t.Fatal(err)
	}
	c.kill()
	s = cronce.NewStore(d)
	if jobs, err := s.Jobs(t.Context()); err != nil || len(jobs) != 1 || len(jobs[0].Live) != 1 {
		t.Errorf("jobs %+v, %v; want one with a run that nobody has marked", jobs, err)
	}
	var config *cronce.ConfigError
	if err := s.Request(t.Context(), cronce.Request{Kind: cronce.Pause, Job: "job"}); !errors.As(err, &config) {
		t.Errorf("pause: %v", err)
	}
	if _, err := s.Prune(t.Context(), "", time.Now()); !errors.As(err, &config) {
		t.Errorf("prune: %v", err)
	}
	if _, err := s.Claim(t.Context(), claimOf("job", tick(1))); !errors.As(err, &config) {
		t.Errorf("claim: %v", err)
	}
}

// The kernel's name for a mounted file system, with what kind of FUSE it is.
func TestMountType(t *testing.T) {
	withMount(t, func(t *testing.T) {
		if got := mountType(tmpfs(t, "size=64k")); got != "tmpfs" {
			t.Errorf("type of a tmpfs is %q", got)
		}
	})
	if got := mountType("/proc"); got != "proc" {
		t.Errorf("type of /proc is %q", got)
	}
}
