package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/config"
)

// FuzzParse defends that no text makes Parse panic, that each mistake has a
// place in the file, that each job that is kept can be served, and that the same
// text says the same twice.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("../examples/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, text := range []string{
		"jobs:\n  a:\n    schedule: * * * * *\n", "jobs: &a\n  <<: *a\n", "jobs: {a: &b {<<: [*b, *c]}}", "? a\n: b\n", "--- !!map\n{}\n...\n",
		"jobs:\n  a: {schedule: \"\\u00e4\\\n  x\", command: >-\n   x\n", "\ufeffjobs: {}\r\n", "jobs: {a: {schedule: '@daily', http: {url: 'http://h/'}}}",
		"defaults: {timeout: 5s}\njobs: {a: {schedule: H H * * *, command: [x], <<: {zone: UTC}}}", "jobs: {1: {schedule: .inf, command: !!str 5}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := config.Parse(strings.NewReader(text), "f.yaml")
		if err != nil {
			var bad *config.Error
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			checkPlace(t, text, bad)
			return
		}
		for _, e := range file.Errors {
			checkPlace(t, text, e)
		}
		seen := map[string]bool{}
		for _, j := range file.Jobs {
			s, err := j.Parse()
			if err != nil || s == nil {
				t.Errorf("job %q is kept: %v", j.Name, err)
			}
			if (j.HTTP == nil) == (len(j.Command) == 0) || seen[j.Name] || cronce.CheckName(j.Name) != nil {
				t.Errorf("job %q: %+v", j.Name, j)
			}
			seen[j.Name] = true
			for _, word := range append(j.Command, j.Env...) {
				if strings.ContainsRune(word, 0) {
					t.Errorf("job %q: a NUL in %q", j.Name, word)
				}
			}
		}
		again, err := config.Parse(strings.NewReader(text), "f.yaml")
		if err != nil || !reflect.DeepEqual(file, again) {
			t.Errorf("the same text says something else the second time: %v", err)
		}
	})
}

// checkPlace defends that an error is where the text is.
func checkPlace(t *testing.T, text string, e *config.Error) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
	if e.Line < 1 || e.Line > len(lines)+1 || e.Column < 1 || e.Msg == "" {
		t.Fatalf("%+v: there is no such place", e)
	}
	if !utf8.ValidString(e.Snippet) || strings.ContainsAny(e.Snippet, "\x1b\r\x07") || strings.Count(e.Snippet, "\n") > 1 {
		t.Errorf("snippet %q", e.Snippet)
	}
}
