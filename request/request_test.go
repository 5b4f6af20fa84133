package request_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/request"
)

var tick = time.Date(2026, 11, 30, 2, 30, 0, 0, time.UTC)

var run = cronce.Run{ID: "0192-run", Job: "nightly mail", Tick: tick, Fence: 42}

// The key is what receivers keep: it must never change between releases.
func TestKey(t *testing.T) {
	for _, c := range []struct {
		run  cronce.Run
		want string
	}{
		{run, "a3e20d7d957ec4b254b7b9db1af2ce38"},
		{cronce.Run{ID: "other", Job: "nightly mail", Tick: tick.In(time.FixedZone("", 3600)), Attempt: 2}, "a3e20d7d957ec4b254b7b9db1af2ce38"},
		{cronce.Run{ID: "by-hand", Job: "nightly mail"}, "by-hand"},
	} {
		if got := request.Key(c.run); got != c.want {
			t.Errorf("%+v: %s, want %s", c.run, got, c.want)
		}
	}
	if request.Key(run) == request.Key(cronce.Run{Job: run.Job, Tick: tick.Add(time.Minute)}) {
		t.Error("two ticks have one key")
	}
}

// receiver is an HTTP server that keeps what it got.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []*http.Request
	body []string
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	s := &receiver{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got, s.body = append(s.got, r), append(s.body, string(b))
		n := len(s.got)
		s.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *receiver) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// do sends a request for the run and returns the result and what was said.
func do(ctx context.Context, r request.Request, job cronce.Job) (cronce.Result, []string) {
	var said []string
	if job.RetryDelay == 0 {
		job.RetryDelay = time.Millisecond
	}
	result := request.Task{Request: r, Job: job, Run: run, Say: func(text string) { said = append(said, text) }}.Do(ctx)
	return result, said
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// What a request says of its run, and what the file says of the request.
func TestDo_Sends(t *testing.T) {
	dir := t.TempDir()
	token, body := file(t, dir, "token", "Bearer s3cr3t-t0ken\n", 0o644), file(t, dir, "body", "from a file\n", 0o600)
	s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	r, _ := do(t.Context(), request.Request{
		URL: s.URL + "/tasks?x=1", BodyFile: body,
		Headers: []request.Header{{Name: "content-type", Value: "text/plain"}, {Name: "Authorization", File: token}, {Name: "Host", Value: "inside.example.com"}},
	}, cronce.Job{})
	if r.Outcome != cronce.Succeeded || r.Message != "HTTP 204 No Content" || s.count() != 1 {
		t.Fatalf("%+v, %d requests", r, s.count())
	}
	got := s.got[0]
	if got.Method != "POST" || got.URL.String() != "/tasks?x=1" || got.Host != "inside.example.com" || s.body[0] != "from a file\n" || got.Proto != "HTTP/1.1" {
		t.Errorf("%s %s of %s over %s with %q", got.Method, got.URL, got.Host, got.Proto, s.body[0])
	}
	for name, want := range map[string]string{
		"Idempotency-Key": request.Key(run), "Cronce-Job": "nightly%20mail", "Cronce-Tick": "2026-11-30T02:30:00Z", "Cronce-Run-Id": "0192-run",
		"Cronce-Attempt": "1", "Cronce-Fence": "42", "Content-Type": "text/plain", "Authorization": "Bearer s3cr3t-t0ken", "Content-Length": "12",
	} {
		if all := got.Header[name]; len(all) != 1 || all[0] != want {
			t.Errorf("%s: %q, want %q", name, all, want)
		}
	}
	if !strings.HasPrefix(got.Header.Get("User-Agent"), "cronce/") {
		t.Errorf("User-Agent %q", got.Header.Get("User-Agent"))
	}
}

// Which answers are a success, which are tried again, and which are not.
func TestDo_Statuses(t *testing.T) {
	for _, c := range []struct {
		success  string
		answers  []int
		outcome  cronce.Outcome
		requests int
		message  string
	}{
		{"", []int{200}, cronce.Succeeded, 1, "HTTP 200 OK"},
		{"", []int{503, 500, 201}, cronce.Succeeded, 3, "HTTP 201 Created"},
		{"", []int{500, 500, 502}, cronce.Failed, 3, "HTTP 502 Bad Gateway"},
		{"", []int{404}, cronce.Failed, 1, "HTTP 404 Not Found"},
		{"", []int{429, 200}, cronce.Succeeded, 2, "HTTP 200 OK"},
		{"", []int{302}, cronce.Failed, 1, "HTTP 302 Found: redirects are not followed"},
		{"", []int{304}, cronce.Failed, 1, "HTTP 304 Not Modified"},
		{"304 4xx", []int{304}, cronce.Succeeded, 1, "HTTP 304 Not Modified"},
		{"304 4xx", []int{418}, cronce.Succeeded, 1, "HTTP 418 I'm a teapot"},
		{"304 4xx", []int{200}, cronce.Failed, 1, "HTTP 200 OK"},
	} {
		s := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.answers[min(n, len(c.answers))-1])
		})
		r := request.Request{URL: s.URL}
		for text := range strings.FieldsSeq(c.success) {
			statuses, err := request.ParseStatuses(text)
			if err != nil {
				t.Fatal(err)
			}
			r.Success = append(r.Success, statuses)
		}
		got, said := do(t.Context(), r, cronce.Job{Retries: 2})
		if got.Outcome != c.outcome || got.Message != c.message || s.count() != c.requests || len(said) != c.requests-1 {
			t.Errorf("%v: %+v after %d requests, said %q", c.answers, got, s.count(), said)
		}
		for i, q := range s.got {
			if q.Header.Get("Idempotency-Key") != request.Key(run) || q.Header.Get("Cronce-Attempt") != fmt.Sprint(i+1) {
				t.Errorf("request %d: %v", i, q.Header)
			}
		}
	}
}

