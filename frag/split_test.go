package frag

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
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

func TestSplitCoversTheFragment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Up to 1000 chunks, of fragments up to the largest.
		room := rapid.Uint32Range(1, math.MaxUint32).Draw(t, "room")
		limit := uint32(min(uint64(room)*1000, math.MaxUint32))
		size := rapid.Uint32Range(0, limit).Draw(t, "size")
		s, at := NewSplit(size, room), uint32(0)
		for i := range Chunks(size, room) {
			if s.Done() || s.Offset() != at {
				t.Fatalf("chunk %d: done %v, offset %d, want %d", i, s.Done(), s.Offset(), at)
			}
			offset, n, last := s.Next()
			if offset != at || offset%room != 0 || n == 0 || n > room || !last && n != room {
				t.Fatalf("chunk %d: offset %d, %d bytes, want offset %d", i, offset, n, at)
			}
			at += n
			if last != (at == size) {
				t.Fatalf("chunk %d: last %v at %d of %d", i, last, at, size)
			}
		}
		if at != size || !s.Done() {
			t.Fatalf("%d of %d bytes, done %v", at, size, s.Done())
		}
		if offset, n, last := s.Next(); offset != size || n != 0 || !last {
			t.Fatalf("behind the end: %d, %d, %v", offset, n, last)
		}
	})
}

func TestNoRoomPanics(t *testing.T) {
	var a Assembler
	for name, call := range map[string]func(){
		"NewSplit":        func() { NewSplit(1, 0) },
		"Assembler.Init":  func() { a.Init(nil, 0) },
		"Init, too large": func() { a.Init(nil, PayloadBytesMax+1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func BenchmarkSplit(b *testing.B) {
	s := NewSplit(1<<30, 1432)
	for b.Loop() {
		if _, _, last := s.Next(); last {
			s = NewSplit(1<<30, 1432)
		}
	}
}

func ExampleSplit() {
	s := NewSplit(10, 4)
	for last := false; !last; {
		var offset, n uint32
		offset, n, last = s.Next()
		fmt.Println(offset, n, last)
	}
	// Output:
	// 0 4 false
	// 4 4 false
	// 8 2 true
}
