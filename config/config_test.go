package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/config"
	"github.com/cronce/cronce/request"
)

func TestMain(m *testing.M) {
	os.Setenv("TZ", "UTC")
	os.Exit(m.Run())
}

// What a file says is what its jobs are: settings, defaults, commands, requests.
func TestParse(t *testing.T) {
	f, err := config.Parse(strings.NewReader(`# jobs
store: here
x-notify: &notify
  url: https://example.com/notify
  headers-from-files: {Authorization: secrets/token}
defaults:
  zone: Europe/Paris
  retries: 2
  grace: 3s
  env: {LEVEL: 0755, MODE: slow}
jobs:
  report:
    schedule: "0 * * * *"
    overlap: wait=5m
    seconds: no
    command: |
      set -e
      report --all
    env: {MODE: fast, DEBUG: yes}
  "send mail":
    schedule: '@every 5m'
    command: [/usr/bin/mail, -n, 3, '']
    zone: UTC
    retries: 0
  call:
    schedule: 0 3 * * 1
    timeout: 90s
    http:
      <<: *notify
      method: PUT
      body: '{"a": 1}'
      success: [2xx, 304]
      headers: {Content-Type: application/json}
      idempotent: true
`), "/etc/cronce/jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Errors {
		t.Error(e)
	}
	want := []*config.Job{
		{Line: 12, Job: cronce.Job{Name: "report", Schedule: "0 * * * *", Zone: "Europe/Paris", Retries: 2, Grace: 3 * time.Second,
			Seconds: -1, Overlap: cronce.Overlap{Policy: cronce.OverlapWait, Wait: 5 * time.Minute}},
			Command: []string{"/bin/sh", "-c", "set -e\nreport --all\n"}, Env: []string{"LEVEL=0755", "MODE=fast", "DEBUG=yes"}},
		{Line: 20, Job: cronce.Job{Name: "send mail", Schedule: "@every 5m", Zone: "UTC", Grace: 3 * time.Second},
			Command: []string{"/usr/bin/mail", "-n", "3", ""}, Env: []string{"LEVEL=0755", "MODE=slow"}},
		{Line: 25, Job: cronce.Job{Name: "call", Schedule: "0 3 * * 1", Zone: "Europe/Paris", Retries: 2, Timeout: 90 * time.Second},
			HTTP: &request.Request{Method: "PUT", URL: "https://example.com/notify", Body: `{"a": 1}`, Idempotent: true,
				Success: []request.Statuses{{First: 200, Last: 299}, {First: 304, Last: 304}},
				Headers: []request.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Authorization", File: "/etc/cronce/secrets/token"}}}},
	}
	if len(f.Jobs) != len(want) || f.Store != "/etc/cronce/here" {
		t.Fatalf("%d jobs in store %q", len(f.Jobs), f.Store)
	}
	for i, j := range f.Jobs {
		want[i].Seconds = j.Seconds // its names are package schedule's
		if !reflect.DeepEqual(j, want[i]) {
			t.Errorf("job %d\n got %+v %+v\nwant %+v %+v", i, j, j.HTTP, want[i], want[i].HTTP)
		}
	}
}

// good is put around what a case of TestParse_Mistakes is about: these jobs
// stand whatever is wrong with the others.
const good = "jobs:\n  good: {schedule: '0 3 * * *', command: 'true'}\n"

// Each mistake is named with its place, and takes nothing with it but its job.
func TestParse_Mistakes(t *testing.T) {
	for _, c := range []struct {
		text string // below good
		want string // "line:column: …", more of them on lines of their own
	}{
		{"  a: {schedule: '61 * * * *', command: x}", "3:18: job \"a\": minute field: 61 is not in 0-59"},
		{"  a:\n    schedule: 0 0 30 2 *\n    command: x", "4:19: job \"a\": 30 2 * can never fire"},
		{"  a:\n    schedule: \"@reboot\"\n    command: x", "4:16: job \"a\": @reboot is for crontabs"},
		{"  a:\n    command: x", "3:3: job \"a\" has no schedule"},
		{"  a:\n    schedule: '@daily'", "3:3: job \"a\" does nothing: 'command:' or 'http:' is expected"},
		{"  a: {schedule: '@daily', command: x, http: {url: 'http://h/'}}", "3:39: job \"a\" has a command and http"},
		{"  a: {schedule: '@daily', command: x, timeout: 90}", "3:48: timeout: 90 has no unit: write 90s for seconds, 90m for minutes"},
		{"  a: {schedule: '@daily', command: x, timeout: 90 s}", "3:48: timeout: \"90 s\" is not a duration, as 90s, 5m or 1h30m"},
		{"  a: {schedule: '@daily', command: x, timeout: -1s}", "3:48: timeout: \"-1s\": a duration above zero is needed"},
		{"  a: {schedule: '@daily', command: x, seconds: on}", "3:48: seconds: \"on\" is neither yes nor no"},
		{"  a: {schedule: '@daily', command: x, overlap: forbid}", "3:48: overlap: \"forbid\" is none of skip"},
		{"  a: {schedule: '@daily', command: x, overlap: {wait: 5m}}", "3:48: overlap: a single value is expected, and this is a mapping"},
		{"  a: {schedule: '@daily', command: x, retries: many}", "3:48: retries: \"many\" is not a number from 0 to 1000"},
		{"  a: {schedule: '@daily', command: x, zone: Paris}", "3:45: zone: \"Paris\" is not a known time zone"},
		{"  a: {schedule: '@daily', command: x, retry_delay: 5s}", "3:39: job \"a\": unknown key \"retry_delay\": did you mean retry-delay?"},
		{"  a: {schedule: '@daily', command: x, concurrencyPolicy: Forbid}", "3:39: job \"a\": unknown key \"concurrencyPolicy\": did you mean overlap?"},
		{"  a: {schedule: '@daily', command: x, timezone: UTC}", "did you mean zone?"},
		{"  a: {schedule: '@daily', comand: x}", "3:27: job \"a\": unknown key \"comand\": did you mean command?"},
		{"  a: {schedule: '@daily', command: x, suspend: true}", "3:39: job \"a\": unknown key \"suspend\": 'cronce pause JOB'"},
		{"  a: {schedule: '@daily', command: x, fgqzx: true}", "3:39: job \"a\": unknown key \"fgqzx\": the keys are schedule, command, env, http, zone"},
		{"  a: {schedule: '@daily', command: x, name: b}", "3:39: job \"a\": a job's name is its key"},
		{"  a: {schedule: '@daily', command: x}\n  a: {schedule: '@hourly', command: y}", "4:3: a is there twice, on lines 3 and 4: neither is served"},
		{"  a: {schedule: '@daily', command: x}\n  b: {schedule: x, command: y}\n  a: {schedule: '@hourly', comand: y}\n  a: 5",
			"4:18: job \"b\": five fields expected\n5:3: a is there 3 times, on lines 3, 5 and 6: none of them is served"},
		{"  a:\n    schedule: '@daily'\n    command: x\n    schedule: '@hourly'", "6:5: schedule is there twice: it is on line 4 already"},
		{"  a:", "3:3: job \"a\": a mapping is expected"},
		{"  a: run it", "3:6: job \"a\": a mapping is expected, as schedule: and command: or http: below it, and this is a text"},
		{"  a:\n    schedule:\n    command: x", "4:5: schedule has no value"},
		{"  a: {schedule: '@daily', command: []}", "3:36: command: the program is missing"},
		{"  a: {schedule: '@daily', command: ''}", "3:37: command: it is empty"},
		{"  a: {schedule: '@daily', command: [a, [b]]}", "3:40: command: a single value is expected, and this is a list"},
		{"  a: {schedule: '@daily', command: \"a\\0b\"}", "3:37: command: it has a NUL character"},
		{"  a: {schedule: '@daily', command: x, env: [A=1]}", "3:44: env: a mapping is expected, as NAME: value, and this is a list"},
		{"  a: {schedule: '@daily', command: x, env: {A: }}", "3:45: A has no value"},
		{"  a: {schedule: '@daily', command: x, env: {'A=B': 1}}", "3:45: env: \"A=B\" is no name of a variable"},
		{"  a:\n    schedule: *daily\n    command: x", "4:15: there is no anchor &daily above; a text that begins with * is quoted: '*daily'"},
		{"  a: &a {schedule: '@daily', command: x, env: *a}", "there is no anchor &a above"},
		{"  a: {<<: 5, schedule: '@daily', command: x}", "3:11: << takes a mapping"},
		{"  a: {schedule: !cron '@daily', command: x}", "3:17: the tag !cron is not known here"},
		{"  ' a': {schedule: '@daily', command: x}", "3:3: job name \" a\" begins or ends with space"},
		{"  a: {schedule: '@daily', http: https://h/}", "3:33: job \"a\": http: a mapping is expected, as url: https://…"},
		{"  a: {schedule: '@daily', http: {method: GET}}", "job \"a\": http: 'url:' is expected"},
		{"  a: {schedule: '@daily', http: {url: example.com/x}}", "3:39: url: it must begin with https:// or http://"},
		{"  a: {schedule: '@daily', http: {url: 'http://'}}", "3:40: url: it names no host"},
		{"  a: {schedule: '@daily', http: {url: 'http://x:99999'}}", "3:40: url: its port is none from 1 to 65535"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', method: post}}", "3:60: method: \"post\" is no method: POST is meant?"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', success: [1xx]}}", "3:62: success: \"1xx\" is neither a status"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', success: []}}", "success: no status would be one"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', idempotent: yes}}", "3:64: idempotent: true or false is expected, not \"yes\""},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', headers: {X: 1, x: 2}}}", "headers: header x is there twice"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', headers: {Idempotency-Key: 1}}}", "3:62: headers: Idempotency-Key is set by cronce itself"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', headers: {cronce-fence: 1}}}", "headers: Cronce-Fence is set by cronce itself"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', headers: {'A B': 1}}}", "headers: \"A B\" is no name of a header"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', headers: {A: \"x\\ny\"}}}", "header A: it has a line end"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', body: x, body-file: y}}", "body and body-file contradict each other"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', url-from-file: y}}", "url and url-from-file contradict each other"},
		{"  a: {schedule: '@daily', http: {url: 'http://h/', header: {}}}", "job \"a\": http: unknown key \"header\": did you mean headers?"},
		{"  a: {schedule: '@daily', orphans: kill, http: {url: 'http://h/'}}", "3:27: job \"a\": orphans is for commands"},
		{"  a: {schedule: '@daily', command: x, on-lost: rerun}", "3:39: job \"a\": on-lost=rerun: it needs idempotent=yes"},
		{"  a: {schedule: '@daily', command: x, on-lost: rerun, idempotent: no}", "3:39: job \"a\": on-lost=rerun: it needs idempotent=yes"},
		{"  a: {schedule: '@daily', command: x, lease: 2m}", "3:46: lease: 5s to 1m are allowed"},
		{"  a: {schedule: x, command: y}\n  b: {schedule: '@daily', command: z, timeout: 5}",
			"3:18: job \"a\": five fields expected\n4:48: timeout: 5 has no unit"},
	} {
		f, err := config.Parse(strings.NewReader(good+c.text+"\n"), "f.yaml")
		if err != nil {
			t.Errorf("%s\nrefused: %v", c.text, err)
			continue
		}
		var got []string
		for _, e := range f.Errors {
			got = append(got, fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Msg))
		}
		want := strings.Split(c.want, "\n")
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || !strings.Contains(got[i], want[i]) {
				t.Errorf("%s\n got %q\nwant %q", c.text, got, want)
				break
			}
		}
		if len(f.Jobs) == 0 || f.Jobs[0].Name != "good" {
			t.Errorf("%s\nthe good job is lost: %+v", c.text, f.Jobs)
		}
		for _, j := range f.Jobs {
			if j.Name != "good" {
				t.Errorf("%s\njob %q is kept", c.text, j.Name)
			}
		}
	}
}

