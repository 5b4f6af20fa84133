package request_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/request"
)

// A receiver that wants to speak another protocol, and then says nothing, is
// not listened to.
func TestDo_SwitchingProtocolsIsAFailure(t *testing.T) {
	hungUp := make(chan struct{})
	s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nzzz")
		io.Copy(io.Discard, conn) // until the client has hung up
		conn.Close()
		close(hungUp)
	})
	r, _ := do(t.Context(), request.Request{URL: s.URL}, cronce.Job{Retries: 2})
	if r.Outcome != cronce.Failed || r.Message != "HTTP 101 Switching Protocols: no other protocol was asked for" || s.count() != 1 {
		t.Errorf("%+v after %d requests", r, s.count())
	}
	<-hungUp
}

// Wherever an answer stands still, the end of the context ends the connection.
func TestDo_EndedInAnAnswer(t *testing.T) {
	for _, begin := range []string{
		"", "HTTP/1.1 ", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "HTTP/1.0 200 OK\r\n\r\nx", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		hungUp := make(chan struct{})
		s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			defer close(hungUp)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, begin)
			cancel(errors.New("enough"))
			io.Copy(io.Discard, conn)
			conn.Close()
		})
		r, _ := do(ctx, request.Request{URL: s.URL, Idempotent: true}, cronce.Job{Retries: 2})
		if r.Outcome == cronce.Succeeded || s.count() != 1 {
			t.Errorf("%q: %+v after %d requests", begin, r, s.count())
		}
		<-hungUp
	}
}
