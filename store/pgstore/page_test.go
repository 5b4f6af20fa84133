package pgstore

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
	server := testenv.StartPostgres(t)
	store := open(t, server.URL())
	if err := store.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := store.Claim(t.Context(), cronce.Claim{RunID: cronce.NewRunID(), Job: "report"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/stores/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, block := range strings.Split(string(page), "```sql\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.HasPrefix(block, "SELECT") {
			continue // of rights, which has a test of its own
		}
		for _, statement := range strings.SplitAfter(block, ";") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			looked++
			if rows := server.SQL(statement); strings.TrimSpace(rows) == "" {
				t.Errorf("nothing is shown by %s", statement)
			}
		}
	}
	if looked < 2 {
		t.Errorf("%d statements on the page", looked)
	}
	if err := store.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
		t.Error(err)
	}
}
