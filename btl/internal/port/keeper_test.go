package port

import (
	"testing"

	"gobtl/fabric"
)

// A packet is kept in its buffer while there are spare ones, however often, and its buffer is spare
// again when the last Keep is undone, also while the packet is in hand.
func TestKeeper(t *testing.T) {
	p := open(t)
	k, first := &p.Keeper, p.FirstReceive()
	if _, ok := k.Keep(p.Arena.Bytes(first)); ok {
		t.Error("kept without a packet")
	}
	var kept []fabric.Buf
	for i := range fabric.Buf(testSpare + 1) {
		b := first + i
		k.Hold(b)
		data := p.Arena.Bytes(b)
		if _, ok := k.Keep(p.Arena.Bytes(b + 1)); ok {
			t.Fatal("what is no part of the packet is kept")
		}
		got, ok := k.Keep(data[10:20])
		if want := i < testSpare; ok != want {
			t.Fatalf("packet %d kept: %v", i, ok)
		}
		if ok {
			if again, ok := k.Keep(data[30:40]); !ok || again != got || got != b {
				t.Fatalf("buffer %d is kept as %d and %d", b, got, again)
			}
			kept = append(kept, got, got)
		}
		if post := k.Held(); ok == (post == b) {
			t.Fatalf("kept %v, and buffer %d is posted again for %d", ok, post, b)
		}
	}
	if k.Kept() != testSpare || len(k.spare) != 0 {
		t.Errorf("%d buffers kept, %d spare", k.Kept(), len(k.spare))
	}
	for _, b := range kept {
		k.LetGo(b)
	}
	if k.Kept() != 0 || len(k.spare) != testSpare {
		t.Errorf("%d buffers kept, %d spare", k.Kept(), len(k.spare))
	}
	k.Hold(kept[0])
	b, _ := k.Keep(p.Arena.Bytes(kept[0]))
	if k.LetGo(b); k.Held() != kept[0] || len(k.spare) != testSpare {
		t.Error("a packet that is let go at once is not posted again")
	}
}
