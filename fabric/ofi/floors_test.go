package ofi

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// floors are the shim's files from the lowest layer up. Each file calls only files before it.
var floors = []string{
	"signals.c", "load.c", "info.c", "copies.c", "peers.c", "data.c", "offload_recv.c", "offload.c",
	"batch.c", "endpoint.c", "domain.c",
}

var (
	// A definition begins a line with its type and continues with a block. Any other occurrence is
	// a call.
	cDefinition = regexp.MustCompile(`(?m)^[a-z][^;{}()]*\b(gofi_\w+)\([^;{}]*\)\n\{`)
	cCall       = regexp.MustCompile(`\b(gofi_\w+)\(`)
)

func TestFloors(t *testing.T) {
	files, err := filepath.Glob("*.c")
	if err != nil {
		t.Fatal(err)
	}
	// absent.c takes the place of all others where libfabric's headers are missing.
	files = slices.DeleteFunc(files, func(name string) bool { return name == "absent.c" })
	if want := slices.Sorted(slices.Values(floors)); !slices.Equal(files, want) {
		t.Fatalf("the C files are %v, the floors %v", files, want)
	}
	home := make(map[string]int) // by function: the layer of its file
	text := make([]string, len(floors))
	for i, name := range floors {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(b)
		for _, m := range cDefinition.FindAllStringSubmatch(text[i], -1) {
			home[m[1]] = i
		}
	}
	if len(home) < 30 {
		t.Fatalf("only %d functions found: this test does not understand the sources", len(home))
	}
	for i, name := range floors {
		for _, m := range cCall.FindAllStringSubmatch(text[i], -1) {
			if to, ok := home[m[1]]; ok && to > i {
				t.Errorf("%s calls %s of %s, which is above it", name, m[1], floors[to])
			}
		}
	}
}
