package tidy

import (
	"slices"
	"testing"
)

// TestFolders checks which directories must be in the table of folders.
func TestFolders(t *testing.T) {
	t.Parallel()
	const table = "| folder | is |\n|---|---|\n| `btl` | `frag` |\n| `hotel`, `test/sim/...` | |\n\n" +
		"| else |\n| `fabric` |\n"
	for name, missing := range map[string]bool{
		"btl/x.go":                 false,
		"btl/btlprom/x.go":         true,
		"hotel/x_test.go":          false,
		"test/sim/x.go":            false,
		"test/sim/swarm/x.go":      false,
		"test/cli/x_test.go":       true,
		"test/cli/testdata/x/x.go": false,
		"frag/x.go":                true, // in another column
		"fabric/x.go":              true, // in another table
	} {
		files := []File{
			{Path: name, Data: []byte("// Package x is.\npackage x\n")},
			{Path: foldersFile, Data: []byte(table)},
		}
		got := slices.ContainsFunc(Check(files), func(f Finding) bool { return f.Rule == "folder" })
		if got != missing {
			t.Errorf("%s is reported: %v, want %v", name, got, missing)
		}
	}
}

// TestDocNames checks how the comment of a function may begin.
func TestDocNames(t *testing.T) {
	t.Parallel()
	bad := []string{"3 name"}
	code := func(comment string) string {
		return "package x\n\n// " + comment + "\nfunc (t t) size() {}\n\ntype t int\n"
	}
	run(t, []violation{
		{"its name", "frag/x.go", code("size returns it."), nil},
		{"its name and a comma", "frag/x.go", code("size, in bytes."), nil},
		{"its name alone", "frag/x.go", code("size"), nil},
		{"another name", "frag/x.go", code("length returns it."), bad},
		{"another name, of two words", "frag/x.go", code("sizeBytes is it."), bad},
		{"another name in a test", "frag/x_test.go", code("length returns it."), bad},
		{"a sentence", "frag/x.go", code("A size is a number."), nil},
		{"a directive", "frag/x.go", "package x\n\n//go:noinline\nfunc size() {}\n", nil},
		{"a number", "frag/x.go", code("2 bytes."), nil},
	})
}
