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

func TestNoRoomPanics(t *testing.T) {
	var a Assembler
	for name, call := range map[string]func(){
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
