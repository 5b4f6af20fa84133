package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cronce/cronce/config"
)

// What the page shows is what happens: each example is right for the decoder and
// the schema, and the wrong one gives the messages below it.
func TestDocs_Examples(t *testing.T) {
	text, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	s := compile(t)
	blocks := regexp.MustCompile("(?ms)^```([a-z]+)[^\n]*\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	right, wrong := 0, 0
	for i, b := range blocks {
		isWrong := b[1] == "text" && strings.HasPrefix(b[2], "jobs:\n")
		if b[1] != "yaml" && !isWrong {
			continue
		}
		f, err := config.Parse(strings.NewReader(b[2]), "jobs.yaml")
		if err != nil {
			t.Errorf("%v in\n%s", err, b[2])
			continue
		}
		var said strings.Builder
		for _, e := range f.Errors {
			fmt.Fprintln(&said, e)
		}
		bySchema := byTheSchema(t, s, []byte(b[2]))
		if !isWrong {
			right++
			if said.Len() > 0 || len(f.Jobs) == 0 || bySchema != nil {
				t.Errorf("%s%v in\n%s", &said, bySchema, b[2])
			}
			continue
		}
		wrong++
		if said.String() != blocks[i+1][2] || bySchema == nil {
			t.Errorf("got\n%s\nwant\n%s", &said, blocks[i+1][2])
		}
	}
	if right < 2 || wrong == 0 {
		t.Errorf("%d right examples and %d wrong ones: the page has more", right, wrong)
	}
	for _, key := range []string{"method", "url", "url-from-file", "headers", "headers-from-files", "body", "body-file", "success", "idempotent", "Idempotency-Key", "Cronce-Job", "Cronce-Tick", "Cronce-Run-Id", "Cronce-Attempt", "Cronce-Fence"} {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("docs/config.md does not speak of %s", key)
		}
	}
	for _, name := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/config.md does not speak of %s", name)
		}
	}
}
