package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// outside is an outside API: it keeps what it got, and answers each row in its own way.
type outside struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string][]string // bodies by Idempotency-Key
}

func newOutside(t *testing.T, answer func(key string, w http.ResponseWriter, r *http.Request)) *outside {
	s := &outside{got: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		s.got[key] = append(s.got[key], string(body))
		s.mu.Unlock()
		answer(key, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests are the bodies of what came with that key.
func (s *outside) requests(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got[key])
}

// Each row is one request with its key; what came of it is as the answer says, and Retry-After is heeded.
func TestDrain_Post(t *testing.T) {
	engines(t, 9, func(t *testing.T, w *drained) {
		statuses := map[string]int{"2": 204, "3": 500, "4": 429, "5": 408, "6": 404, "7": 504, "9": 302}
		s := newOutside(t, func(key string, w http.ResponseWriter, r *http.Request) {
			id := strings.TrimPrefix(key, "notifications/")
			if id == "4" {
				w.Header().Set("Retry-After", "1800")
			}
			if id == "8" { // no answer
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					conn.Close()
				}
				return
			}
			if status := statuses[id]; status != 0 {
				w.WriteHeader(status)
				io.WriteString(w, "no good")
			}
		})
		secret := write(t, w.dir+"/token", "Bearer s3cr3t")
		out := w.exits(76, "2 rows in doubt", "--workers", "4", "--post", s.URL+"/notify", "--header", "X-From: night", "--header-file", "Authorization="+secret)
		w.has("failed 2, pending 3, sent 2, unknown 2")
		if strings.Contains(out, "s3cr3t") {
			t.Errorf("a secret is shown:\n%s", out)
		}
		for i := 1; i <= 9; i++ {
			want := fmt.Sprintf(`{"id":%d,"recipient":"u%[1]d@example.com","note":null}`, i)
			if got := s.requests(fmt.Sprint("notifications/", i)); len(got) != 1 || got[0] != want {
				t.Errorf("row %d: requests %q, want one of %q", i, got, want)
			}
		}
		for id, why := range map[int]string{3: "HTTP 500 Internal Server Error: no good", 6: "HTTP 404 Not Found: no good", 8: "no answer: EOF: the request may have been received"} {
			if got := w.text(fmt.Sprintf("SELECT cronce_last_error FROM notifications WHERE id = %d", id)); !strings.Contains(got, why) {
				t.Errorf("row %d: %q, want %q", id, got, why)
			}
		}
		// Those of the others' backoff (10 s) are due long before the one that was asked to wait.
		if got := w.text("SELECT id FROM notifications WHERE status = 'pending' ORDER BY cronce_next_attempt_at DESC LIMIT 1"); got != "4" {
			t.Errorf("row %s is tried last, want 4", got)
		}
		w.ok("nothing would be done; nothing was changed", "--post", s.URL, "--dry-run")
	})
}

// What cannot be sent at all is tried again; a URL that is a secret is in no argument and no message.
func TestDrain_PostNobodyListens(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 1)
	s := newOutside(t, func(string, http.ResponseWriter, *http.Request) {})
	s.Close()
	file := write(t, w.dir+"/url", s.URL+"/s3cr3t")
	if out := w.exits(75, "nothing was sent: 1 row to be tried again later", "--post-file", file); strings.Contains(out, "s3cr3t") {
		t.Errorf("the URL is shown:\n%s", out)
	}
	w.has("pending 1")
}

// One process does the work of all rows, and answers each by its key, in any order.
func TestDrain_Lines(t *testing.T) {
	engines(t, 6, func(t *testing.T, w *drained) {
		sed := `s/.*"key":"\([^"]*\)".*"id":2,.*/{"key":"\1","result":"failed","error":"no such address"}/; t
			s/.*"key":"\([^"]*\)".*"id":3,.*/{"key":"\1","result":"retry","after":"30m"}/; t
			s/.*"key":"\([^"]*\)".*"id":4,.*/{"key":"\1","result":"unknown"}/; t
			s/.*"key":"\([^"]*\)".*/{"key":"\1","result":"sent"}/`
		out := w.exits(76, "1 row in doubt", "--lines", "--workers", "3", "--", "sh", "-c", `echo started >>"$LOG"; echo "just a word"; exec sed -u "$0"`, sed)
		w.has("failed 1, pending 1, sent 3, unknown 1")
		if n := w.sends()["started"]; n != 1 {
			t.Errorf("the process was started %d times", n)
		}
		if !strings.Contains(out, "just a word\n") || !strings.Contains(out, "no such address") {
			t.Errorf("it says:\n%s", out)
		}
	})
}

// What else the process prints, of whatever length, is passed on; an answer that is none is doubt, as no answer is, with the reason.
func TestDrain_LinesOdd(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 3)
	out := w.exits(76, "2 rows in doubt", "--lines", "--timeout", "3s", "--", "sh", "-c", `while read -r row; do case $row in
		*'"id":1,'*) head -c 3000000 /dev/zero | tr '\0' x; echo; echo '{"key":"notifications/1","result":"sent"}' ;;
		*'"id":2,'*) echo '{"key":"notifications/2","result":1}' ;;
	esac; done; sleep 600`)
	w.has("sent 1, unknown 2")
	for _, says := range []string{strings.Repeat("x", 3000000) + "\n", `it answers "", which is none of sent`, "the process ended badly: ended, as it did not answer for notifications/3"} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %.80q:\n%s", says, strings.ReplaceAll(out, "xxxxxxxx", ""))
		}
	}
}

// When the process ends, rows that it did not answer are in doubt, and another one does the rest; one that never answers
// stops the drain.
func TestDrain_LinesEnd(t *testing.T) {
	t.Parallel()
	w := newDrained(t, "sqlite", 9)
	code, out := w.end("--lines", "--workers", "1", "--", "sh", "-c", `echo started >>"$LOG"; sed -u -e 's/.*"key":"\([^"]*\)".*/{"key":"\1","result":"sent"}/' -e 2q; read -r third`)
	if w.states() != "sent 6, unknown 3" || code != 76 || w.sends()["started"] < 3 {
		t.Errorf("exit %d, started %d times, states %s:\n%s", code, w.sends()["started"], w.states(), out)
	}
	w.run("UPDATE notifications SET status = 'pending'")
	code, out = w.end("--lines", "--", "sh", "-c", "read -r row")
	if code != 76 || !strings.Contains(out, "the process ended 3 times without an answer (exit 0)") || !strings.Contains(out, "nobody knows whether 3 rows in doubt went out") || w.states() != "pending 6, unknown 3" {
		t.Errorf("exit %d, states %s:\n%s", code, w.states(), out)
	}
	w.run("UPDATE notifications SET status = 'pending', cronce_next_attempt_at = NULL")
	if code, out = w.end("--lines", "--timeout", "1s", "--", "sleep", "600"); code == 0 {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if left := w.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
