package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What make install puts below a prefix is whole: both programs of one release,
// manual pages that two readers find nothing wrong with, completion, and units
// that start what was installed.
func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("make", "-C", "..", "--no-print-directory", "build", "install", "OUT="+dir+"/out", "DESTDIR="+dir, "PREFIX=/opt/cronce")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := filepath.Join(dir, "opt/cronce")
	for _, name := range []string{"share/bash-completion/completions/cronce", "share/zsh/site-functions/_cronce", "share/fish/vendor_completions.d/cronce.fish"} {
		if text, err := os.ReadFile(filepath.Join(at, name)); err != nil || !strings.Contains(string(text), "completion words") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	validate := exec.Command(filepath.Join(at, "bin/cronce"), "validate", "../examples/crontab")
	if out, err := validate.CombinedOutput(); err != nil {
		t.Errorf("the programs that were installed: %v\n%s", err, out)
	}
	units, _ := filepath.Glob(at + "/lib/systemd/system/*.service")
	if len(units) == 0 {
		t.Error("no unit is installed")
	}
	for _, path := range units {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "\nExecStart=/opt/cronce/bin/cronce serve ") {
			t.Errorf("%s does not start what was installed: %v\n%s", path, err, text)
		}
	}
	verifyUnits(t, units)
	page, err := os.ReadFile(filepath.Join(at, "share/man/man1/cronce.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range completed(t, dir, "") {
		if !slices.Contains([]string{"help", "version", "resume"}, command) && !strings.Contains(string(page), "\n.SS "+command+"\n") {
			t.Errorf("cronce(1) has no section on %s", command)
		}
	}
	for name, says := range map[string]string{
		"man1/cronce.1":         "--start-deadline DURATION",
		"man5/cronce-crontab.5": "overlap=skip|wait=DURATION|replace[=DURATION]|allow",
		"man5/cronce-config.5":  "headers-from-files: MAPPING headers whose values are read",
		"man8/cronced.8":        "of one release",
	} {
		page := filepath.Join(at, "share/man", name)
		man := exec.Command("man", "--warnings", "--local-file", page)
		man.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=100", "MAN_KEEP_FORMATTING=", "MANPAGER=cat")
		var errs strings.Builder
		man.Stderr = &errs
		out, err := man.Output()
		if err != nil || errs.Len() > 0 {
			t.Errorf("man %s: %v\n%s", name, err, &errs)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), says) {
			t.Errorf("man %s does not say %q:\n%s", name, says, out)
		}
		if out, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", page).CombinedOutput(); err != nil {
			t.Errorf("mandoc: %v\n%s", err, out)
		}
	}
}

// verifyUnits has systemd read units, where it is installed: with a program and a
// user that are here.
func verifyUnits(t *testing.T, units []string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	dir := t.TempDir()
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		unit := strings.ReplaceAll(string(text), "/opt/cronce/bin/cronce", "/bin/true")
		unit = strings.ReplaceAll(unit, "User=cronce\n", "User=daemon\n")
		name := write(t, filepath.Join(dir, filepath.Base(path)), unit)
		if out, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput(); err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}
