package cli_test

import (
	"testing"

	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/store/localstore"
)

// A command that people are told to type finds the store that is spoken of.
func TestStoreOption(t *testing.T) {
	t.Setenv("CRONCE_STORE", "/srv/cronce") // which others need not have
	place, err := localstore.DefaultPlace()
	if err != nil {
		place = "" // a user without a home has none
	}
	for dir, want := range map[string]string{
		"": "", place: "", "/srv/cronce": " --store /srv/cronce", "/srv/it's here": ` --store '/srv/it'\''s here'`,
	} {
		if got := cli.StoreOption(dir); got != want {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}
