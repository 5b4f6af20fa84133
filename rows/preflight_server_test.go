package rows_test

import (
	"database/sql"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/rows"
)

// TestPreflight_MariaDBSettings defends that settings of the server which break claims are refused by name, and that
// the printed fix is one.
func TestPreflight_MariaDBSettings(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t, "--log-bin", "--sync-binlog=1")
	db := connect(t, "mysql", server.URL())
	db.fill(notices, 12)
	fine(t, db.preflight(notices))
	for _, c := range []struct {
		setting     string
		level       rows.Level
		about, what string
	}{
		{"read_only = 1", rows.Refused, "server", "read_only=ON"},
		{"tx_read_only = 1", rows.Refused, "session", "transactions are read-only"},
		{"binlog_format = 'STATEMENT'", rows.Refused, "binlog", "binlog_format=STATEMENT"},
		{"autocommit = 0", rows.Refused, "session", "autocommit=0"},
		{"innodb_flush_log_at_trx_commit = 2", rows.Noted, "disk", "innodb_flush_log_at_trx_commit=2"},
		{"sync_binlog = 0", rows.Noted, "disk", "sync_binlog=0"},
	} {
		server.SQL("SET GLOBAL " + c.setting)
		f := found(t, connect(t, "mysql", server.URL()).preflight(notices), c.level, c.about, c.what)
		server.SQL(f.Fix)
		r := connect(t, "mysql", server.URL()).preflight(notices)
		fine(t, r)
		for _, other := range r.Findings {
			if other.What == f.What {
				t.Errorf("%s: after the fix\n%s", c.setting, r)
			}
		}
	}
}

// TestPreflight_MariaDBReplica defends that a replica is refused, also where it may be written to and where the user may not ask, and that a
// pool whose connections end at different servers is.
func TestPreflight_MariaDBReplica(t *testing.T) {
	t.Parallel()
	primary := testenv.StartMariaDB(t, "--log-bin", "--sync-binlog=1", "--server-id=1", "--replicate-do-db=cronce")
	replica := testenv.StartMariaDB(t, "--log-bin", "--sync-binlog=1", "--server-id=2", "--replicate-do-db=cronce")
	host, port, _ := net.SplitHostPort(primary.Addr())
	position := primary.SQL("SELECT @@gtid_binlog_pos")
	primary.SQL("CREATE USER replica IDENTIFIED BY 'replica'; GRANT REPLICATION SLAVE ON *.* TO replica")
	replica.SQL(fmt.Sprintf("SET GLOBAL gtid_slave_pos = '%s'; CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='replica', MASTER_PASSWORD='replica', MASTER_USE_GTID=slave_pos; START SLAVE", position, host, port))
	db := connect(t, "mysql", primary.URL())
	db.fill(notices, 12)
	fine(t, db.preflight(notices))
	if got := replica.SQL("SELECT MASTER_GTID_WAIT('" + primary.SQL("SELECT @@gtid_binlog_pos") + "', 60)"); got != "0" {
		t.Fatalf("the replica does not follow: %s\n%s", got, replica.SQL("SHOW SLAVE STATUS"))
	}
	for _, url := range []string{replica.URL(), replica.AdminURL()} {
		found(t, connect(t, "mysql", url).preflight(notices), rows.Refused, "server", "is a replica")
	}

	fix := found(t, connect(t, "mysql", replica.AdminURL()).preflight(notices), rows.Refused, "server", "is a replica").Fix
	replica.SQL(fix)
	for _, url := range []string{replica.URL(), replica.AdminURL()} {
		fine(t, connect(t, "mysql", url).preflight(notices))
	}
	both := *db
	both.DB = sql.OpenDB(alternating{autocommit{db.Driver(), db.source}, connect(t, "mysql", replica.URL()).source, new(atomic.Int64)})
	defer both.Close()
	found(t, both.preflight(notices), rows.Refused, "server", "different servers")
}

// TestPreflight_Galera defends that a node of a cluster is named: claims are right there, by the guard and the COMMIT, and not by locks.
func TestPreflight_Galera(t *testing.T) {
	t.Parallel()
	node := testenv.StartGalera(t, nil)
	db := connect(t, "mysql", node.URL())
	db.fill(notices, 12)
	r := db.preflight(notices)
	found(t, r, rows.Slow, "server", "Galera")
	if r.Err() != nil {
		t.Errorf("refused:\n%s", r)
	}
}

// TestPreflight_MariaDBTransactions defends that what a user may not look at is said, and is no fault of the table.
func TestPreflight_MariaDBTransactions(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	db := connect(t, "mysql", server.URL())
	db.fill(notices, 12)
	r := db.preflight(notices)
	if _, ok := r.Worst(); ok || len(r.Unseen) != 1 || !strings.HasSuffix(r.String(), "not looked at: open transactions, which takes the right PROCESS\nnothing is amiss\n") {
		t.Errorf("without PROCESS:\n%s", r)
	}
	server.SQL("GRANT PROCESS ON *.* TO cronce")
	r = connect(t, "mysql", server.URL()).preflight(notices)
	if _, ok := r.Worst(); ok || len(r.Unseen) != 0 {
		t.Errorf("with all rights there is\n%s", r)
	}
}

// TestPreflight_Postgres defends that a replica, read-only transactions and a server that forgets are found, and that the
// printed fix is one.
func TestPreflight_Postgres(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	db := connect(t, "pgx", server.URL())
	db.fill(notices, 12)
	replica := server.StartReplica(t)
	found(t, connect(t, "pgx", replica.URL()).preflight(notices), rows.Refused, "server", "is a replica")
	for _, c := range []struct {
		setting     string
		level       rows.Level
		about, what string
	}{
		{"default_transaction_read_only = on", rows.Refused, "session", "transactions are read-only"},
		{"synchronous_commit = off", rows.Noted, "disk", "synchronous_commit=off"},
	} {
		server.SQL("ALTER ROLE cronce SET " + c.setting)
		f := found(t, connect(t, "pgx", server.URL()).preflight(notices), c.level, c.about, c.what)
		again := connect(t, "pgx", server.URL())
		again.SetMaxOpenConns(1)
		again.run("SET default_transaction_read_only = off")
		again.paste(f.Fix)
		if r := connect(t, "pgx", server.URL()).preflight(notices); len(r.Findings) != 0 {
			t.Errorf("%s: after the fix\n%s", c.setting, r)
		}
	}
}

// TestPreflight_ReadOnlyUser defends that a user who may read the table and not change it is told so before the first run: MariaDB lets
// it lock rows.
func TestPreflight_ReadOnlyUser(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	connect(t, "mysql", server.URL()).fill(notices, 12)
	server.SQL("REVOKE ALL ON cronce.* FROM cronce; GRANT SELECT ON cronce.* TO cronce")
	found(t, connect(t, "mysql", server.URL()).preflight(notices), rows.Refused, "rights", "rows cannot be claimed: Error 1142")
}
