package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// TestFaults breaks the module in ways that some systems notice, and others do not.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, text string
		want       []string // how the lines begin
		on         string   // the only system that notices
	}{
		"none": {on: "windows/386"},
		"a constant that overflows": {
			file: "a/b.go", text: "package a\n\nvar B int = 1 << 40\n",
			want: []string{"a/b.go:3:13: "}, on: "linux/386",
		},
		"a function that is missing": {
			file: "a/system_windows.go", text: "package a\n",
			want: []string{"a/a.go:6:67: undefined: system"}, on: "windows/amd64",
		},
		"a test": {
			file: "a/b_darwin_test.go", text: "package a\n\nvar b string = 1\n",
			want: []string{"a/b_darwin_test.go:3:16: "}, on: "darwin/arm64",
		},
		"an external test": {
			file: "a/b_windows_test.go", text: "package a_test\n\nimport \"os\"\n",
			want: []string{"a/b_windows_test.go:3:8: \"os\" imported and not used"}, on: "windows/amd64",
		},
		"a module that is missing": {
			file: "c/c_windows.go", text: "package c\n\nimport _ \"golang.org/x/none\"\n",
			want: []string{"c/c_windows.go:3:10: could not", "c/c_windows.go:3:8: no required module"},
			on:   "windows/amd64",
		},
		"a format, of a function that calls Printf": {
			file: "c/c_darwin.go",
			text: "package c\n\nimport \"example.org/sound/a\"\n\nfunc c() { a.F(\"%d\", \"x\") }\n",
			want: []string{"c/c_darwin.go:5:17: example.org/sound/a.F format %d"}, on: "darwin/arm64",
		},
		"a shift": {
			file: "a/b.go", text: "package a\n\nfunc B(n uint) uint { return n >> 40 }\n",
			want: []string{"a/b.go:3:30: n (32 bits) too small for shift of 40"}, on: "linux/386",
		},
		"a syntax error": {
			file: "a/b_windows.go", text: "package a\n\nvar\n",
			want: []string{"a/b_windows.go:3:5: ", "a/b_windows.go:3:5: ", "a/b_windows.go:3:5: "},
			on:   "windows/amd64",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := map[string]string{}
			if tc.file != "" {
				broken[tc.file] = tc.text
			}
			found, err := check(t.Context(), write(t, broken), []string{"linux/amd64", tc.on})
			if err != nil {
				t.Fatal(err)
			}
			got := found.lines()
			if !slices.EqualFunc(got, tc.want, func(got, want string) bool {
				return strings.HasPrefix(got, want) && strings.HasSuffix(got, " ("+tc.on+")")
			}) {
				t.Errorf("found %q, want %q (%s)", got, tc.want, tc.on)
			}
			if found.packages < 2*3 { // a, a with its test, the test's program
				t.Errorf("%d packages were checked", found.packages)
			}
		})
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
