package frag

import (
	"math"
	"testing"
)

func TestChunks(t *testing.T) {
	tests := []struct{ size, room, want uint32 }{
		{0, 1, 0},
		{1, 1, 1},
		{1, 100, 1},
		{100, 100, 1},
		{101, 100, 2},
		{200, 100, 2},
		{math.MaxUint32, 1, math.MaxUint32},
		{math.MaxUint32, math.MaxUint32, 1},
		{math.MaxUint32, 1 << 31, 2},
		{math.MaxUint32 - 1, math.MaxUint32, 1},
	}
	for _, test := range tests {
		if got := Chunks(test.size, test.room); got != test.want {
			t.Errorf("Chunks(%d, %d) = %d, want %d", test.size, test.room, got, test.want)
		}
	}
}

// TestGrid checks that the chunks of a grid follow each other without gap or overlap, and that
// index finds each byte.
func TestGrid(t *testing.T) {
	for _, g := range []grid{{1, 1}, {1, 7}, {7, 1}, {5, 5}, {65535, 65535}} {
		for _, size := range []uint32{g.first, g.first + 1, g.first + g.chunk, 3*g.first + 2*g.chunk} {
			at, count := uint64(0), g.chunks(size)
			for i := range count {
				if g.start(i) != at || g.index(uint32(at)) != i {
					t.Fatalf("%+v: chunk %d begins at %d, want %d", g, i, g.start(i), at)
				}
				at = min(at+uint64(g.size(i)), uint64(size))
				if g.index(uint32(at-1)) != i {
					t.Fatalf("%+v: byte %d is in chunk %d, want %d", g, at-1, g.index(uint32(at-1)), i)
				}
			}
			if at != uint64(size) || g.start(count) < at {
				t.Fatalf("%+v: %d chunks cover %d bytes of %d", g, count, at, size)
			}
		}
	}
}
