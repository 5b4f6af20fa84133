package lint_test

import (
	"go/ast"
	"path"
	"slices"
	"testing"
)

// TestNamesSaySomething defends against drawers: a package with such a name
// takes in whatever has no place yet.
func TestNamesSaySomething(t *testing.T) {
	empty := []string{"base", "common", "core", "helper", "helpers", "lib", "manager", "misc", "pkg", "shared", "types", "util", "utils"}
	for _, p := range packages(t) {
		for _, f := range p.files {
			if name := f.ast.Name.Name; slices.Contains(empty, name) || slices.Contains(empty, path.Base(p.path)) {
				t.Errorf("%s: package %s: name it by what it provides", f.path, name)
				break
			}
		}
	}
}

// TestNothingHappensByImport defends that linking a package does nothing by
// itself: what a program has, it asks for where one can read it.
func TestNothingHappensByImport(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && !f.test && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s has an init function", f.path)
				}
			}
		}
	}
}

// TestFilesStayReadable defends the reader: a longer file is two.
func TestFilesStayReadable(t *testing.T) {
	const most = 600
	for _, p := range packages(t) {
		for _, f := range p.files {
			if f.lines > most {
				t.Errorf("%s has %d lines: more than %d", f.path, f.lines, most)
			}
		}
	}
}
