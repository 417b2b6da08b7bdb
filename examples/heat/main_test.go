package main

import (
	"context"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// build builds a program of this module.
func build(t *testing.T, path string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", bin, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestHeat runs the example as a reader would, on plates that the ranks do and do not divide.
func TestHeat(t *testing.T) {
	btlrun, heat := build(t, "gobtl/cmd/btlrun"), build(t, ".")
	picture := filepath.Join(t.TempDir(), "plate.png")
	for _, c := range []struct{ ranks, cells int }{{1, 17}, {2, 2}, {4, 64}, {6, 35}, {7, 50}} {
		t.Run(strconv.Itoa(c.ranks), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, btlrun, "-n", strconv.Itoa(c.ranks), heat,
				"--cells", strconv.Itoa(c.cells), "--steps", "200", "--picture", picture).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "equal to one rank's") {
				t.Fatalf("%v\n%s", err, out)
			}
			f, err := os.Open(picture)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			config, err := png.DecodeConfig(f)
			if err != nil || config.Width != c.cells || config.Height != c.cells {
				t.Errorf("picture of %d x %d, %v", config.Width, config.Height, err)
			}
		})
	}
}

// TestCheck: a cell that differs by one bit is told.
func TestCheck(t *testing.T) {
	j := job{cells: 8, steps: 10}
	plate := make([]float64, 64)
	alone := newTile(8, 0, 1, 0, 1)
	for range j.steps {
		alone.compute(1, 8, 1, 8)
		alone.now, alone.next = alone.next, alone.now
	}
	for row := range 8 {
		copy(plate[row*8:], alone.line(row+1))
	}
	if err := check(plate, j); err != nil {
		t.Error(err)
	}
	plate[20] += 1e-16
	if err := check(plate, j); err == nil {
		t.Error("a wrong cell was not noticed")
	}
}
