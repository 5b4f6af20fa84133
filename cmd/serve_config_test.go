package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// receiver is an HTTP server that keeps what it gets.
type receiver struct {
	*httptest.Server
	got chan *http.Request // each request, as it comes

	mu  sync.Mutex
	all []*http.Request
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	s := &receiver{got: make(chan *http.Request, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.all = append(s.all, r)
		n := len(s.all)
		s.mu.Unlock()
		s.got <- r
		answer(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *receiver) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// startConfig starts a serve of a YAML file.
func startConfig(t *testing.T, store, file string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "cronce"), append([]string{"serve", "--store", store, "--config", file}, args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	return startServer(t, cmd)
}

// Two serves with one store and one YAML file: each tick is one request, by the
// word of who received them.
func TestServe_EachTickIsOneRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	s := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "thank you\n") })
	file := write(t, filepath.Join(dir, "jobs.yaml"), "jobs:\n  call:\n    schedule: '@every 1s'\n    timeout: 1m\n    http: {url: '"+s.URL+"/x'}\n")
	servers := []*server{startConfig(t, store, file), startConfig(t, store, file)}
	for range 5 {
		<-s.got
	}
	said := slices.ContainsFunc(servers, func(s *server) bool { return s.says("call", "| thank you") })
	for _, s := range servers {
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("serve stopped with exit %d", code)
		}
		said = said || s.says("call", "| thank you")
	}
	if !said {
		t.Error("no serve shows the answer")
	}
	keys := map[string]*http.Request{}
	for _, r := range s.requests() {
		key := r.Header.Get("Idempotency-Key")
		if keys[key] != nil {
			t.Errorf("two requests for one tick: %v and %v", keys[key].Header, r.Header)
		}
		keys[key] = r
	}
	byID := map[string]cronce.Run{}
	for _, r := range runsOf(t, store) {
		if r.Skip != "" {
			continue
		}
		byID[r.ID] = r
		if r.Outcome != cronce.Succeeded || r.Message != "HTTP 200 OK" {
			t.Errorf("on record: %+v", r)
		}
	}
	if len(byID) != len(keys) {
		t.Errorf("%d runs on record, %d requests", len(byID), len(keys))
	}
	for _, r := range keys {
		run := byID[r.Header.Get("Cronce-Run-Id")]
		if cronce.Stamp(run.Tick) != r.Header.Get("Cronce-Tick") || fmt.Sprint(run.Fence) != r.Header.Get("Cronce-Fence") {
			t.Errorf("on record: %+v, sent: %v", run, r.Header)
		}
		out, err := exec.Command(filepath.Join(bin, "cronce"), "runs", "--id", run.ID, "--store", store).CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "\nthank you\n") {
			t.Errorf("%v\n%s", err, out)
		}
		return // one is enough
	}
}

// Attempts of a tick have one Idempotency-Key, and are one run on record.
func TestServe_RetriesOfARequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	s := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(503)
		}
	})
	file := write(t, filepath.Join(dir, "jobs.yaml"), "jobs:\n  call:\n    schedule: '@every 1s'\n    retries: 5\n    retry-delay: 1ms\n    http: {url: '"+s.URL+"'}\n")
	serve := startConfig(t, store, file)
	serve.await(t, 0, "call", "succeeded", "HTTP 200 OK")
	serve.await(t, 0, "call", "attempt 2 of 6 failed (HTTP 503 Service Unavailable): the next one is in 1ms")
	if code := serve.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	all := s.requests()
	for i, r := range all[:3] {
		if r.Header.Get("Idempotency-Key") != all[0].Header.Get("Idempotency-Key") || r.Header.Get("Cronce-Attempt") != fmt.Sprint(i+1) ||
			r.Header.Get("Cronce-Run-Id") != all[0].Header.Get("Cronce-Run-Id") {
			t.Errorf("request %d: %v", i+1, r.Header)
		}
	}
	for _, r := range runsOf(t, store) {
		if r.ID == all[0].Header.Get("Cronce-Run-Id") && r.Attempts != 3 {
			t.Errorf("on record: %+v", r)
		}
	}
}

