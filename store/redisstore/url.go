package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/cronce/cronce"
)

// kind is how the servers of a store stand together.
type kind int

const (
	alone kind = iota
	underSentinel
	inCluster
)

// schemes of URLs. Valkey's are the same servers by their other name.
var schemes = map[string]struct {
	kind kind
	tls  bool
}{
	"redis": {alone, false}, "rediss": {alone, true},
	"redis+sentinel": {underSentinel, false}, "rediss+sentinel": {underSentinel, true},
	"redis+cluster": {inCluster, false}, "rediss+cluster": {inCluster, true},
	"valkey": {alone, false}, "valkeys": {alone, true},
	"valkey+sentinel": {underSentinel, false}, "valkeys+sentinel": {underSentinel, true},
	"valkey+cluster": {inCluster, false}, "valkeys+cluster": {inCluster, true},
}

// address is what a URL says.
type address struct {
	kind                           kind
	scheme                         string
	tls                            bool
	user, password                 string
	hosts                          []string // with ports
	master                         string   // what the sentinels call it
	database                       int
	replicas                       int
	ca, cert, key                  string // files
	sentinelUser, sentinelPassword string
}

// place is the URL without secrets.
func (a address) place() string {
	s := a.scheme + "://"
	if a.user != "" {
		s += url.PathEscape(a.user) + "@"
	}
	s += strings.Join(a.hosts, ",")
	if a.master != "" {
		s += "/" + a.master
	}
	if a.kind != inCluster {
		s += "/" + strconv.Itoa(a.database)
	}
	return s
}

// parse reads a URL. net/url knows one host only, and repeats in its errors
// what it was given, password included.
func parse(text string) (address, error) {
	var a address
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	known, ok := schemes[scheme]
	if !ok {
		return a, wrong("redis", "its address does not begin with redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
	a.scheme, a.kind, a.tls = scheme, known.kind, known.tls
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, ok := strings.Cut(authority[:i], ":")
		var err, err2 error
		a.user, err = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if !ok || err != nil || err2 != nil {
			return a, wrong(scheme, "what stands before @ is not USER:PASSWORD or :PASSWORD, with %40 for @, %2F for / and the like")
		}
		authority = authority[i+1:]
	}
	// Nothing is repeated of what may be a password in the wrong place.
	if strings.ContainsRune(authority+path+query, '@') {
		return a, wrong(scheme, "there is an @ where none can be: in a password it is %40, / is %2F and ? is %3F")
	}
	if err := a.setHosts(authority); err != nil {
		return a, err
	}
	if err := a.setPath(path); err != nil {
		return a, err
	}
	settings, err := url.ParseQuery(query)
	if err != nil {
		return a, wrong(scheme, "what follows ? is not NAME=VALUE&NAME=VALUE")
	}
	for name, values := range settings {
		if err := a.set(name, values[len(values)-1]); err != nil {
			return a, err
		}
	}
	if a.user+a.sentinelUser+a.sentinelPassword == "" {
		a.sentinelPassword = a.password // those without one take any
	}
	if (a.cert == "") != (a.key == "") {
		return a, wrong(scheme, "cert and key go together")
	}
	if !a.tls && a.ca+a.cert != "" {
		return a, wrong(scheme, "ca, cert and key are for rediss, which is with TLS")
	}
	return a, nil
}

func wrong(scheme, what string) error {
	return &cronce.ConfigError{Store: scheme + "://…", What: what, Cure: "docs/stores/redis.md has the forms of its URL"}
}

func (a *address) setHosts(text string) error {
	port := "6379"
	if a.kind == underSentinel {
		port = "26379"
	}
	for i, h := range strings.Split(text, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.Trim(h, "[]"), port
		}
		n, err := strconv.Atoi(p)
		if host == "" || strings.Contains(host, " ") || strings.Contains(host, ":") && net.ParseIP(host) == nil || err != nil || n < 1 || n > 65535 {
			return wrong(a.scheme, fmt.Sprintf("host number %d in it is no HOST or HOST:PORT", i+1))
		}
		a.hosts = append(a.hosts, net.JoinHostPort(host, p))
	}
	if a.kind == alone && len(a.hosts) > 1 {
		return wrong(a.scheme, "several hosts: that is redis+sentinel:// or redis+cluster://")
	}
	return nil
}

func (a *address) setPath(path string) error {
	database := path
	if a.kind == underSentinel {
		a.master, database, _ = strings.Cut(path, "/")
		if a.master == "" {
			return wrong(a.scheme, "the name that the sentinels have for the master is missing, as in redis+sentinel://HOST/MASTER")
		}
	}
	switch {
	case database == "":
		return nil
	case a.kind == inCluster:
		return wrong(a.scheme, "a Cluster has no databases: nothing may follow the hosts but ?")
	}
	n, err := strconv.Atoi(database)
	if err != nil || n < 0 {
		return wrong(a.scheme, fmt.Sprintf("%q is no number of a database", database))
	}
	a.database = n
	return nil
}

// set is a setting of the URL.
func (a *address) set(name, value string) error {
	switch name {
	case "replicas":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 100 {
			return wrong(a.scheme, fmt.Sprintf("replicas=%s is not a number from 0 to 100", value))
		}
		a.replicas = n
	case "ca":
		a.ca = value
	case "cert":
		a.cert = value
	case "key":
		a.key = value
	case "sentinel_user":
		a.sentinelUser = value
	case "sentinel_password":
		a.sentinelPassword = value
	default:
		return wrong(a.scheme, fmt.Sprintf("it has no setting %q: there are replicas, ca, cert, key, sentinel_user, sentinel_password", name))
	}
	return nil
}

// option is what the client takes. It pipelines by itself what goroutines ask
// for at once, and must repeat nothing: who calls decides that.
func (a address) option() (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{
		InitAddress:       a.hosts,
		Username:          a.user,
		Password:          a.password,
		SelectDB:          a.database,
		ClientName:        "cronce",
		ForceSingleClient: a.kind == alone,
		DisableCache:      true,
		DisableRetry:      true,
		PipelineMultiplex: -1,                    // one connection a server: the more share it, the fewer system calls
		MaxFlushDelay:     20 * time.Microsecond, // once there are many
		ConnWriteTimeout:  timeout,
		Dialer:            net.Dialer{Timeout: timeout},
		// The defaults are for large values: half a megabyte a connection.
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
	}
	if a.tls {
		config, err := a.tlsConfig()
		if err != nil {
			return o, err
		}
		o.TLSConfig = config
	}
	if a.kind == underSentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: a.master, TLSConfig: o.TLSConfig, Dialer: o.Dialer, ClientName: o.ClientName,
			Username: a.sentinelUser, Password: a.sentinelPassword,
		}
	}
	return o, nil
}

func (a address) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err == nil && !pool(c, pem) {
			err = errors.New("there is no certificate in it")
		}
		if err != nil {
			return nil, wrong(a.scheme, fmt.Sprintf("ca=%s: %v", a.ca, err))
		}
	}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, wrong(a.scheme, fmt.Sprintf("cert=%s, key=%s: %v", a.cert, a.key, err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func pool(c *tls.Config, pem []byte) bool {
	c.RootCAs = x509.NewCertPool()
	return c.RootCAs.AppendCertsFromPEM(pem)
}
