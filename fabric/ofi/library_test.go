//go:build linux && cgo

package ofi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobtl/fabric"
)

// TestLibrary tells which libfabric the tests run with. GOBTL_LIBFABRIC names the folder that it
// must come from ("make test-ofi").
func TestLibrary(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for line := range strings.Lines(string(maps)) {
		file := line[strings.LastIndexByte(line, ' ')+1:]
		if file = strings.TrimSpace(file); strings.HasPrefix(filepath.Base(file), "libfabric.so") {
			files = append(files, file)
		}
	}
	files = slices.Compact(files)
	if len(files) != 1 {
		t.Fatalf("%d libfabrics in this process, want one: %v", len(files), files)
	}
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, from %s", infos[0].Version, files[0])
	want := os.Getenv("GOBTL_LIBFABRIC")
	if want == "" {
		return
	}
	if want, err = filepath.EvalSymlinks(want); err != nil {
		t.Fatal(err)
	}
	if have := filepath.Dir(files[0]); have != want {
		t.Errorf("libfabric is that of %s, want the one in %s", have, want)
	}
}