// An answer may put the next attempt off, but not beyond the job's timeout.
func TestDo_RetryAfter(t *testing.T) {
	s := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}
	})
	began := time.Now()
	r, said := do(t.Context(), request.Request{URL: s.URL}, cronce.Job{Retries: 1})
	if r.Outcome != cronce.Succeeded || r.Attempts != 2 || time.Since(began) < time.Second || len(said) != 1 || !strings.HasSuffix(said[0], "the next one is in 1s") {
		t.Errorf("%+v after %s, said %q", r, time.Since(began), said)
	}
	for _, after := range []string{"7200", "2147483648", "9223372037", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", time.Now().Add(5 * time.Hour).UTC().Format(http.TimeFormat)} {
		s := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(503)
		})
		for _, job := range []cronce.Job{{Retries: 1}, {Retries: 1, Timeout: time.Minute}} {
			r, _ := do(t.Context(), request.Request{URL: s.URL}, job)
			want := "it asks to wait for"
			if job.Timeout > 0 {
				want = "no time is left for another attempt within its timeout of 1m0s"
			}
			if r.Outcome != cronce.Failed || !strings.Contains(r.Message, want) || strings.Contains(r.Message, "000h") {
				t.Errorf("%s, %+v: %+v", after, job, r)
			}
		}
		if s.count() != 2 {
			t.Errorf("%s: %d requests", after, s.count())
		}
	}
}

