//go:build linux && cgo

package ofi

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobtl/fabric"
)

// TestLibrary logs the version of libfabric with which the tests run. GOBTL_LIBFABRIC names the
// folder from which the library must come ("make test-ofi").
func TestLibrary(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp"})
	if err != nil {
		t.Fatal(err)
	}
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

// TestNeedsLibcAlone checks that a program with this package starts without an installed libfabric.
func TestNeedsLibcAlone(t *testing.T) {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	libs, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range libs {
		name, _, _ := strings.Cut(lib, ".so")
		// All these libraries are parts of the C library.
		if !slices.Contains([]string{"libc", "libm", "libpthread", "libresolv", "libdl"}, name) &&
			!strings.HasPrefix(name, "ld-") {
			t.Errorf("this program needs %s", lib)
		}
	}
}

// TestMissing checks that without libfabric the error says so, in one line.
func TestMissing(t *testing.T) {
	err := loadFrom("libfabric-of-nobody.so.1")
	if !errors.Is(err, fabric.ErrUnavailable) {
		t.Fatalf("%v, want ErrUnavailable", err)
	}
	text := err.Error()
	if strings.Contains(text, "\n") || !strings.Contains(text, "libfabric-of-nobody.so.1") ||
		!strings.Contains(text, "install") {
		t.Errorf("unhelpful: %q", text)
	}
	// This library is not the library that its name claims.
	if err = loadFrom("libc.so.6"); err == nil || !strings.Contains(err.Error(), "fi_getinfo") {
		t.Errorf("libc taken for libfabric: %v", err)
	}
}
