package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronce/cronce/config"
)

// put writes a file and returns its path.
func put(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Files that requests read are looked for beforehand, and named with the place
// where they are named; a job is kept all the same.
func TestFile_Missing(t *testing.T) {
	path := put(t, "jobs.yaml", `jobs:
  a:
    schedule: '@daily'
    http:
      url-from-file: hook
      headers-from-files: {Authorization: secrets/missing, X: jobs.yaml}
      body-file: .
`)
	f, err := config.ParseFile(path)
	if err != nil || len(f.Errors) > 0 || len(f.Jobs) != 1 {
		t.Fatal(f, err)
	}
	want := []string{
		"5:22: url-from-file: hook is not there now; it is read at each request",
		"6:43: headers-from-files: secrets/missing is not there now; it is read at each request",
		"7:18: body-file: . cannot be used now (" + filepath.Dir(path) + " is no file); it is read at each request",
	}
	got := f.Missing()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].Error() != path+":"+want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// A store that could not be made is named beforehand.
func TestFile_CheckStore(t *testing.T) {
	for store, want := range map[string]string{
		"here": "", "/tmp": "", "file:///tmp/x": "",
		"not/here":      "/not, in which here could be made",
		"/no/such/dir":  ":1:8: store: there is no /no/such, in which dir could be made",
		"file:///no/xx": ":1:8: store: there is no /no, in which xx could be made",
		"jobs.yaml/in":  "not a directory",
	} {
		f, err := config.ParseFile(put(t, "jobs.yaml", "store: "+store+"\njobs: {}\n"))
		if err != nil {
			t.Fatal(store, err)
		}
		got := ""
		if err := f.CheckStore(); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", store, got, want)
		}
	}
}

// A file is told from a crontab by its first line.
func TestLooks(t *testing.T) {
	for text, want := range map[string]bool{
		"# jobs\n\njobs:\n  a: {}\n": true, "store: x\n": true, "---\na: b\n": true, "x-all: &all {}\n": true,
		"": false, "# jobs: none\n0 * * * * jobs: x\n": false, "jobs=x\n": false, "jobs:5 * * * * x\n": false, "  jobs: x\n": false,
	} {
		if got := config.Looks(put(t, "f", text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
