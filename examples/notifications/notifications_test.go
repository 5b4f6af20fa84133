package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// The night in short: by hand rows go out more than once, with cronce each once.
func TestNight(t *testing.T) {
	bin := t.TempDir()
	if err := testenv.Build(bin); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "notifications")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-fast", "20ms", "-slow", "300ms", "-cronce", filepath.Join(bin, "cronce"))
	cmd.Env = append(os.Environ(), "CRONCE_DB="+testenv.MariaDB(t))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "with cronce   12 rows, 12 sends:  0 recipients got it more than once, the most 1 times; 0 rows left") {
		t.Errorf("%v\n%s%s", err, &out, &errs)
	}
}
