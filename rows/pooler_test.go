package rows_test

import (
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// TestPgBouncer defends what docs/rows.md says of a pooler that changes servers between transactions: with this mode
// of pgx, eight drains send each row once.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	const n = 1000
	server := testenv.StartPostgres(t)
	connect(t, "pgx", server.URL()).fill(notices, n)
	pooled := connect(t, "pgx", testenv.StartPgBouncer(t, "transaction", server.URL()).URL()+"&default_query_exec_mode=cache_describe")
	crowd(t, pooled, notices, n)
	if got := pooled.number("SELECT COUNT(*) FROM notices WHERE status = 'sent'"); got != n {
		t.Errorf("%d rows of %d are sent", got, n)
	}
}
