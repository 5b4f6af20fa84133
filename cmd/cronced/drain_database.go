package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/internal/keys"
	"github.com/cronce/cronce/store/all"
	"github.com/cronce/cronce/store/mysqlstore"
	"github.com/cronce/cronce/store/pgstore"
)

// The environment variables for the database: its URL, and a file with the password of one without.
const (
	databaseVariable = "CRONCE_DB"
	databasePassword = "CRONCE_DB_PASSWORD_FILE"
)

// database is the one that the table is in.
type database struct {
	*sql.DB
	quote string // what a name stands in
}

// setDB reads --db. A password there could be read by everybody on the machine.
func (o *drainOptions) setDB(f *cli.Flags) func(string) error {
	return func(v string) error {
		if shown := cli.WithoutSecrets(v); cli.IsURL(v) && shown != v {
			f.Refuse(fmt.Errorf("--db %s: a password on a command line can be read by everybody on this machine: set %s to the URL, or %s to a file with the password",
				shown, databaseVariable, databasePassword))
		}
		o.db = v
		o.given = append(o.given, "--db", v)
		return expected(v != "", "a URL, or the file of an SQLite database")
	}
}

// connect opens the database, and has it say that this user may come in. Of a server that says no the message names server and user.
func connect(ctx context.Context, text string) (*database, error) {
	db, err := openDatabase(text)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, 2*connectTime)
	defer cancel()
	if err = db.PingContext(limited); err == nil {
		return db, nil
	}
	db.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	code, what := cli.Unavailable, "the database cannot be reached"
	var theirs *mysql.MySQLError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &theirs) && slices.Contains(refusals, strconv.Itoa(int(theirs.Number))),
		errors.As(err, &pg) && slices.Contains(refusals, pg.Code):
		code, what = cli.Config, "the server refuses the connection"
	}
	return nil, &cli.ExitError{Code: code, Err: fmt.Errorf("--db %s: %s: %w", cli.WithoutSecrets(text), what, pgstore.OneLine(err))}
}

// refusals are what servers answer to a user, password or database that is not theirs: it will not be later.
var refusals = []string{"1044", "1045", "1049", "1698", "28000", "28P01", "3D000", "42501"}

// openDatabase opens the pool for a URL; nothing is connected yet.
func openDatabase(text string) (*database, error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return openSQLite(strings.TrimPrefix(text, "sqlite:"))
	}
	bad := func(format string, a ...any) (*database, error) {
		return nil, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("--db %s: %w", cli.WithoutSecrets(text), fmt.Errorf(format, a...))}
	}
	if scheme == "sqlite" || scheme == "sqlite3" {
		path, err := url.PathUnescape(rest)
		if err != nil || !strings.HasPrefix(path, "/") {
			return bad("write sqlite:///PATH with an absolute path, or the path alone")
		}
		return openSQLite(path)
	}
	text, err := all.WithPassword(text, databasePassword)
	if err != nil {
		return bad("%w", err)
	}
	switch scheme {
	case "mysql", "mariadb":
		c, err := mysqlstore.Config("mysql" + strings.TrimPrefix(text, scheme))
		var config *cronce.ConfigError
		if errors.As(err, &config) {
			return bad("%s: %s", config.What, config.Cure)
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return bad("its parameters cannot be used together")
		}
		return &database{sql.OpenDB(connector), "`"}, nil
	case "postgres", "postgresql":
		c, err := pgx.ParseConfig(text)
		if err != nil { // which shows the URL
			return bad("it cannot be read: write postgres://USER@HOST:PORT/DATABASE, special signs as %%XX")
		}
		if !strings.Contains(text, "default_query_exec_mode=") {
			// Nothing is prepared under a name, which a pooler may not know, and types are as the server says.
			c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		c.RuntimeParams["application_name"] = "cronce drain"
		c.RuntimeParams["timezone"] = "UTC"
		if c.ConnectTimeout == 0 {
			c.ConnectTimeout = connectTime
		}
		return &database{stdlib.OpenDB(*c), `"`}, nil
	}
	return bad("no database is of this kind: there are mysql://, mariadb://, postgres:// and sqlite:///PATH")
}

// connectTime is how long a connection may take.
const connectTime = 10 * time.Second

// openSQLite opens a file that is there already.
func openSQLite(path string) (*database, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a folder", path)
	default:
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, &cli.ExitError{Code: cli.NoInput, Err: fmt.Errorf("--db: the file of an SQLite database: %w", err)}
	}
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String() + "?mode=rw&_pragma=busy_timeout(1000)"
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, &cli.ExitError{Code: cli.Unavailable, Err: err}
	}
	return &database{db, `"`}, nil
}

// readAll has the work get all columns of the table, where --read does not say which: all but those that
// cronce keeps.
func (o *drainOptions) readAll(ctx context.Context, db *database) error {
	if len(o.table.Read) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	q := db.quote
	found, err := db.QueryContext(ctx, "SELECT * FROM "+q+strings.ReplaceAll(o.table.Name, ".", q+"."+q)+q+" WHERE 1 = 0")
	if err != nil {
		return nil // rows.Open says what is wrong
	}
	defer found.Close()
	all, err := found.Columns()
	if err != nil {
		return nil
	}
	own := append([]string{o.table.State}, o.table.Key...)
	c := o.table.Columns
	own = append(own, c.Token, c.LeaseUntil, c.StartedAt, c.Attempts, c.Crashes, c.NextAttemptAt, c.LastError, c.Fence)
	for _, name := range all {
		if fact, ok := strings.CutPrefix(name, "cronce_"); ok && slices.Contains(keys.Names(keys.Table()), strings.ReplaceAll(fact, "_", "-")) {
			continue
		}
		if strings.ContainsAny(name, ".`\"[]'\n") {
			return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("table %s: a column of it, %q, has a name that cannot be asked for: say by --read which columns the work gets", o.table.Name, name)}
		}
		if !slices.ContainsFunc(own, func(s string) bool { return strings.EqualFold(s, name) }) {
			o.table.Read = append(o.table.Read, name)
		}
	}
	return nil
}
