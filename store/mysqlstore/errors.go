package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/cronce/cronce"
)

// The server's error numbers that mean something to us; both servers have the
// same.
const (
	errAccessDatabase    = 1044
	errAccessUser        = 1045
	errNoDatabase        = 1046
	errNull              = 1048 // where none may be
	errUnknownCommand    = 1047 // Galera: this node is cut off from the cluster
	errBadDatabase       = 1049
	errBadField          = 1054
	errDuplicate         = 1062
	errTableAccess       = 1142
	errColumnAccess      = 1143
	errNoSuchTable       = 1146
	errLockWait          = 1205
	errDeadlock          = 1213
	errSpecialAccess     = 1227
	errUnknownEngine     = 1286
	errOption            = 1290 // read_only and its like
	errReadOnly          = 1792
	errReadOnlyMode      = 1836
	errDisabledEngine    = 3161
	errDatabaseOfNoUser  = 1698
	errPasswordIsExpired = 1820
)

// number is the server's error number, 0 for any other error.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// again reports whether the server has taken all of the transaction back, so
// that it can be made anew.
func again(err error) bool {
	switch number(err) {
	case errDeadlock, errLockWait:
		return true
	}
	return false
}

// config is an error that somebody has to cure.
func (d *driver) config(cure, what string, a ...any) error {
	return &cronce.ConfigError{Store: d.place, What: fmt.Sprintf(what, a...), Cure: cure}
}

// noWrites is the error where the server takes none now. Who opens a store is told
// what to do about it; while one is open it may be a failover, and passes.
func (d *driver) noWrites(err error) error {
	return &cronce.UnavailableError{Store: d.place, Err: fmt.Errorf("it takes no writes now, as a replica or under read_only: %w", err)}
}

// failed says what an error of the client or the server means to who called.
func (d *driver) failed(err error) error {
	if err == nil || errors.As(err, new(*cronce.ConfigError)) || errors.As(err, new(*cronce.UnavailableError)) {
		return err
	}
	switch n := number(err); n {
	case 0:
		if errors.Is(err, context.Canceled) {
			return err
		}
		return &cronce.UnavailableError{Store: d.place, Err: err}
	case errAccessUser, errDatabaseOfNoUser, errPasswordIsExpired:
		return d.config("see to the user in the URL, and to the password in the file that CRONCE_STORE_PASSWORD_FILE names (or in the URL of CRONCE_STORE)", "%v", err)
	case errAccessDatabase, errTableAccess, errColumnAccess, errSpecialAccess:
		return d.config("grant the user SELECT, INSERT, UPDATE and DELETE on the database, and CREATE to make the tables", "%v", err)
	case errBadDatabase, errNoDatabase:
		return d.config("make the database, or mend the URL", "%v", err)
	case errNoSuchTable, errBadField:
		return d.config("open the store anew, which makes its tables; if somebody dropped them, cronce store init makes the new ones known", "%v", err)
	case errOption, errReadOnly, errReadOnlyMode:
		if !strings.Contains(err.Error(), "ENGINE") {
			return d.noWrites(err)
		}
		fallthrough
	case errUnknownEngine, errDisabledEngine:
		return d.config("let the server make InnoDB tables: see disabled_storage_engines, enforce_storage_engine", "%v", err)
	default:
		if n == errDuplicate {
			return fmt.Errorf("store %s: %w", d.place, err)
		}
		return &cronce.UnavailableError{Store: d.place, Err: err}
	}
}
