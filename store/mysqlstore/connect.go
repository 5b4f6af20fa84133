package mysqlstore

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"time"
)

const (
	// lockWait is how long a statement waits for a row. Others hold one for
	// milliseconds, unless they are dead.
	lockWait = 5 * time.Second
	// serverIdleTime is when the server gives up a connection from which
	// nothing comes: that of a client which stopped within a transaction keeps
	// its job locked for so long.
	serverIdleTime = 10 * time.Second
	// idleTime is when we close one ourselves: later than the next renewal of a lease of
	// the usual TTL, which has no time for a new one where the server is far away.
	idleTime = 8 * time.Second
)

// session is what each connection begins with, in place of whatever the server
// is set to.
var session = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;" +
	"SET NAMES utf8mb4 COLLATE utf8mb4_bin, autocommit=1, completion_type='NO_CHAIN', time_zone='+00:00'," +
	" sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', unique_checks=1, sql_select_limit=18446744073709551615, sql_safe_updates=0," +
	fmt.Sprintf(" innodb_lock_wait_timeout=%d, wait_timeout=%d", int(lockWait.Seconds()), int(serverIdleTime.Seconds()))

// connector is the client library's, with sessions set up.
type connector struct{ sqldriver.Connector }

func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(sqldriver.ExecerContext).ExecContext(ctx, session, nil); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