// A request that may have been received is sent once, whatever its method and
// however many retries there are, unless the receiver is said to bear it.
func TestDo_NoAnswerIsNotSentAgain(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT"} {
		for _, idempotent := range []bool{false, true} {
			s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { hangUp(w) })
			r, _ := do(t.Context(), request.Request{URL: s.URL, Method: method, Idempotent: idempotent}, cronce.Job{Retries: 2})
			want, message := 1, "the request may have been received, so it is not sent again"
			if idempotent {
				want, message = 3, "the request may have been received"
			}
			if r.Outcome != cronce.Failed || s.count() != want || !strings.Contains(r.Message, message) {
				t.Errorf("%s, idempotent %v: %+v after %d requests", method, idempotent, r, s.count())
			}
		}
	}
	// Also not when the answer breaks off.
	s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("half of i"))
	})
	r, _ := do(t.Context(), request.Request{URL: s.URL}, cronce.Job{Retries: 2})
	if r.Outcome != cronce.Failed || s.count() != 1 || string(r.Output) != "half of i" || !strings.Contains(r.Message, "HTTP 200 OK, and then the answer was cut short, so it is not sent again") {
		t.Errorf("%+v with output %q after %d requests", r, r.Output, s.count())
	}
}

// One that was surely not received is.
func TestDo_NotConnectedIsTriedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	place := l.Addr().String()
	l.Close()
	r, said := do(t.Context(), request.Request{URL: "http://" + place + "/secret-path"}, cronce.Job{Retries: 2})
	if r.Outcome != cronce.Failed || r.Attempts != 3 || len(said) != 2 || !strings.HasPrefix(r.Message, "not sent: ") || !strings.Contains(r.Message, "connection refused") {
		t.Errorf("%+v, said %q", r, said)
	}
	if strings.Contains(r.Message+strings.Join(said, ""), "secret-path") {
		t.Errorf("the URL is shown: %+v, said %q", r, said)
	}
}

// A context that ends is for whoever ended it to name; it is no failure that
// could be tried again.
func TestDo_Ended(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan struct{})
	s := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		cancel(errors.New("enough"))
		<-r.Context().Done() // the client has hung up
		close(gone)
	})
	r, _ := do(ctx, request.Request{URL: s.URL, Idempotent: true}, cronce.Job{Retries: 2})
	if r.Outcome != "" || r.Message != "enough, without an answer: the request may have been received" || s.count() != 1 {
		t.Errorf("%+v after %d requests", r, s.count())
	}
	<-gone
	if r, _ := do(ctx, request.Request{URL: s.URL}, cronce.Job{Retries: 2}); r.Outcome != "" || s.count() != 1 {
		t.Errorf("after the end: %+v, %d requests", r, s.count())
	}
}

// A redirect leads nowhere, and least of all the headers.
func TestDo_RedirectsLeadNowhere(t *testing.T) {
	other := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
	s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", other.URL)
		w.WriteHeader(307)
	})
	r, _ := do(t.Context(), request.Request{URL: s.URL}, cronce.Job{Retries: 2})
	if r.Outcome != cronce.Failed || s.count() != 1 || other.count() != 0 {
		t.Errorf("%+v, %d and %d requests", r, s.count(), other.count())
	}
}

// The end of an answer is kept, and secrets in it are not, wherever they stand.
func TestDo_OutputWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	const secret = "Bearer s3cr3t-t0ken"
	token := file(t, dir, "token", secret+"\n", 0o600)
	for _, answer := range []string{
		"you sent " + secret, "the token is s3cr3t-t0ken!", strings.Repeat(secret, 20_000),
		strings.Repeat("x", 100) + secret + strings.Repeat("y", request.TailBytes-5), strings.Repeat("z", 1<<20) + secret,
	} {
		s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) })
		var shown []byte
		r := request.Task{Run: run, Output: func(b []byte) { shown = b }, Request: request.Request{
			URL: s.URL, Headers: []request.Header{{Name: "Authorization", File: token}}}}.Do(t.Context())
		whole := strings.NewReplacer(secret, "[secret]", "s3cr3t-t0ken", "[secret]").Replace(answer)
		if !strings.HasSuffix(whole, string(r.Output)) || len(r.Output) != min(len(whole), request.TailBytes) {
			t.Errorf("%.40s…: kept are %d bytes, and they are not its end", answer, len(r.Output))
		}
		if r.OutputBytes != int64(len(whole)) || len(r.Output) > request.TailBytes || !bytes.Equal(shown, r.Output) {
			t.Errorf("%.40s…: %d of %d bytes are kept, %d shown", answer, len(r.Output), r.OutputBytes, len(shown))
		}
		for _, part := range []string{"s3cr3t", "t0ken"} {
			if bytes.Contains(r.Output, []byte(part)) {
				t.Errorf("%.40s…: %q is in what is kept: %.100s", answer, part, r.Output)
			}
		}
		if len(answer) > request.TailBytes*2 && len(r.Output) < request.TailBytes/2 {
			t.Errorf("%.40s…: only %d bytes are kept", answer, len(r.Output))
		}
	}
}

