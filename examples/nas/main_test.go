package main

import (
	"context"
	"flag"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var class = flag.String("nas.class", "S", "the class of the kernels that TestKernels runs")

// build builds a program of this module.
func build(t *testing.T, path string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", bin, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestKernels runs all kernels at 1 to 8 ranks, each in a process, as a reader would.
func TestKernels(t *testing.T) {
	btlrun, nas := build(t, "gobtl/cmd/btlrun"), build(t, ".")
	for _, c := range []struct {
		ranks    int
		provider string
	}{{1, "udp"}, {2, "udp"}, {4, "udp"}, {8, "udp"}, {4, "shm"}} {
		t.Run(strconv.Itoa(c.ranks)+c.provider, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, btlrun, "-n", strconv.Itoa(c.ranks), nas,
				"--class", *class, "--provider", c.provider).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
			if n := strings.Count(string(out), " verified "); n != len(kernels) {
				t.Errorf("%d kernels were verified, of %d:\n%s", n, len(kernels), out)
			}
		})
	}
}

// TestVerdict: a value out of its tolerance is told, NaN among them.
func TestVerdict(t *testing.T) {
	var v verdict
	v.compare(1, 1, 0)
	v.compare(1.001, 1, .01)
	if v.compared != 2 || v.wrong != 0 {
		t.Errorf("%+v", v)
	}
	v.compare(5, 4, .01)
	v.compare(math.NaN(), 1, .01)
	v.compare(.1, 0, .01)
	if v.compared != 5 || v.wrong != 3 || v.got != 5 || v.want != 4 {
		t.Errorf("%+v", v)
	}
}

// TestRandomSkip: numbers that were skipped are those that would have been drawn.
func TestRandomSkip(t *testing.T) {
	drawn := random(cgisftSeed)
	for n := range uint64(100) {
		skipped := random(cgisftSeed)
		skipped.skip(n)
		if skipped != drawn {
			t.Fatalf("after %d numbers: %d, want %d", n, skipped, drawn)
		}
		drawn.next()
	}
}
