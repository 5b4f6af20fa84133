package localstore

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Nobody is told to take another user's store away from that user, whose jobs
// would then stop; a folder that is no store yet can be given away.
func TestOwnerCure(t *testing.T) {
	t.Parallel()
	passwd := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0::/root:/bin/sh\nwww:x:33:33::/nowhere:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := host{shared: filepath.Join(t.TempDir(), "cronce"), passwd: passwd, uid: 0}
	for _, c := range []struct {
		name  string
		dir   string
		owner int
		store bool // it is one
		chown bool // is a cure
	}{
		{"the user's place", h.shared + "/33", 33, true, false},
		{"the user's place, unused", h.shared + "/33", 33, false, false},
		{"the user's store elsewhere", h.shared + "/elsewhere", 33, true, false},
		{"a folder", h.shared + "/folder", 33, false, true},
		{"our place", h.shared + "/0", 33, true, true},
	} {
		mkdir(t, c.dir)
		if c.store {
			if err := os.WriteFile(c.dir+"/format", []byte(formatLine), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cure := h.ownerCure(c.dir, c.owner)
		if strings.Contains(cure, "chown") != c.chown || strings.Contains(cure, "sudo") || !strings.Contains(cure, "runuser -u www -- cronce") {
			t.Errorf("%s: %s", c.name, cure)
		}
		os.Remove(c.dir + "/format")
	}
	// Where a file of it cannot be reached, the same.
	h.uid = os.Geteuid() + 1
	dir := h.shared + "/" + strconv.Itoa(os.Geteuid())
	mkdir(t, dir)
	if cure := h.accessCure(dir); strings.Contains(cure, "chown") {
		t.Errorf("no access: %s", cure)
	}
}
