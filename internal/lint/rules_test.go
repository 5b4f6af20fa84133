package lint_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	mdTest    = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	mdName    = regexp.MustCompile("`([A-Z]\\w+)`")
	mdRule    = regexp.MustCompile(`(?m)^\*\*(\d\.\d) `)
	mdRuleRow = regexp.MustCompile(`(?m)^\| (\d\.\d) \|.*\|(.*)\|(.*)\|$`)
)

// TestDocumentsNameTestsThatExist defends that what a document gives as proof is there.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	tests := testNames(t)
	for _, doc := range paths(t, ".md") {
		for _, m := range mdTest.FindAllStringSubmatch(mdFence.ReplaceAllString(read(t, doc), ""), -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, and there is no such test", doc, m[1])
			}
		}
	}
}

// TestRulesHaveTests defends that each rule of the contract is in its table of tests, and that
// these are there.
func TestRulesHaveTests(t *testing.T) {
	const doc = "docs/store-contract.md"
	tests, promises := testNames(t), promiseNames(t)
	var rows []string
	for _, row := range mdRuleRow.FindAllStringSubmatch(read(t, doc), -1) {
		rows = append(rows, row[1])
		suite, beside := mdName.FindAllStringSubmatch(row[2], -1), mdName.FindAllStringSubmatch(row[3], -1)
		if len(suite) == 0 || len(beside) == 0 {
			t.Errorf("%s, rule %s: a test in the suite and one beside it are expected", doc, row[1])
		}
		for _, m := range suite {
			if !promises[m[1]] {
				t.Errorf("%s, rule %s: the suite has no promise %s", doc, row[1], m[1])
			}
		}
		for _, m := range beside {
			if !tests[m[1]] {
				t.Errorf("%s, rule %s: there is no test %s", doc, row[1], m[1])
			}
		}
	}
	for _, m := range mdRule.FindAllStringSubmatch(read(t, doc), -1) {
		if !slices.Contains(rows, m[1]) {
			t.Errorf("%s: rule %s has no row in the table of tests", doc, m[1])
		}
	}
}

// testNames are the tests of all packages.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, p := range packages(t) {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
					names[fn.Name.Name] = true
				}
			}
		}
	}
	return names
}

// promiseNames are the promises of the conformance suite.
func promiseNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, p := range packages(t) {
		if p.path != "store/storetest" {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok || f.test || len(lit.Elts) != 3 {
					return true
				}
				if name, ok := lit.Elts[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
					text, _ := strconv.Unquote(name.Value)
					names[text] = true
				}
				return true
			})
		}
	}
	return names
}
