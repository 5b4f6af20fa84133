package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// completed asks for what a line, without the program in front, may become.
func completed(t *testing.T, store string, line ...string) []string {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "cronce"), append([]string{"completion", "words"}, line...)...)
	cmd.Env = append(os.Environ(), "CRONCE_STORE="+store)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// aStore has jobs with these names.
func aStore(t *testing.T, names ...string) string {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	for _, name := range names {
		if out, err := exec.Command(filepath.Join(bin, "cronce"), "run", "--store", store, name, "--", "true").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return store
}

// What is completed exists: commands, what follows them, flags, values, jobs.
func TestCompletion_Words(t *testing.T) {
	t.Parallel()
	store := aStore(t, "report", "a job")
	other := aStore(t, "elsewhere")
	for _, c := range []struct{ line, want string }{
		{"re", "release resume"},
		{"store |", "check init migrate prune reset-watermark"},
		{"job s", "show"},
		{"job show |", "a job|report"},
		{"runs |", "a job|report"},
		{"runs --store " + other + " |", "elsewhere"},
		{"runs --store /nowhere |", ""},
		{"pause rep", "report"},
		{"pause report |", ""},
		{"store prune --job r", "report"},
		{"run --or", "--orphans"},
		{"run --orphans |", "kill leave wait"},
		{"run --overlap r", "replace"},
		{"run report -- --or", ""},
		{"serve --log-format |", "json text"},
		{"serve --crontab |", ""},
		{"help s", "serve status store"},
		{"demo |", "crons notices"},
		{"completion |", "bash fish zsh"},
		{"frob |", ""},
	} {
		want := strings.Fields(c.want)
		if strings.Contains(c.want, "|") {
			want = strings.Split(c.want, "|")
		}
		if len(want) == 0 {
			want = []string{""}
		}
		line := strings.Split(strings.TrimSuffix(c.line, "|"), " ")
		if got := completed(t, store, line...); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", c.line, got, want)
		}
	}
}

// The shells themselves offer the jobs of the store, as words that they can
// read again.
func TestCompletion_Shells(t *testing.T) {
	t.Parallel()
	store := aStore(t, "report", "www-data:sync")
	for _, c := range []struct{ shell, script, want string }{
		{"bash", `source <(cronce completion bash)
			complete -p cronce >/dev/null && COMP_WORDS=(cronce pause "") COMP_CWORD=2 && _cronce && printf '%s\n' "${COMPREPLY[@]}"`, "report\nwww-data:sync\n"},
		{"bash", `source <(cronce completion bash); COMP_WORDS=(cronce pause www-data : s) COMP_CWORD=4; _cronce; printf '%s\n' "${COMPREPLY[@]}"`, "sync\n"},
		{"zsh", `autoload -U compinit && compinit -D -u && source <(cronce completion zsh) && [[ $_comps[cronce] = _cronce ]] || exit
			compadd() { print -l -- ${(P)argv[-1]} }
			words=(cronce pause "") CURRENT=3; _cronce`, "report\nwww-data:sync\n"},
		{"fish", `cronce completion fish | source; complete -C 'cronce pause '`, "report\nwww-data:sync\n"},
		{"fish", `cronce completion fish | source; complete -C 'cronce store pr'`, "prune\n"},
	} {
		flag := map[string]string{"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[c.shell]
		cmd := exec.Command(c.shell, flag, "-c", c.script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CRONCE_STORE="+store, "HOME="+t.TempDir(), "TERM=dumb")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.script, err, out, c.want)
		}
	}
}

// Help, from which completion and the manual pages are made, and what the
// programs read agree: each flag that it names is one, and each that the source
// defines is named.
func TestHelp_NamesEveryFlag(t *testing.T) {
	t.Parallel()
	named := map[string]bool{"by": true} // from trigger to run
	for _, command := range []string{"serve", "run", "hold", "validate", "status", "runs", "next", "trigger", "release", "pause", "job", "store"} {
		help, err := exec.Command(filepath.Join(bin, "cronce"), "help", command).Output()
		if err != nil {
			t.Fatal(err)
		}
		accepted := []string{command}
		switch command {
		case "job", "store":
			accepted = strings.Fields(map[string]string{"job": "job list|job show|job update", "store": "store init|store check|store prune|store migrate"}[command])
			accepted = strings.Split(strings.Join(accepted, " "), "|")
		}
		for _, m := range regexp.MustCompile(`(?m)(?:^  |\[)(--?[a-z-]+)`).FindAllStringSubmatch(string(help), -1) {
			named[strings.TrimLeft(m[1], "-")] = true
			known := false
			for _, c := range accepted {
				out, _ := exec.Command(filepath.Join(bin, "cronce"), append(strings.Fields(c), m[1]+"=\x01")...).CombinedOutput()
				known = known || !strings.Contains(string(out), "not defined")
			}
			if !known {
				t.Errorf("cronce %s knows no %s, which its help names", command, m[1])
			}
		}
	}
	sources, err := filepath.Glob("cronce*/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\b(?:f\.(?:Bool|Func|Int|String|Duration)\(|f\.\w+Var\([^,]+, |text\()"([a-z-]+)"`).FindAllStringSubmatch(string(text), -1) {
			if !named[m[1]] && !strings.Contains(path, "demo") {
				t.Errorf("%s: no help names --%s", path, m[1])
			}
		}
	}
}
