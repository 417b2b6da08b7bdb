package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sound are the files of a module without errors.
var sound = map[string]string{
	"go.mod": "module example.org/sound\n\ngo 1.26\n",
	"a/a.go": "package a\n\nimport \"fmt\"\n\n// F prints.\n" +
		"func F(format string, args ...any) { fmt.Printf(format, args...); system() }\n",
	"a/system_windows.go": "package a\n\nfunc system() {}\n",
	"a/system_other.go":   "//go:build !windows\n\npackage a\n\nfunc system() {}\n",
	"a/a_test.go": "package a\n\nimport \"testing\"\n\n" +
		"func TestF(t *testing.T) { F(\"%d\", 1) }\n",
}

// write writes the sound module with some other files to a folder.
func write(t *testing.T, broken map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := maps.Clone(sound)
	maps.Copy(files, broken)
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFaults has packages with faults that only one system notices each.
func TestFaults(t *testing.T) {
	t.Parallel()
	broken := map[string]string{
		"b/b.go":                  "package b\n\nvar B int = 1 << 40\n",
		"shift/s.go":              "package s\n\nfunc C(n uint) uint { return n >> 40 }\n",
		"darwin/d_darwin_test.go": "package d\n\nvar d string = 1\n",
		"format/f_darwin.go": "package f\n\nimport \"example.org/sound/a\"\n\n" +
			"func f() { a.F(\"%d\", \"x\") }\n",
		"none/n_windows.go":           "package n\n\nimport _ \"golang.org/x/none\"\n",
		"outside/o_windows_test.go":   "package o_test\n\nimport \"os\"\n",
		"syntax/s_windows.go":         "package s\n\nvar\n",
		"undefined/u.go":              "package u\n\nfunc U() { system() }\n",
		"undefined/system_linux.go":   "package u\n\nfunc system() {}\n",
		"undefined/system_darwin.go":  "package u\n\nfunc system() {}\n",
		"undefined/system_windows.go": "package u\n",
	}
	want := []struct{ text, system string }{ // in order; each text is the begin of a line
		{"b/b.go:3:13: ", "linux/386"},
		{"darwin/d_darwin_test.go:3:16: ", "darwin/arm64"},
		{"format/f_darwin.go:5:17: example.org/sound/a.F format %d has arg", "darwin/arm64"},
		{"none/n_windows.go:3:10: could not import golang.org/x/none", "windows/amd64"},
		{"none/n_windows.go:3:8: no required module provides", "windows/amd64"},
		{"outside/o_windows_test.go:3:8: \"os\" imported and not used", "windows/amd64"},
		{"shift/s.go:3:30: n (32 bits) too small for shift of 40", "linux/386"},
		{"syntax/s_windows.go:3:5: expected ';', found 'EOF'", "windows/amd64"},
		{"syntax/s_windows.go:3:5: expected 'IDENT', found 'EOF'", "windows/amd64"},
		{"syntax/s_windows.go:3:5: expected type, found 'EOF'", "windows/amd64"},
		{"undefined/u.go:3:12: undefined: system", "windows/amd64"},
	}
	found, err := check(t.Context(), write(t, broken),
		[]string{"linux/amd64", "linux/386", "windows/amd64", "darwin/arm64"})
	if err != nil {
		t.Fatal(err)
	}
	got := found.lines()
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w.text) ||
			!strings.HasSuffix(got[i], " ("+w.system+")") {
			t.Errorf("no line %d: %s ... (%s)", i, w.text, w.system)
		}
	}
	if len(got) != len(want) || found.packages < 20 {
		t.Errorf("%d packages, %d errors, want %d:\n%s", found.packages, len(got), len(want),
			strings.Join(got, "\n"))
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		broken map[string]string
		status int
		want   string
	}{
		"sound":     {nil, 0, ""},
		"broken":    {map[string]string{"a/b.go": "package a\n\nvar B int = \"\"\n"}, 1, "a/b.go:3:13: "},
		"no go.mod": {map[string]string{"go.mod": "nonsense\n"}, 1, "systems: linux/386: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			status := run(t.Context(), write(t, tc.broken), []string{"linux/386"}, &out, &errOut)
			if status != tc.status || !strings.HasPrefix(errOut.String(), tc.want) ||
				(errOut.Len() > 0) != (tc.want != "") {
				t.Errorf("status %d, want %d\n%s%s", status, tc.status, &errOut, &out)
			}
		})
	}
}
