package mysqlstore

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
	server := testenv.StartMariaDB(t)
	store := cronce.NewStore(open(t, server.URL()))
	if err := store.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim := func(job string) cronce.Lease {
		l, err := store.Claim(t.Context(), cronce.Claim{RunID: cronce.NewRunID(), Job: job})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	done := claim("backup")
	if err := store.Finish(t.Context(), done, cronce.Result{Outcome: cronce.Succeeded, Output: []byte("said\n")}); err != nil {
		t.Fatal(err)
	}
	claim("other") // which goes on
	page, err := os.ReadFile("../../docs/stores/mysql.md")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, block := range strings.Split(string(page), "```sql\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "SELECT") {
				continue
			}
			looked++
			statement := strings.Replace(line, "019ad53c-7f5e-7c61-9d0e-2a6b8e0f4c11", done.Run.ID, 1)
			// At this moment nobody decides.
			if rows := server.SQL(statement); strings.TrimSpace(rows) == "" && !strings.Contains(line, "innodb_trx") {
				t.Errorf("nothing is shown by %s", statement)
			}
		}
	}
	if looked < 4 {
		t.Errorf("%d statements on the page", looked)
	}
}
