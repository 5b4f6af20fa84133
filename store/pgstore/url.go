package pgstore

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
)

// target is what a store's URL says.
type target struct {
	config *pgxpool.Config
	schema string
	place  string
	// prepares: common statements may be prepared under a name, where no pooler stands
	// between.
	prepares bool
}

// schemaName is what needs no quotes and is not the server's own.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// readURL reads a store's URL. No error shows the URL: a password may be
// anywhere in one that cannot be read.
func readURL(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || strings.Contains(u.EscapedPath()+u.RawQuery+u.Fragment, "@") {
		return target{}, &cronce.ConfigError{Store: "postgres", What: "its URL cannot be read",
			Cure: "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with signs such as @ / ? % in the password, or an @ in a parameter, as %40 %2F %3F %25"}
	}
	query := u.Query()
	shown := url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}
	if u.User.Username() != "" {
		shown.User = url.User(u.User.Username())
	}
	t := target{schema: DefaultSchema, place: shown.String()}
	refuse := func(what, cure string) (target, error) {
		return target{}, &cronce.ConfigError{Store: t.place, What: what, Cure: cure}
	}
	if query.Has("schema") {
		t.schema = query.Get("schema")
		query.Del("schema")
		if !schemaName.MatchString(t.schema) || strings.HasPrefix(t.schema, "pg_") || t.schema == "information_schema" {
			return refuse("its URL has schema="+t.schema, "name it with a-z, 0-9 and _ only, not beginning with a digit or pg_")
		}
		t.place += "?schema=" + t.schema
	}
	u.RawQuery = query.Encode()
	if t.config, err = pgxpool.ParseConfig(u.String()); err != nil {
		return refuse("its URL has a parameter or file that cannot be used", "see docs/stores/postgres.md for what it may say; "+reason(err, u))
	}
	c := t.config.ConnConfig
	for name := range c.RuntimeParams {
		// A setting of the session: a pooler drops it or refuses the connection,
		// and most are a slip of the finger.
		if query.Has(name) && !slices.Contains([]string{"application_name", "options"}, name) {
			return refuse("its URL has the parameter "+name+", which is none", "see docs/stores/postgres.md for those that there are")
		}
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "cronce"
	}
	// Poolers keep these two for each client.
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.RuntimeParams["timezone"] = "UTC"
	if !query.Has("default_query_exec_mode") {
		// Nothing is prepared under a name, which a pooler may not know; but see quick.go.
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
		t.prepares = true
		t.config.AfterConnect = t.meet
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	if slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port }) && c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return t, nil
}

// reason is why pgx does not take a URL, unless it speaks of the password.
func reason(err error, u *url.URL) string {
	text := "it is not valid"
	for e := err; e != nil; {
		text = e.Error()
		unwrap, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = unwrap.Unwrap()
	}
	password, _ := u.User.Password()
	if password != "" && strings.Contains(text, password) || strings.Contains(text, "postgres") && strings.Contains(text, "://") {
		return "it is not valid"
	}
	return text
}
