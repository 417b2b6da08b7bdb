package tidy

import (
	"slices"
	"testing"
)

// TestHouse applies the rules to the repository.
func TestHouse(t *testing.T) {
	t.Parallel()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	// A wrong directory would also have no violations.
	for _, name := range []string{"go.mod", "hotel/timers.go", "internal/tidy/tidy_test.go"} {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Path == name }) {
			t.Fatalf("%s is not among the %d files", name, len(files))
		}
	}
	for _, f := range Check(files) {
		t.Error(f)
	}
}