// A secret is found where an answer comes in pieces, and the answers of all
// attempts are kept, in order.
func TestDo_OutputOfAllAttempts(t *testing.T) {
	dir := t.TempDir()
	token := file(t, dir, "token", "s3cr3t-t0ken\n", 0o600)
	s := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(503)
		}
		for _, c := range fmt.Sprintf("answer %d to s3cr3t-t0ken", n) {
			fmt.Fprintf(w, "%c", c)
			w.(http.Flusher).Flush()
		}
	})
	r, _ := do(t.Context(), request.Request{URL: s.URL, Headers: []request.Header{{Name: "Authorization", File: token}}}, cronce.Job{Retries: 5})
	const want = "answer 1 to [secret]\ncronce: attempt 1 of 6 failed (HTTP 503 Service Unavailable)\n" +
		"answer 2 to [secret]\ncronce: attempt 2 of 6 failed (HTTP 503 Service Unavailable)\nanswer 3 to [secret]"
	if string(r.Output) != want || r.OutputBytes != int64(len(want)) || r.Attempts != 3 {
		t.Errorf("%d attempts, %d bytes:\n%s", r.Attempts, r.OutputBytes, r.Output)
	}
}

// Files are read for each run, and what is wrong with one is said without what
// is in it.
func TestDo_Files(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "no such file"},
		{dir, "is no file"},
		{file(t, dir, "writable", "geheim", 0o646), "may be changed by everyone (mode 0646): chmod o-w"},
		{file(t, dir, "empty", "\n", 0o600), "is empty"},
		{file(t, dir, "lines", "geheim\nX-More: 1", 0o600), "it has a line end"},
		{file(t, dir, "binary", "geheim\xff", 0o600), "it is not UTF-8"},
		{file(t, dir, "large", strings.Repeat("geheim", 20_000), 0o600), "has more than 65536 bytes"},
	} {
		r, _ := do(t.Context(), request.Request{URL: "http://127.0.0.1:1/", Headers: []request.Header{{Name: "A", File: c.path}}}, cronce.Job{})
		if r.Outcome != cronce.Failed || !strings.HasPrefix(r.Message, "not sent: header A: ") || !strings.Contains(r.Message, c.want) || strings.Contains(r.Message, "geheim") {
			t.Errorf("%s: %+v", c.path, r)
		}
	}
	s := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
	hook := file(t, dir, "hook", s.URL+"/geheim\n", 0o600)
	if r, _ := do(t.Context(), request.Request{URLFile: hook}, cronce.Job{}); r.Outcome != cronce.Succeeded || s.got[0].URL.Path != "/geheim" {
		t.Errorf("%+v", r)
	}
	hook = file(t, dir, "bad", "https://ann:geheim@example.com/", 0o600)
	if r, _ := do(t.Context(), request.Request{URLFile: hook}, cronce.Job{}); r.Outcome != cronce.Failed || !strings.Contains(r.Message, "a user or password") || strings.Contains(r.Message, "geheim") {
		t.Errorf("%+v", r)
	}
}

func file(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.WriteFile(path, []byte(text), mode)
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
