package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cronce/cronce/config"
)

func matches(pattern, text string) bool {
	return strings.Contains(text, pattern) || regexp.MustCompile(pattern).MatchString(text)
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("cronce.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("cronce.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// byTheSchema is what the schema says of a file.
func byTheSchema(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	b, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s\n%v", b, err)
	}
	return s.Validate(doc)
}

// The schema and the decoder say the same: what one takes the other takes, and
// what is wrong by its form is wrong for both. Only the meaning of a text (a
// schedule, a zone, a header) is the decoder's alone.
func TestSchema_AgreesWithDecoder(t *testing.T) {
	s := compile(t)
	good, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range good {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := byTheSchema(t, s, text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	job := func(more string) string { return "jobs: {a: {schedule: '@daily', " + more + "}}" }
	for _, c := range []struct {
		text string
		good bool
	}{
		{job("command: x"), true},
		{job("command: [a, 1, true]"), true},
		{job("command: true"), true},
		{"jobs: {}\nstore: 5", true},
		{job("http: {url-from-file: 1, body-file: 2, headers-from-files: {A: 3}}"), true},
		{job("command: x, overlap: wait=1h30m"), true},
		{job("command: x, overlap: replace"), true},
		{job("command: x, overlap: replace=.5s"), true},
		{job("command: x, seconds: yes"), true},
		{job("command: x, seconds: false"), true},
		{job("command: x, retries: 3"), true},
		{job("command: x, retries: '3'"), true},
		{job("command: x, orphans: leave, catchup: all, catchup-window: 24h, jitter: 1m, start-deadline: 5m, warn-at: 1m, retry-delay: 1ms, grace: 1s, timeout: 1h, zone: UTC"), true},
		{job("command: x, on-lost: rerun, idempotent: true, lease: 5s"), true},
		{job("command: x, on-lost: skip, idempotent: no"), true},
		{"defaults: {idempotent: yes}\n" + job("command: x, on-lost: rerun"), true},
		{job("command: x, env: {A: 1, B: true, C: c}"), true},
		{job("http: {url: 'https://h/'}"), true},
		{job("http: {url: 'HTTP://h/', method: GET, headers: {A: 1}, headers-from-files: {B: f}, body: '', success: 304, idempotent: true}"), true},
		{job("http: {url-from-file: f, body-file: g, success: [2xx, 404, '304']}"), true},
		{"defaults: {timeout: 1h, env: {A: b}}\nx-any: [1]\nstore: /x\njobs: {}", true},

		{"jobs: []", false}, {"{}", false}, {"[]", false}, {"jobs: {}\nother: 1", false},
		{"jobs: {}\nstore: ''", false}, {"jobs: {}\nstore: {}", false}, {"jobs: {}\ndefaults: {command: x}", false},
		{"jobs: {}\ndefaults: {name: x}", false}, {"jobs: {}\ndefaults: {timeout: 5}", false},
		{"jobs: {'': {schedule: '@daily', command: x}}", false}, {"jobs: {a: x}", false}, {"jobs: {a: }", false},
		{"jobs: {a: {command: x}}", false}, {"jobs: {a: {schedule: , command: x}}", false},
		{job("name: x"), false}, {job("command: "), false}, {job("command: ''"), false}, {job("command: []"), false}, {job("command: [[a]]"), false},
		{job("command: x, http: {url: 'https://h/'}"), false}, {job("command: x, name: b"), false}, {job("command: x, other: b"), false},
		{job("command: x, timeout: 90"), false}, {job("command: x, timeout: 90 s"), false}, {job("command: x, timeout: soon"), false}, {job("command: x, timeout: "), false},
		{job("command: x, overlap: wait"), false}, {job("command: x, overlap: skip=5m"), false}, {job("command: x, overlap: [skip]"), false}, {job("command: x, overlap: never"), false},
		{job("command: x, seconds: on"), false}, {job("command: x, seconds: 1"), false}, {job("command: x, retries: -1"), false}, {job("command: x, retries: 1001"), false}, {job("command: x, retries: 1.5"), false},
		{job("command: x, orphans: die"), false}, {job("command: x, on-lost: retry"), false}, {job("command: x, idempotent: 1"), false}, {job("command: x, lease: 5"), false}, {job("command: x, catchup: first"), false}, {job("command: x, zone: ''"), false},
		{job("command: x, env: [A]"), false}, {job("command: x, env: {A: [1]}"), false}, {job("command: x, env: {A: }"), false},
		{job("http: 'https://h/'"), false}, {job("http: {}"), false}, {job("http: {url: 'ftp://h/'}"), false}, {job("http: {url: 'https://'}"), false}, {job("http: {url: 'https://h/', url-from-file: f}"), false},
		{job("http: {url: 'https://h/', body: a, body-file: b}"), false}, {job("http: {url: 'https://h/', method: get}"), false}, {job("http: {url: 'https://h/', method: TRACE}"), false},
		{job("http: {url: 'https://h/', success: 100}"), false}, {job("http: {url: 'https://h/', success: []}"), false}, {job("http: {url: 'https://h/', success: [6xx]}"), false},
		{job("http: {url: 'https://h/', idempotent: yes}"), false}, {job("http: {url: 'https://h/', headers: [a]}"), false}, {job("http: {url: 'https://h/', headers-from-files: {A: ''}}"), false}, {job("http: {url: 'https://h/', other: 1}"), false},
		{job("command: x, schedule: '@hourly'"), false}, {"jobs: {a: {schedule: 5, command: x}}", false}, {job("command: x, zone: 5"), false}, {job("command: x, timeout: true"), false},
		{job("http: {url: 5}"), false}, {job("http: {url: 'https://h/', url-from-file: ''}"), false}, {job("http: {url: 'https://h/', body-file: ''}"), false},
		{job("grace: 1s, http: {url: 'https://h/'}"), false}, {job("orphans: kill, http: {url: 'https://h/'}"), false}, {job("env: {A: b}, http: {url: 'https://h/'}"), false},
	} {
		f, err := config.Parse(strings.NewReader(c.text), "f.yaml")
		byDecoder := err == nil && len(f.Errors) == 0
		bySchema := byTheSchema(t, s, []byte(c.text))
		if byDecoder != c.good {
			t.Errorf("%s: by the decoder good %v: %v %+v", c.text, byDecoder, err, f)
		}
		if (bySchema == nil) != c.good {
			t.Errorf("%s: by the schema: %v", c.text, bySchema)
		}
	}
}