// A serve that is killed in the middle of a request leaves a run that is lost;
// another serve sends no second request for that tick, and the next tick runs.
func TestServe_KilledInARequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	s := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
		}
	})
	file := write(t, filepath.Join(dir, "jobs.yaml"), "jobs:\n  call:\n    schedule: '@every 2s'\n    retries: 3\n    http: {url: '"+s.URL+"', idempotent: true}\n")
	serve := startConfig(t, store, file)
	first := <-s.got
	serve.cmd.Process.Kill()
	<-serve.gone
	next := startConfig(t, store, file)
	for range 2 {
		<-s.got
	}
	if code := next.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, r := range s.requests()[1:] {
		if r.Header.Get("Cronce-Tick") == first.Header.Get("Cronce-Tick") {
			t.Errorf("a second request for tick %s", r.Header.Get("Cronce-Tick"))
		}
	}
	lost := 0
	for _, r := range runsOf(t, store) {
		if r.Outcome == cronce.Lost {
			lost++
			if r.ID != first.Header.Get("Cronce-Run-Id") {
				t.Errorf("on record as lost: %+v", r)
			}
		}
	}
	if lost != 1 {
		t.Errorf("%d runs are lost", lost)
	}
}

// What is secret stays in its file: it is sent, and is in no record, log, process
// list or file of the store, not even when the receiver shows it.
func TestServe_SecretsStayInTheirFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	const secret = "s3cr3t-t0ken-of-this-test"
	s := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprintf(w, "you sent %q to %q\n", r.Header.Get("Authorization"), r.URL)
	})
	write(t, filepath.Join(dir, "token"), "Bearer "+secret+"\n")
	write(t, filepath.Join(dir, "url"), s.URL+"/"+secret)
	file := write(t, filepath.Join(dir, "jobs.yaml"), "jobs:\n  call:\n    schedule: '@every 1s'\n    http: {url-from-file: url, headers-from-files: {Authorization: token}}\n")
	serve := startConfig(t, store, file)
	r := <-s.got
	serve.await(t, 0, "call", "failed", "HTTP 400 Bad Request")
	if r.Header.Get("Authorization") != "Bearer "+secret || r.URL.Path != "/"+secret {
		t.Errorf("sent: %s %v", r.URL, r.Header)
	}
	for _, name := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", serve.cmd.Process.Pid, name))
		if err != nil || strings.Contains(string(b), secret) {
			t.Errorf("%s: %v, %q", name, err, b)
		}
	}
	if code := serve.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if serve.says(secret) || !serve.says("you sent", "[secret]") {
		t.Error("serve shows the secret, or not the answer")
	}
	for _, args := range [][]string{{"runs", "--json"}, {"runs", "--id", r.Header.Get("Cronce-Run-Id")}, {"status", "--json"}, {"job", "show", "call", "--json"}} {
		out, err := exec.Command(filepath.Join(bin, "cronce"), append(args, "--store", store)...).CombinedOutput()
		if err != nil || strings.Contains(string(out), secret) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	err := filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, e := os.ReadFile(path)
			if err = e; strings.Contains(string(b), secret) {
				t.Errorf("%s has the secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A request ends with its timeout, with a request to stop, and with the second
// TERM; it is not sent again.
func TestServe_RequestsEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	s := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	file := write(t, filepath.Join(dir, "jobs.yaml"), fmt.Sprintf(`
defaults: {retries: 3, retry-delay: 1ms, grace: 1s}
jobs:
  short: {schedule: '@every 2s', timeout: 500ms, http: {url: '%[1]s/short'}}
  asked: {schedule: '@every 1h', catchup-window: 2h, http: {url: '%[1]s/asked'}}
`, s.URL))
	serve := startConfig(t, store, file)
	at := serve.await(t, 0, "short", "timed_out", "longer than the job's timeout")
	// By hand, as no tick of it is due.
	by := exec.Command(filepath.Join(bin, "cronce"), "trigger", "asked", "--config", file, "--store", store)
	if err := by.Start(); err != nil {
		t.Fatal(err)
	}
	for r := range s.got { // closed by nobody: the request comes, or the test times out
		if r.URL.Path == "/asked" {
			if key := r.Header.Get("Idempotency-Key"); key != r.Header.Get("Cronce-Run-Id") || r.Header["Cronce-Tick"] != nil {
				t.Errorf("by hand: %v", r.Header)
			}
			break
		}
	}
	out, err := exec.Command(filepath.Join(bin, "cronce"), "release", "asked", "--why", "enough", "--store", store).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "cancelled") {
		t.Errorf("%v\n%s", err, out)
	}
	by.Wait()
	if code := by.ProcessState.ExitCode(); code != 1 {
		t.Errorf("trigger: exit %d", code)
	}
	// The lease of a run that is taken away, with serve as its holder: serve goes on.
	write(t, file, "jobs: {long: {schedule: '@every 1s', http: {url: '"+s.URL+"/long'}}}\n")
	at = serve.await(t, serve.await(t, at, "loaded", "1 job"), "long", "started")
	out, err = exec.Command(filepath.Join(bin, "cronce"), "release", "long", "--force", "--store", store).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	at = serve.await(t, at, "long", "cancelled", "revoked")
	serve.await(t, at, "long", "started")
	serve.cmd.Process.Signal(syscall.SIGTERM)
	serve.await(t, at, "no more runs are started")
	<-time.After(time.Second / 2) // else it is the same request
	if code := serve.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	serve.await(t, at, "long", "cancelled", "serve got terminated twice")
	sent := map[string]int{}
	for _, r := range s.requests() {
		sent[r.Header.Get("Idempotency-Key")]++
		if sent[r.Header.Get("Idempotency-Key")] > 1 {
			t.Errorf("sent twice: %v", r.Header)
		}
	}
}

// Commands of a YAML file run as they are written, and a crontab beside it is
// served too. A file that changes is loaded anew; a bad job leaves the others,
// and what is no YAML leaves all that was served.
func TestServe_ConfigReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crontab := write(t, filepath.Join(dir, "crontab"), "# cronce: name=cron\n@every 1s  echo from a crontab\n")
	file := write(t, filepath.Join(dir, "jobs.yaml"), `
jobs:
  shell:
    schedule: "@every 1s"
    command: |
      test -n "$CRONCE_TICK" &&
        echo "100% of $WHAT, $CRONCE_JOB"
    env: {WHAT: it}
  list:
    schedule: "@every 1s"
    command: [printf, '<%s>', a b, $HOME, '*']
  none: {schedule: '@every 1s', command: [no-such-program-here]}
`)
	s := startConfig(t, filepath.Join(dir, "store"), file, "--crontab", crontab)
	s.await(t, 0, "serves 4 jobs of "+file+", "+crontab)
	s.await(t, 0, "shell", "| 100% of it, shell")
	s.await(t, 0, "list", "| <a b><$HOME><*>")
	s.await(t, 0, "cron", "| from a crontab")
	s.await(t, 0, "none", "failed", "cannot start no-such-program-here")

	write(t, file, "jobs:\n  shell: {schedule: '@every 1s', command: echo second}\n  bad: {schedule: '99 * * * *', command: x}\n")
	at := s.await(t, 0, "PROBLEM", "jobs.yaml:3:20: job \"bad\": minute field: 99 is not in 0-59")
	at = s.await(t, at, "loaded", "2 jobs")
	at = s.await(t, at, "shell", "| second")
	write(t, file, "jobs:\n  shell: {schedule: * * * * *, command: echo third}\n")
	at = s.await(t, at, "NOT LOADED", "jobs.yaml:2:", "this is no YAML", "is quoted", "what was served goes on")
	at = s.await(t, at, "shell", "| second")
	write(t, file, "jobs:\n  shell: {schedule: '@every 1s', command: echo fourth}\n")
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.await(t, at, "shell", "| fourth")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}
