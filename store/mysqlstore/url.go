package mysqlstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronce/cronce"
)

// connectTime is how long a connection may take, where the context gives it
// longer.
const connectTime = 10 * time.Second

// patience is how long the server may be silent where the context has no earlier end: one
// that is gone without a word does not answer ever.
const patience = 15 * time.Second

// parseURL reads a store's URL. place is the URL without password and
// parameters.
func parseURL(text string) (config *mysql.Config, place string, err error) {
	bad := func(place, format string, a ...any) (*mysql.Config, string, error) {
		return nil, "", &cronce.ConfigError{Store: place, What: fmt.Sprintf(format, a...), Cure: "write it as mysql://USER:PASSWORD@HOST:PORT/DATABASE, special signs in USER and PASSWORD as %XX"}
	}
	u, err := url.Parse(text)
	if err != nil || strings.Contains(u.EscapedPath()+u.RawQuery+u.Fragment, "@") { // the error has the text, and with it the password
		return bad("mysql://…", "the URL cannot be read")
	}
	if u.Scheme != "mysql" || u.Opaque != "" {
		return bad("mysql://…", "the URL does not begin with mysql://")
	}
	shown := url.URL{Scheme: "mysql", Host: u.Host, Path: u.Path}
	if u.User.Username() != "" {
		shown.User = url.User(u.User.Username())
	}
	place = shown.String()

	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.DBName = strings.TrimPrefix(u.Path, "/")
	switch {
	case c.User == "":
		return bad(place, "the URL names no user")
	case c.DBName == "":
		return bad(place, "the URL names no database")
	case strings.Contains(c.DBName, "/"):
		return bad(place, "%q is no name of a database", c.DBName)
	case u.Fragment != "":
		return bad(place, "the URL ends with #…, which means nothing here")
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad(place, "the URL's parameters cannot be read")
	}
	for name, values := range parameters {
		if !slices.Contains([]string{"tls", "tls-ca", "socket"}, name) {
			return bad(place, "the URL has a parameter %q; there are tls, tls-ca and socket", name)
		}
		if len(values) > 1 || values[0] == "" {
			return bad(place, "the URL's parameter %s needs one value", name)
		}
	}

	if socket := parameters.Get("socket"); socket != "" {
		if u.Host != "" {
			return bad(place, "the URL has a host and a socket")
		}
		c.Net, c.Addr = "unix", socket
	} else {
		host, port := u.Hostname(), u.Port()
		if host == "" {
			return bad(place, "the URL names neither a host nor a socket")
		}
		if port == "" {
			port = "3306"
		}
		c.Net, c.Addr = "tcp", net.JoinHostPort(host, port)
	}
	if err := encrypt(c, u.Hostname(), parameters.Get("tls"), parameters.Get("tls-ca")); err != nil {
		return bad(place, "%v", err)
	}

	c.Timeout, c.ReadTimeout, c.WriteTimeout = connectTime, patience, patience
	c.ParseTime, c.Loc = true, time.UTC
	c.Collation = "utf8mb4_bin"
	// Several statements go in one packet, with their values written into them
	// by the driver: see docs/decisions/080.
	c.MultiStatements, c.InterpolateParams = true, true
	// A count is of the rows found, also where nothing in them changed.
	c.ClientFoundRows = true
	c.Logger = &mysql.NopLogger{}
	return c, place, nil
}

// Config reads such a URL for who has tables of his own in the same kind of database: without what only a store needs.
// *cronce.ConfigError: the URL cannot be used.
func Config(url string) (*mysql.Config, error) {
	c, _, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	c.ParseTime, c.MultiStatements, c.InterpolateParams, c.ClientFoundRows = false, false, false, false
	c.ReadTimeout, c.WriteTimeout = 0, 0
	return c, nil
}

// encrypt sets TLS up: by default none to this machine and, to another one,
// whatever it offers.
func encrypt(c *mysql.Config, host, mode, ca string) error {
	if mode == "" && ca != "" {
		mode = "true"
	}
	if mode == "" {
		mode = "preferred"
		if ip := net.ParseIP(host); c.Net == "unix" || host == "localhost" || ip != nil && ip.IsLoopback() {
			mode = "false"
		}
	}
	switch mode {
	case "false", "preferred", "skip-verify":
		if ca != "" {
			return fmt.Errorf("tls=%s does not look at the certificate that tls-ca is for", mode)
		}
		c.TLSConfig = mode
		return nil
	case "true":
		c.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	default:
		return fmt.Errorf("tls=%s is none of true, skip-verify, preferred, false", mode)
	}
	if ca == "" {
		return nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return fmt.Errorf("tls-ca: %w", err)
	}
	c.TLS.RootCAs = x509.NewCertPool()
	if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("tls-ca: there is no certificate in %s", ca)
	}
	return nil
}
