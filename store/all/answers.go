package all

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// What may answer at an address.
const (
	isRedis    = "Redis"
	isPostgres = "Postgres"
	isMySQL    = "MariaDB or MySQL"
	isTLS      = "a server that wants TLS"
)

// askTime is how long one question to a server may take.
const askTime = 700 * time.Millisecond

// mismatch looks, after a store could not be reached, at what answers at its address, and says so where that is
// of another kind than the URL's: the client libraries wait until their time is over, or speak of broken packets. nil:
// nothing answers there, or what the URL says.
func mismatch(ctx context.Context, scheme, storeURL string) error {
	u, err := url.Parse(storeURL)
	if err != nil || u.Hostname() == "" {
		return nil // several hosts with ports, or a socket
	}
	base, form, _ := strings.Cut(scheme, "+")
	family, port, encrypted := isRedis, "6379", base == "rediss" || base == "valkeys"
	switch {
	case strings.HasPrefix(base, "postgres"):
		family, port = isPostgres, "5432"
	case base == "mysql":
		family, port = isMySQL, "3306"
	case form == "sentinel":
		port = "26379"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	address := net.JoinHostPort(u.Hostname(), port)
	shown := url.URL{Scheme: scheme, Host: u.Host}
	if u.User.Username() != "" {
		shown.User = url.User(u.User.Username())
	}
	refuse := func(what, cure string) error {
		return &cronce.ConfigError{Store: shown.String(), What: "what answers at " + address + " " + what, Cure: cure}
	}
	another := func(base string) string { return strings.TrimSuffix(base+"+"+form, "+") + "://" }
	switch there := whatAnswers(ctx, address); {
	case there == "", there == family && !encrypted, there == isTLS && encrypted:
		return nil
	case there == family:
		return refuse("speaks no TLS", "write "+another(strings.TrimSuffix(base, "s"))+", which is without, or let the server speak TLS")
	case there == isTLS && family == isRedis:
		return refuse("speaks TLS only", "write "+another(base+"s")+", which is with TLS")
	case there == isTLS:
		return refuse("is no "+family+": it speaks TLS from the first byte", "see to the port in the URL")
	default:
		return refuse("is no "+family+": it is "+there, "see to the port in the URL, or write "+schemeOf[there]+"://")
	}
}

// schemeOf is how the URL of a store begins that is kept there.
var schemeOf = map[string]string{isRedis: "redis", isPostgres: "postgres", isMySQL: "mysql"}

// whatAnswers asks the server at an address what it is, each time on a connection of its own; "": nobody answers, or
// somebody else.
func whatAnswers(ctx context.Context, address string) string {
	// One of MariaDB's family speaks first, and the others never do.
	greeting, err := ask(ctx, address, "PING\r\n", 5)
	switch {
	case refused(err):
		return ""
	case bytes.HasPrefix(greeting, []byte("+PONG")), bytes.HasPrefix(greeting, []byte("-NOAU")), bytes.HasPrefix(greeting, []byte("-ERR ")),
		bytes.HasPrefix(greeting, []byte("-DENI")), bytes.HasPrefix(greeting, []byte("-LOAD")), bytes.HasPrefix(greeting, []byte("-NOPE")):
		return isRedis
	case len(greeting) == 5 && greeting[3] == 0 && (greeting[4] == 10 || greeting[4] == 0xff):
		return isMySQL
	}
	if yesNo, _ := ask(ctx, address, "\x00\x00\x00\x08\x04\xd2\x16\x2f", 1); string(yesNo) == "S" || string(yesNo) == "N" {
		return isPostgres
	}
	if handshakes(ctx, address) {
		return isTLS
	}
	return ""
}

// refused reports whether there was no connection.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// ask sends a question and reads the first n bytes of the answer, or fewer.
func ask(ctx context.Context, address, question string, n int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, question); err != nil {
		return nil, err
	}
	answer := make([]byte, n)
	got, err := io.ReadFull(c, answer)
	return answer[:got], err
}

// handshakes reports whether a server speaks TLS. Nothing is sent to it that needs trust, so none is asked for.
func handshakes(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer c.Close()
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}
