// Package request sends the HTTP request that is a job's work. As package guard
// for commands, it never decides whether to run.
//
// A request that may have been received is not sent again unless it is known
// how the first one ended, or the job says that the receiver takes requests
// with one Idempotency-Key for one.
package request

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/build"
)

// Request is what to send, and which answers are a success.
type Request struct {
	Method   string // empty: POST
	URL      string
	URLFile  string // a file that holds the URL, instead
	Headers  []Header
	Body     string
	BodyFile string // a file that holds the body, instead
	// Success are the statuses that are a success; none: 200 to 299.
	Success []Statuses
	// Idempotent says that the receiver takes requests with one Idempotency-Key
	// for one, so that one without an answer may be sent again.
	Idempotent bool
}

// Header is a header's name and its value, or the file that holds it.
type Header struct{ Name, Value, File string }

// Statuses are the HTTP statuses from First to Last.
type Statuses struct{ First, Last int }

// ParseStatuses reads a status as 304, or a class of them as 2xx.
func ParseStatuses(text string) (Statuses, error) {
	if class, ok := strings.CutSuffix(text, "xx"); ok && len(class) == 1 && class >= "2" && class <= "5" {
		first := int(class[0]-'0') * 100
		return Statuses{first, first + 99}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || n < 200 || n > 599 {
		return Statuses{}, fmt.Errorf("%q is neither a status from 200 to 599 nor a class of them, as 2xx", text)
	}
	return Statuses{n, n}, nil
}

func (r Request) succeeds(status int) bool {
	if len(r.Success) == 0 {
		return status >= 200 && status <= 299
	}
	for _, s := range r.Success {
		if s.First <= status && status <= s.Last {
			return true
		}
	}
	return false
}

// CheckURL says what is wrong with a URL, without repeating what may be secret.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it is no URL") // err repeats it
	case u.User != nil:
		return errors.New("it has a user or password in it: put the header Authorization into a file, and name that in headers-from-files")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("it must begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("it names no host")
	case !portOK(u.Port()):
		return errors.New("its port is none from 1 to 65535")
	case u.Fragment != "":
		return errors.New("it has a fragment (#…), which is never sent")
	}
	return nil
}

func portOK(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// own are the headers that only cronce, or the HTTP client, may set.
var own = map[string]bool{
	"Idempotency-Key": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true,
	"Keep-Alive": true, "Trailer": true, "Te": true, "Upgrade": true, "Expect": true, "Proxy-Connection": true,
}

// CheckHeader says what is wrong with a header's name.
func CheckHeader(name string) error {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}):
		return fmt.Errorf("%q is no name of a header", name)
	case own[canonical] || strings.HasPrefix(canonical, "Cronce-"):
		return fmt.Errorf("%s is set by cronce itself", canonical)
	}
	return nil
}

// CheckValue says what is wrong with a header's value, without repeating it.
func CheckValue(value string) error {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return errors.New("it has a line end or another control character in it")
	}
	return nil
}

// IsSecret reports whether a header of that name is there to carry a secret, so
// that its value belongs into a file of its own.
func IsSecret(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Authorization", "Proxy-Authorization", "Cookie":
		return true
	}
	return false
}

// Key is the Idempotency-Key of a run: the first 32 hexadecimal digits of the
// SHA-256 of the job's name, a newline and the tick in RFC 3339 and UTC, so that
// it is the same for each attempt on each host. A run by hand has no tick, and
// its id is the key.
func Key(run cronce.Run) string {
	if run.Tick.IsZero() {
		return run.ID
	}
	text := run.Job + "\n" + cronce.Stamp(run.Tick)
	if run.Slot > 1 {
		text += "\n" + strconv.Itoa(run.Slot)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// build reads the files and makes the request of one attempt. secrets are what
// the answer may repeat and the record must not have.
func (r Request) build(run cronce.Run, key string, attempt int) (req *http.Request, secrets []string, err error) {
	target := r.URL
	if r.URLFile != "" {
		if target, err = readSecret(r.URLFile); err == nil {
			err = CheckURL(target)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the URL from %s: %w", r.URLFile, err)
		}
		secrets = append(secrets, guises(target)...)
	}
	method := r.Method
	if method == "" {
		method = http.MethodPost
	}
	body := r.Body
	if r.BodyFile != "" {
		if body, err = readFile(r.BodyFile, maxBodyBytes); err != nil {
			return nil, nil, fmt.Errorf("the body: %w", err)
		}
	}
	// A reader that cannot be rewound: the client must not send it twice by itself.
	var from io.Reader = http.NoBody
	if body != "" {
		from = io.MultiReader(strings.NewReader(body))
	}
	if req, err = http.NewRequest(method, target, from); err != nil {
		return nil, nil, errors.New("it cannot be made of this method and URL")
	}
	if r.URLFile != "" {
		for _, part := range partsOfURL(req.URL) {
			secrets = append(secrets, guises(part)...)
		}
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("User-Agent", "cronce/"+build.Version())
	for _, h := range r.Headers {
		value := h.Value
		if h.File != "" {
			if value, err = readSecret(h.File); err != nil {
				return nil, nil, fmt.Errorf("header %s: %w", h.Name, err)
			}
			secrets = append(secrets, guises(value)...)
		}
		if textproto.CanonicalMIMEHeaderKey(h.Name) == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(h.Name, value)
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Cronce-Job", url.PathEscape(run.Job))
	if run.ID != "" {
		req.Header.Set("Cronce-Run-Id", run.ID)
	}
	req.Header.Set("Cronce-Attempt", strconv.Itoa(attempt+max(run.Attempt-1, 0))) // a re-run counts on
	if !run.Tick.IsZero() {
		req.Header.Set("Cronce-Tick", cronce.Stamp(run.Tick))
	}
	if run.Fence > 0 {
		req.Header.Set("Cronce-Fence", strconv.FormatInt(run.Fence, 10))
	}
	return req, secrets, nil
}

// The bounds of what is read from files.
const (
	maxSecretBytes = 64 << 10
	maxBodyBytes   = 16 << 20
)

// readSecret reads the value of a header, or a URL: the file without the line
// end that editors put there.
func readSecret(path string) (string, error) {
	text, err := readFile(path, maxSecretBytes)
	if err != nil {
		return "", err
	}
	text = strings.TrimRight(text, "\r\n")
	switch err := CheckValue(text); {
	case text == "":
		return "", fmt.Errorf("%s is empty", path)
	case err != nil:
		return "", fmt.Errorf("%s: %w", path, err)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s: it is not UTF-8", path)
	}
	return text, nil
}

// CheckFile says why a file could not be read for a request now, without
// reading it.
func CheckFile(path string) error {
	f, err := open(path)
	if err == nil {
		f.Close()
	}
	return err
}

// open opens a file that nobody but its owner and group may change. Who may
// read it is not looked at: containers get their secrets readable by all.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path) // first: to open a pipe could wait
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("%s may be changed by everyone (mode %04o): chmod o-w", path, info.Mode().Perm())
	}
	return os.Open(path)
}

func readFile(path string, most int64) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return string(b), err
}