// A file that is no YAML, or whose common part is wrong, is refused whole: all
// of its jobs would be other than their owner means.
func TestParse_Refused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "f.yaml:1:1: the file: a mapping is expected"},
		{"# nothing\n", "f.yaml:1:1: the file: a mapping is expected"},
		{"just words\n", "f.yaml:1:1: the file: a mapping is expected"},
		{"store: /x\n", "f.yaml:1:1: there are no jobs: 'jobs:' is expected"},
		{"job: {}\n", "f.yaml:1:1: unknown key \"job\": did you mean jobs?"},
		{"jobs:\n- name: a\n", "f.yaml:2:1: jobs: each job stands under its name"},
		{"jobs: {}\nstore: ''\n", "f.yaml:2:9: store: a folder is expected"},
		{"jobs: {}\nstore: gopher://h\n", "f.yaml:2:8: store: gopher:// is the address of no store: a folder is expected, or one of file, redis, "},
		{"jobs: {}\nstore: {a: b}\n", "f.yaml:2:8: store: a single value is expected"},
		{"jobs: {}\ndefaults: {timeout: 5}\n", "f.yaml:2:21: timeout: 5 has no unit"},
		{"jobs: {}\ndefaults: {schedule: '@daily'}\n", "f.yaml:2:12: schedule is a job's own, and no default"},
		{"jobs: {}\ndefaults: {timeuot: 5s}\n", "f.yaml:2:12: defaults: unknown key \"timeuot\": did you mean timeout?"},
		{"jobs:\n  a:\n    schedule: * * * * *\n    command: x\n", "f.yaml:3:17: this is no YAML, and nothing of the file is read: .*; a schedule that begins with \\* is quoted: '\\*/5 \\* \\* \\* \\*'"},
		{"jobs:\n  a:\n    schedule: */5 * * * *\n    command: x\n", "f.yaml:3:19: this is no YAML.*a schedule that begins with \\* is quoted"},
		{"jobs:\n  a:\n    schedule: @daily\n    command: x\n", "f.yaml:3:15: this is no YAML.*a schedule that begins with @ is quoted"},
		{"jobs:\n\ta:\n", "f.yaml:2:1: this is no YAML.*indented with blanks, not with tabs"},
		{"jobs:\n  a:\n    command: echo a: b\n", "f.yaml:3:.*a value with a colon and a blank in it is quoted"},
		{"jobs:\n  a:\n    command: 'a' b\n", "f.yaml:3:.*a value that begins with a quote ends with it"},
		{"jobs: {}\n---\njobs: {}\n", "f.yaml:3:1: a second document"},
		{"jobs: {}\n\x00", "f.yaml:2:1: a NUL byte"},
		{"jobs: \xff\n", "f.yaml:1:7: this is not UTF-8"},
		{"jobs: " + strings.Repeat("[", 300), "f.yaml:1:207: this is nested too deeply"},
		{"jobs: " + strings.Repeat("- ", 3000), "f.yaml:1:1: there is too much on one line"},
		{strings.Repeat("# words\n", 200_000), "f.yaml:1:1: the file is larger than 1048576 bytes"},
	} {
		f, err := config.Parse(strings.NewReader(c.text), "f.yaml")
		if err == nil {
			t.Errorf("%.80q is read: %+v", c.text, f)
		} else if !matches(c.want, err.Error()) {
			t.Errorf("%.80q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// All that is wrong is said at once.
func TestParse_AllAtOnce(t *testing.T) {
	_, err := config.Parse(strings.NewReader("stroe: x\ndefaults: {retries: -1, nope: 2}\njobs: {}\n"), "f.yaml")
	for _, want := range []string{"f.yaml:1:1: ", "f.yaml:2:21: retries", "f.yaml:2:25: defaults: unknown key \"nope\""} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// The snippet shows the line and points at the place; never a secret.
func TestError_Snippet(t *testing.T) {
	f, err := config.Parse(strings.NewReader("jobs:\n  ü:\n    schedule: 'täglich'\n    command: x\n"), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := "    3 |     schedule: 'täglich'\n      |                       ^"
	if len(f.Errors) != 1 || f.Errors[0].Snippet != want {
		t.Errorf("got\n%s\nwant\n%s", f.Errors[0].Snippet, want)
	}
	for _, text := range []string{
		"url: 'https://ann:geheim@example.com/'", "url: 'https://geheim@example.com/'", "url: 'https://h/%zz-geheim'",
		"url: 'https://h/', headers: {Authorization: Bearer geheim}", "url: 'https://h/', headers: {cookie: id=geheim}",
	} {
		f, err := config.Parse(strings.NewReader("jobs:\n  a: {schedule: '@daily', http: {"+text+"}}\n"), "f.yaml")
		if err != nil || len(f.Errors) != 1 {
			t.Fatalf("%s: %v, %+v", text, err, f)
		}
		if e := f.Errors[0]; strings.Contains(fmt.Sprintf("%v %+v %v", e, *e, errors.Unwrap(e)), "geheim") {
			t.Errorf("%s: the error shows the secret: %v", text, e)
		}
	}
}

// Also not where the file is no YAML because of that line.
func TestError_SnippetOfNoYAML(t *testing.T) {
	for _, text := range []string{"url: https://ann:geheim@example.com/ : x", "Authorization: Bearer geheim-geheim: x", "authorization: basic geheim-geheim: x"} {
		_, err := config.Parse(strings.NewReader("jobs:\n  a:\n    "+text+"\n"), "f.yaml")
		if err == nil || strings.Contains(err.Error(), "geheim") || !strings.Contains(err.Error(), "f.yaml:3:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The example that is shipped is read without a complaint.
func TestParseFile_Examples(t *testing.T) {
	paths, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		f, err := config.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range f.Errors {
			t.Error(e)
		}
	}
}
