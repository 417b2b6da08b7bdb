package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStore runs the example as a reader would, with processes that are killed.
func TestStore(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "kvstore")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3:\n%s", len(lines), out)
	}
	for _, line := range lines {
		if !strings.Contains(line, ": 80 values read") {
			t.Errorf("not all values were read: %s", line)
		}
	}
	// Once the places are known nobody is asked: one question for each of 40 values.
	if !strings.HasSuffix(lines[0], "members asked 40 times") {
		t.Errorf("members were asked although places were known: %s", lines[0])
	}
}
