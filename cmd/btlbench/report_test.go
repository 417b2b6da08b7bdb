//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport makes a page of the reports of two processes.
func TestReport(t *testing.T) {
	notRaced(t)
	dir := t.TempDir()
	args := []string{"report", "--out", filepath.Join(dir, "page.html")}
	for _, format := range []string{"--format=json", "--json-stream"} {
		stdout, _ := runProcess(t, strings.Fields("pair --provider shm --cpus none --test lat,bw "+
			"--size 8,64 --iterations 100 "+format)...)
		name := filepath.Join(dir, "run"+format)
		if err := os.WriteFile(name, stdout, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	status, stdout, stderr := runCLI(args...)
	text, err := os.ReadFile(filepath.Join(dir, "page.html"))
	if status != exitOK || err != nil || !strings.HasSuffix(stdout, "page.html: 2 runs\n") {
		t.Fatalf("status %d, %v, %q, %q", status, err, stdout, stderr)
	}
	for _, want := range []string{"run--format=json", "run--json-stream btl p50", "</html>"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	args[2] = "-"
	if status, stdout, _ := runCLI(args...); status != exitOK || stdout != string(text) {
		t.Errorf("status %d, and %d bytes on standard output, %d in the file", status, len(stdout),
			len(text))
	}
	status, _, stderr = runCLI("report", filepath.Join(dir, "page.html"), "-o", "-")
	if status != exitFailure || !strings.Contains(stderr, "is not JSON") {
		t.Errorf("a page as a report: status %d, %q", status, stderr)
	}
	checkOneLine(t, stderr)
}
