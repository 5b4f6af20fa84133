package lint_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	mdFence  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	mdCode   = regexp.MustCompile("`[^`\n]*`")
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHead   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	mdRemote = regexp.MustCompile(`^[a-z]+:`)
)

// TestDocumentLinksResolve follows every link from document to document, to
// its heading too. Links to other sites are not followed.
func TestDocumentLinksResolve(t *testing.T) {
	for _, doc := range paths(t, ".md") {
		for _, link := range links(read(t, doc)) {
			if mdRemote.MatchString(link) {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			if target == "" {
				target = doc
			} else {
				target = path.Join(path.Dir(doc), target)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: there is no %s", doc, link, target)
			} else if anchor != "" && !hasHeading(read(t, target), anchor) {
				t.Errorf("%s links to %s: %s has no such heading", doc, link, target)
			}
		}
	}
}

// TestDocumentsAreFound defends that what is written can be found: every
// document is linked from the index of its folder.
func TestDocumentsAreFound(t *testing.T) {
	for _, doc := range paths(t, ".md") {
		dir, name := path.Split(doc)
		if !strings.HasPrefix(dir, "docs/") || name == "README.md" {
			continue
		}
		index := dir + "README.md"
		found := false
		for _, link := range links(read(t, index)) {
			target, _, _ := strings.Cut(link, "#")
			found = found || path.Join(dir, target) == doc
		}
		if !found {
			t.Errorf("%s is not linked from %s", doc, index)
		}
	}
}

// TestDecisionsAreNumbered defends that a decision can be named by its number.
func TestDecisionsAreNumbered(t *testing.T) {
	name := regexp.MustCompile(`^docs/decisions/(\d{3})-[a-z0-9-]+\.md$`)
	taken := map[string]string{}
	for _, doc := range paths(t, ".md") {
		if path.Dir(doc) != "docs/decisions" || path.Base(doc) == "README.md" {
			continue
		}
		m := name.FindStringSubmatch(doc)
		if m == nil {
			t.Errorf("%s: a decision is named as 001-what-it-is-about.md", doc)
		} else if other, ok := taken[m[1]]; ok {
			t.Errorf("%s and %s have one number", doc, other)
		} else {
			taken[m[1]] = doc
		}
	}
}

// TestDependenciesAreExplained defends that a dependency is admitted, not
// accumulated: each one that go.mod asks for has a line that says why.
func TestDependenciesAreExplained(t *testing.T) {
	require := regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) v\S+$`) // with no "// indirect"
	explained := read(t, "docs/dependencies.md")
	for _, mod := range paths(t, "go.mod") {
		for _, m := range require.FindAllStringSubmatch(read(t, mod), -1) {
			if m[1] != module && !strings.Contains(explained, "`"+m[1]+"`") {
				t.Errorf("%s requires %s, and docs/dependencies.md does not say why", mod, m[1])
			}
		}
	}
}

// links are the targets of a document's links, those in code left out.
func links(markdown string) []string {
	text := mdCode.ReplaceAllString(mdFence.ReplaceAllString(markdown, ""), "")
	var all []string
	for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// hasHeading reports whether a heading gets that anchor where the document is
// shown: lower case, dashes for spaces, most other signs left out.
func hasHeading(markdown, anchor string) bool {
	drop := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	for _, m := range mdHead.FindAllStringSubmatch(mdFence.ReplaceAllString(markdown, ""), -1) {
		if strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
