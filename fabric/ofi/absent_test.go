//go:build linux && cgo

package ofi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

// askProgram prints why libfabric's providers are missing.
const askProgram = `package main

import (
	"errors"
	"fmt"

	"gobtl/fabric"
	_ "gobtl/fabric/ofi"
)

func main() {
	_, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp"})
	fmt.Println(errors.Is(err, fabric.ErrUnavailable), err)
}
`

// TestWithoutHeaders builds a program with a C compiler that does not find libfabric's headers. The
// program must build, and say what to install.
func TestWithoutHeaders(t *testing.T) {
	gcc := testenv.Need(t, "gcc", "gcc")
	if _, err := os.ReadFile("absent.c"); err != nil { // It has a part in the cached result.
		t.Fatal(err)
	}
	dir := t.TempDir()
	entries, err := os.ReadDir("/usr/include")
	if err != nil {
		testenv.Missing(t, "the system's C headers: %v", err)
	}
	flags := []string{"-nostdinc"}
	for _, e := range entries {
		if e.Name() == "rdma" {
			continue
		}
		if err := os.Symlink("/usr/include/"+e.Name(), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, question := range []string{"-print-file-name=include", "-print-multiarch"} {
		out, err := exec.Command(gcc, question).Output()
		if err != nil {
			t.Fatal(err)
		}
		folder := strings.TrimSpace(string(out))
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		flags = append(flags, "-isystem", folder)
	}
	flags = append(flags, "-isystem", dir)
	main := filepath.Join(dir, "main.go")
	if err := os.WriteFile(main, []byte(askProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=netgo,osusergo", "-o",
		filepath.Join(dir, "ask"), main)
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS="+strings.Join(flags, " "))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "ask")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"true ", "built without libfabric's headers", "libfabric-dev"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
}
