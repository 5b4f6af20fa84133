// Package lint_test keeps the house in order: which package may know which,
// what the thin program may link, where documents are found. It reads the
// source and never runs it.
package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/cronce/cronce"
	root   = "../.." // the module, from here
)

// A pkg is one folder of Go source, named by its path in the module; the
// root is ".".
type pkg struct {
	path  string
	files []*file
}

type file struct {
	path  string // from the module's root
	test  bool
	lines int
	ast   *ast.File
}

func (p *pkg) onlyTests() bool {
	return !slices.ContainsFunc(p.files, func(f *file) bool { return !f.test })
}

// imports are the files' imports, without those of tests unless asked for.
func (p *pkg) imports(tests bool) []string {
	seen := map[string]bool{}
	for _, f := range p.files {
		if f.test && !tests {
			continue
		}
		for _, spec := range f.ast.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// ours turns an import path into a pkg's path, if it is of this module.
func ours(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// standard reports whether the import path is of the standard library, whose
// paths alone have no dot in their first element.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// paths lists the files of the module that end in suffix, in every folder but
// hidden ones, testdata and what is built.
func paths(t *testing.T, suffix string) []string {
	t.Helper()
	found, err := walk(suffix)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func walk(suffix string) (found []string, err error) {
	err = fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (name[0] == '.' || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, suffix):
			found = append(found, p)
		}
		return nil
	})
	return found, err
}

// packages is all Go source of the module and of the modules nested in it, by
// path.
func packages(t *testing.T) []*pkg {
	t.Helper()
	packages, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

var parse = sync.OnceValues(func() (packages []*pkg, err error) {
	sources, err := walk(".go")
	if err != nil {
		return nil, err
	}
	byPath := map[string]*pkg{}
	set := token.NewFileSet()
	for _, p := range sources {
		tree, err := parser.ParseFile(set, filepath.Join(root, p), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(p)
		if byPath[dir] == nil {
			byPath[dir] = &pkg{path: dir}
			packages = append(packages, byPath[dir])
		}
		byPath[dir].files = append(byPath[dir].files, &file{
			path:  p,
			test:  strings.HasSuffix(p, "_test.go"),
			lines: set.File(tree.Pos()).LineCount(),
			ast:   tree,
		})
	}
	return packages, nil
})

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
