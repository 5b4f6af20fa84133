package lint_test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// arrows says which packages of ours each package may import. They run down
// only. The first pattern that fits a package is its rule.
var arrows = []struct {
	pattern string
	may     []string
}{
	{"schedule", nil},
	{".", []string{"schedule"}},
	{"crontab", []string{".", "schedule"}},
	{"audit", []string{".", "schedule", "crontab"}},
	{"guard", []string{"."}},
	{"request", []string{".", "internal/build"}},
	{"config", []string{".", "schedule", "request", "internal/keys"}},
	{"rows", []string{".", "internal/keys"}},
	{"watch", []string{".", "schedule"}},
	{"web", []string{".", "schedule", "watch"}},

	{"store/all", []string{".", "store/*store"}},
	{"store/storetest", []string{"."}},
	{"store/*", []string{"."}}, // no store knows another

	{"internal/build", nil},
	{"internal/cli", []string{".", "schedule", "crontab", "store/*", "internal/build", "internal/keys"}},
	{"internal/*", []string{"."}},

	{"cmd/cronce", []string{".", "schedule", "crontab", "guard", "store/localstore", "internal/build", "internal/cli", "internal/handover", "internal/keys"}},
	{"cmd/cronced", []string{"*", "store/*", "internal/*"}},

	{"bench/floor", nil},
	{"bench", []string{".", "schedule", "rows", "store/*store", "internal/testenv"}},
	{"packaging/*", nil},
	{"examples/*", []string{".", "store/*store"}},
	{"examples/*/*", []string{".", "store/*store"}},
}

// external says which modules the code of a package may import, tests aside.
// Whoever is not named here has the standard library only.
var external = map[string][]string{
	"store/storetest":        {"github.com/anishathalye/porcupine"},
	"config":                 {"github.com/goccy/go-yaml"},
	"store/redisstore":       {"github.com/redis/rueidis"},
	"store/mysqlstore":       {"github.com/go-sql-driver/mysql"},
	"store/pgstore":          {"github.com/jackc/pgx/v5"},
	"examples/notifications": {"github.com/go-sql-driver/mysql"},
	"cmd/cronced":            {"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "modernc.org/sqlite"},
}

// drivers are the modules that a package's tests may import besides: rows knows
// database/sql, and no driver; cmd looks into the tables that a drain works off.
var drivers = map[string][]string{
	"rows": {"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "modernc.org/sqlite"},
	"cmd":  {"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "modernc.org/sqlite"},
}

// forTests are the modules that tests may import as well.
var forTests = []string{
	"github.com/anishathalye/porcupine",
	"github.com/rogpeppe/go-internal",
	"github.com/santhosh-tekuri/jsonschema/v6",
}

// forBench are the modules that only the nested module bench knows.
var forBench = []string{
	"github.com/bsm/redislock",
	"github.com/go-sql-driver/mysql",
	"github.com/go-co-op/gocron/v2",
	"github.com/go-redsync/redsync/v4",
	"github.com/redis/go-redis/v9",
	"github.com/redis/rueidis",
	"github.com/jackc/pgx/v5",
	"github.com/riverqueue/river",
	"github.com/robfig/cron/v3",
	"modernc.org/sqlite",
}

// TestArrowsRunDown defends that a part can be understood, tested and used
// with only those below it, and that a store can be taken out by itself.
func TestArrowsRunDown(t *testing.T) {
	for _, p := range packages(t) {
		if p.onlyTests() {
			continue
		}
		may, known := rule(p.path)
		if !known {
			t.Errorf("package %s has no line in arrows: which packages of ours may it import?", p.path)
			continue
		}
		for _, name := range p.imports(false) {
			switch target, isOurs := ours(name); {
			case standard(name):
			case isOurs && !matchesAny(may, target):
				t.Errorf("%s imports %s: it may import of ours only %q", p.path, target, may)
			case !isOurs && !within(external[p.path], name):
				t.Errorf("%s imports %s: other modules are for tests only, see docs/dependencies.md", p.path, name)
			}
		}
	}
}

// TestTestsImportFew defends that what tests need stays small and known. They
// may reach up (the root's tests use a real store), but not to programs.
func TestTestsImportFew(t *testing.T) {
	for _, p := range packages(t) {
		may := slices.Concat(forTests, external[p.path], drivers[p.path])
		if p.path == "bench" {
			may = forBench
		}
		for _, name := range p.imports(true) {
			switch target, isOurs := ours(name); {
			case standard(name):
			case isOurs && strings.HasPrefix(target, "cmd/"):
				t.Errorf("%s imports the program %s", p.path, target)
			case !isOurs && !within(may, name):
				t.Errorf("%s imports %s, which is not among %q", p.path, name, may)
			}
		}
	}
}

// TestThinProgramStaysThin defends what a job pays for its guard: the thin
// program is started for every one of them and stays while it runs.
func TestThinProgramStaysThin(t *testing.T) {
	heavy := []string{
		"crypto/tls", "database/sql", "encoding/gob", "encoding/xml", "go/*", "html/template", "net", "net/*", "plugin", "regexp", "testing",
	}
	may, _ := rule("cmd/cronce")
	for _, name := range dependencies(t, "./cmd/cronce") {
		switch target, isOurs := ours(name); {
		case isOurs && target != "cmd/cronce" && !matchesAny(may, target):
			t.Errorf("cronce links our package %s: it may link %q", target, may)
		case !isOurs && !standard(name):
			t.Errorf("cronce links %s: it may link the standard library only", name)
		case matchesAny(heavy, name):
			t.Errorf("cronce links %s, which is too heavy for it: hand the work to cronced", name)
		}
	}
}

// TestOnlyTheFullProgramKnowsAllStores defends that the thin program, and whoever uses one
// store from Go, does not link the clients of the others.
func TestOnlyTheFullProgramKnowsAllStores(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.imports(false) {
			if target, isOurs := ours(name); isOurs && target == "store/all" && p.path != "cmd/cronced" {
				t.Errorf("%s imports store/all", p.path)
			}
		}
	}
}

// TestFullProgramHasNoTestCode defends against a test helper in production.
func TestFullProgramHasNoTestCode(t *testing.T) {
	for _, name := range dependencies(t, "./cmd/cronced") {
		if name == "testing" || within(forTests, name) || strings.HasSuffix(name, "/storetest") {
			t.Errorf("cronced links %s", name)
		}
	}
}

// dependencies is every package that the program links, by import path,
// built as it is released. The standard library's own vendored packages
// (vendor/…) are left out: they come with the package that needs them.
func dependencies(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-buildvcs=false", program)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		t.Fatalf("%v: %v\n%s", cmd, err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return strings.HasPrefix(name, "vendor/")
	})
}

// rule is the line of arrows for a package.
func rule(p string) (may []string, known bool) {
	for _, a := range arrows {
		if matches(a.pattern, p) {
			return a.may, true
		}
	}
	return nil, false
}

// matches is path.Match, where * stands for no hidden folder and never for
// the root.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	if err != nil {
		panic(err)
	}
	return ok
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// within reports whether an import path lies in one of the modules.
func within(modules []string, importPath string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return importPath == m || strings.HasPrefix(importPath, m+"/")
	})
}
