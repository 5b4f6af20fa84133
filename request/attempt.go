package request

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cronce/cronce"
)

// Task is a request to be sent for a run.
type Task struct {
	Request Request
	Job     cronce.Job // its policies
	Run     cronce.Run
	// Key is the Idempotency-Key; empty: that of the run, see [Key].
	Key string
	// Say is told, for people, why another attempt is made.
	Say func(text string)
	// Output gets the end of each answer.
	Output func(text []byte)
}

// Do sends the request until it succeeds, has failed often enough, or must not
// be sent again. An empty Outcome means that ctx has ended.
func (t Task) Do(ctx context.Context) cronce.Result {
	delay := t.Job.RetryDelay
	if delay == 0 {
		delay = cronce.DefaultRetryDelay
	}
	began := time.Now()
	var all tail // of all attempts
	for n := 1; ; n++ {
		a := t.attempt(ctx, n)
		r := a.Result
		all.keep(r.Output)
		all.total += r.OutputBytes - int64(len(r.Output))
		r.Output, r.OutputBytes = bytes.Clone(all.bytes()), all.total
		if n > 1 {
			r.Attempts = n
		}
		if r.Outcome != cronce.Failed || !a.again || n > t.Job.Retries {
			return r
		}
		wait := max(delay, a.after)
		switch {
		case t.Job.Timeout > 0 && time.Since(began)+wait >= t.Job.Timeout:
			r.Message += fmt.Sprintf("; no time is left for another attempt within its timeout of %s", t.Job.Timeout)
			return r
		case a.after >= year:
			r.Message += fmt.Sprintf("; it asks to wait for a year or more, longer than %s", maxRetryAfter)
			return r
		case a.after > maxRetryAfter:
			r.Message += fmt.Sprintf("; it asks to wait for %s, longer than %s", a.after, maxRetryAfter)
			return r
		}
		failed := fmt.Sprintf("attempt %d of %d failed (%s)", n, t.Job.Retries+1, r.Message)
		t.Say(fmt.Sprintf("%s: the next one is in %s", failed, wait))
		all.keepLine("cronce: " + failed)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			r.Outcome, r.Message = "", context.Cause(ctx).Error()
			return r
		}
	}
}

// maxRetryAfter bounds how long an answer can put a job off.
const maxRetryAfter = time.Hour

// attempted is how one attempt went.
type attempted struct {
	cronce.Result
	again  bool          // it may be made again
	after  time.Duration // at the earliest so much later, as the answer asks
	status int           // of the whole answer; 0: there was none
	doubt  bool          // the request may have been received, and no whole answer tells what came of it
}

// transport sends each request over a connection of its own, in HTTP/1.1: over
// one that was used before, or in HTTP/2, the client may send a request anew by
// itself. It follows no redirect, so that headers go nowhere else. Its
// connection ends with ctx, also under a read that the client left to us.
func transport(ctx context.Context) *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(dialing context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(dialing, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		},
		TLSHandshakeTimeout:    10 * time.Second,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// attempt sends the request once.
func (t Task) attempt(ctx context.Context, n int) attempted {
	failed := func(format string, args ...any) cronce.Result {
		return cronce.Result{Outcome: cronce.Failed, ExitCode: 1, Message: fmt.Sprintf(format, args...)}
	}
	key := t.Key
	if key == "" {
		key = Key(t.Run)
	}
	req, secrets, err := t.Request.build(t.Run, key, n)
	if err != nil {
		return attempted{Result: failed("not sent: %v", err), again: true} // a file may be there later
	}
	var connected atomic.Bool
	using, done := context.WithCancel(ctx)
	defer done()
	req = req.WithContext(httptrace.WithClientTrace(using, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	resp, err := transport(using).RoundTrip(req)
	if err != nil {
		return t.noAnswer(ctx, err, connected.Load(), secrets)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body has no end
		return attempted{Result: failed("HTTP %s: no other protocol was asked for", statusText(resp.StatusCode)), status: resp.StatusCode}
	}
	keep := newTail(secrets)
	_, err = keep.ReadFrom(resp.Body)
	a := attempted{Result: cronce.Result{Message: "HTTP " + statusText(resp.StatusCode)}, status: resp.StatusCode}
	a.Output, a.OutputBytes = keep.bytes(), keep.total
	if t.Output != nil && len(a.Output) > 0 {
		t.Output(a.Output)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		a.doubt = true
		a.Message = context.Cause(ctx).Error() + ", in the middle of the answer " + a.Message
	case err != nil:
		a.doubt = true
		a.Outcome, a.ExitCode = cronce.Failed, 1
		a.Message += ", and then the answer was cut short"
		a.again = t.Request.Idempotent
		a.Message += t.noRetry(a.again)
	case t.Request.succeeds(resp.StatusCode):
		a.Outcome = cronce.Succeeded
	default:
		a.Outcome, a.ExitCode = cronce.Failed, 1
		a.again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
		a.after = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		switch resp.StatusCode {
		case 301, 302, 303, 307, 308:
			a.Message += ": redirects are not followed"
		}
	}
	return a
}

// noAnswer is an attempt that failed before there was an answer.
func (t Task) noAnswer(ctx context.Context, err error, connected bool, secrets []string) attempted {
	a := attempted{Result: cronce.Result{Outcome: cronce.Failed, ExitCode: 1}, again: !connected || t.Request.Idempotent, doubt: connected}
	switch {
	case ctx.Err() != nil && connected:
		a.Outcome = ""
		a.Message = context.Cause(ctx).Error() + ", without an answer: the request may have been received"
	case ctx.Err() != nil:
		a.Outcome = ""
		a.Message = context.Cause(ctx).Error() + ", before it was connected"
	case connected:
		a.Message = "no answer: " + unread(err, secrets) + ": the request may have been received" + t.noRetry(a.again)
	default:
		a.Message = "not sent: " + plain(err, secrets)
	}
	return a
}

// noRetry says why there is no other attempt, where the job has some.
func (t Task) noRetry(again bool) string {
	if again || t.Job.Retries == 0 {
		return ""
	}
	return ", so it is not sent again (idempotent: true would)"
}

// plain is an error's text, on one line and without secrets.
func plain(err error, secrets []string) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		err = dns
	}
	return strings.Join(strings.Fields(redact(err.Error(), secrets)), " ")
}

// unread is plain for what was sent in place of an answer, which errors quote:
// that is no part of the text, as it may show what it answers.
func unread(err error, secrets []string) string {
	text, _, _ := strings.Cut(plain(err, secrets), `"`)
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) { // "malformed MIME header line: …", without quotes
		text, _, _ = strings.Cut(string(protocol), ":")
	}
	return strings.TrimSpace(text)
}

func statusText(code int) string {
	text := strconv.Itoa(code)
	if name := http.StatusText(code); name != "" {
		text += " " + name
	}
	return text
}

// year is the longest wait that is told from longer ones.
const year = 365 * 24 * time.Hour

// retryAfter reads the header of that name: seconds, or a time. It is a year at
// the most, and 0 for what is neither.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	n, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err == nil && n < uint64(year/time.Second):
		return time.Duration(n) * time.Second
	case err == nil || errors.Is(err, strconv.ErrRange):
		return year
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)).Round(time.Second), year)
	}
	return 0
}
