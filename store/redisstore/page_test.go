package redisstore

import (
	"os"
	"strings"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// What the page tells to look with, shows what there is.
func TestPageLooks(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	store, err := Open(t.Context(), Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := store.Claim(t.Context(), cronce.Claim{RunID: cronce.NewRunID(), Job: "report"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/stores/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(line, "redis-cli ")
		if !ok {
			continue
		}
		looked++
		command, _, _ = strings.Cut(command, " #")
		command = strings.NewReplacer("r:ID", "r:"+l.Run.ID, "e:ID", "e:"+l.Run.ID).Replace(command)
		if got := server.Do(strings.Fields(command)...); !strings.Contains(got, l.Run.ID) {
			t.Errorf("%s shows %q, the run is %s", command, got, l.Run.ID)
		}
	}
	if looked < 3 {
		t.Errorf("%d commands on the page", looked)
	}
}
