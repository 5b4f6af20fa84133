package request_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/request"
)

// What a receiver shows of a secret URL is a part of it more often than the
// whole: its path, its query, a key in that.
func TestDo_OutputWithoutPartsOfTheURL(t *testing.T) {
	for _, secret := range []string{"T0ps3cr3t", "T0p%20s3cr3t%2Fx", "T0p+s3cr3t%3Cx"} {
		for _, target := range []string{"/hook/" + secret, "/hook?key=" + secret, "/" + secret + "/hook?user=ann&key=" + secret} {
			s := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(404)
				fmt.Fprintf(w, "not found: %s, %s, %s, %s\n", r.RequestURI, r.URL.Path, r.URL.RawQuery, r.URL.EscapedPath())
				fmt.Fprintf(w, "key %s or %q in %s\n", r.FormValue("key"), r.FormValue("key"), html.EscapeString(r.URL.String()))
				for part := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
					plain, _ := url.PathUnescape(part)
					fmt.Fprintf(w, "in %s: %s\n", part, plain)
				}
			})
			hook := file(t, t.TempDir(), "hook", s.URL+target+"\n", 0o600)
			r, _ := do(t.Context(), request.Request{URLFile: hook}, cronce.Job{})
			if !strings.HasPrefix(string(r.Output), "not found: ") || strings.Contains(string(r.Output), "s3cr3t") {
				t.Errorf("%s: %s", target, r.Output)
			}
		}
	}
}

// Nor does it help a receiver to put a secret into quotes, JSON or HTML.
func TestDo_OutputWithoutQuotedSecrets(t *testing.T) {
	for _, secret := range []string{`a "s3cr3t" b`, `k\s3cr3t`, "Basic  s3cr3t &x", "<s3cr3t>", "k\ts3cr3t", "s3cr3t ünd"} {
		s := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			v := r.Header.Get("X-Key")
			asJSON, err := json.Marshal(v)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintln(w, v, strconv.Quote(v), strconv.QuoteToASCII(v), string(asJSON), html.EscapeString(v), url.QueryEscape(v), url.PathEscape(v))
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			e.Encode(v)
		})
		token := file(t, t.TempDir(), "token", secret+"\n", 0o600)
		r, _ := do(t.Context(), request.Request{URL: s.URL, Headers: []request.Header{{Name: "X-Key", File: token}}}, cronce.Job{})
		if len(r.Output) == 0 || strings.Contains(string(r.Output), "s3cr3t") {
			t.Errorf("%q: %s", secret, r.Output)
		}
	}
}

// An answer that is no HTTP is told without a word of it, for it may show what
// was sent.
func TestDo_NoWordOfWhatIsNoAnswer(t *testing.T) {
	for _, answer := range []string{
		"%s\r\n\r\n", "HTTP/1.1 %s\r\n\r\n", "HTTP/1.1 200 OK\r\n%s\r\n\r\n", "HTTP/1.1 200 OK\r\n%s: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: %s\r\n\r\n",
	} {
		const secret = `short  "geheim" \geheim`
		s := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintf(conn, answer, r.Header.Get("X-Key"))
			conn.Close()
		})
		token := file(t, t.TempDir(), "token", secret+"\n", 0o600)
		r, _ := do(t.Context(), request.Request{URL: s.URL, Headers: []request.Header{{Name: "X-Key", File: token}}}, cronce.Job{})
		if r.Outcome != cronce.Failed || !strings.HasPrefix(r.Message, "no answer: ") || strings.Contains(r.Message, "geheim") {
			t.Errorf("%q: %+v", answer, r)
		}
	}
}
