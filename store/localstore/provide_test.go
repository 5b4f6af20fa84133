package localstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cronce/cronce"
)

// Root makes a store for a user who has none, and only then; what is there and
// is not that user's is refused.
func TestProvide(t *testing.T) {
	for _, test := range []struct {
		name  string
		make  []string // "shared", or below the home with a ~
		owned bool     // by the user
		full  bool
		want  bool // that there is a shared one
		wrong string
	}{
		{name: "none", want: true},
		{name: "one at home", make: []string{"~/.local/state/cronce"}, want: false},
		{name: "one made by root", make: []string{"shared"}, owned: true, full: true, want: true},
		{name: "both, which the user is told", make: []string{"shared", "~/.local/state/cronce"}, owned: true, want: true},
		{name: "root was interrupted", make: []string{"shared"}, want: true},
		{name: "another's", make: []string{"shared"}, full: true, want: true, wrong: "belongs to user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, home := fakeHost(t)
			uid := 1000
			if os.Geteuid() != 0 {
				if test.wrong != "" {
					t.Log("not root: nothing of another user can be made")
					return
				}
				h, home = own(t)
				uid = h.uid
			}
			for _, dir := range test.make {
				if rest, ok := strings.CutPrefix(dir, "~"); ok {
					mkdir(t, home+rest)
					continue
				}
				dir := fmt.Sprintf("%s/%d", h.shared, uid)
				mkdir(t, dir)
				if test.full {
					mkdir(t, dir+"/jobs")
				}
				if test.owned {
					if err := os.Chown(dir, uid, -1); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := h.provide(uid, os.Getegid())
			var config *cronce.ConfigError
			if test.wrong == "" && err != nil || test.wrong != "" && (!errors.As(err, &config) || !strings.Contains(config.What, test.wrong)) {
				t.Errorf("%v; want %q", err, test.wrong)
			}
			info, err := os.Lstat(fmt.Sprintf("%s/%d", h.shared, uid))
			switch {
			case !test.want:
				if err == nil {
					t.Error("a second store was made")
				}
			case err != nil:
				t.Error(err)
			case test.wrong == "" && (info.Sys().(*syscall.Stat_t).Uid != uint32(uid) || info.Mode().Perm() != 0o700):
				t.Errorf("mode %s, of user %d", info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
			}
		})
	}
}
