package rows_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cronce/cronce/rows"
)

// TestMigration defends that what is printed is what was missing: run as it is, it makes the table fit, and
// then nothing is missing.
func TestMigration(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]rows.Table{
		"added columns": {Name: "notices", Key: []string{"id"}, State: "status"},
		"own columns":   {Name: "notices", Key: []string{"id"}, State: "status", Columns: rows.Columns{StartedAt: "started", Attempts: "tries"}},
		"side table":    {Name: "notices", Key: []string{"id"}, State: "status", Side: "notices_claims"},
		"no state":      {Name: "notices", Key: []string{"id"}, Side: "notices_claims"},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, db *database) {
				db.run("CREATE TABLE notices (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, started TIMESTAMP NULL, tries INT NOT NULL DEFAULT 0)")
				options := rows.Options{Fence: 7}
				var missing *rows.TableError
				if _, err := rows.Open(t.Context(), db.DB, table, options); !errors.As(err, &missing) || !strings.Contains(err.Error(), "--print-migration") {
					t.Fatalf("Open before the migration: %v", err)
				}
				migration, err := rows.Migration(t.Context(), db.DB, table, options)
				if err != nil {
					t.Fatal(err)
				}
				db.run(migration)
				if _, err := rows.Open(t.Context(), db.DB, table, options); err != nil {
					t.Fatalf("Open after\n%s\n%v", migration, err)
				}
				if again, err := rows.Migration(t.Context(), db.DB, table, options); again != "" || err != nil {
					t.Errorf("after the migration this is missing: %s%v", again, err)
				}
			})
		})
	}
}
