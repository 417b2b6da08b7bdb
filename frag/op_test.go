package frag

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func getBytes(g Get) []byte {
	b := make([]byte, GetBytes)
	g.Marshal(b)
	return b
}

func atomicBytes(a Atomic) []byte {
	b := make([]byte, AtomicBytes)
	a.Marshal(b)
	return b
}

// TestOpBodiesCanonical checks that decoding any valid bytes and encoding the result gives the same
// bytes.
func TestOpBodiesCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), AtomicBytes, AtomicBytes).Draw(t, "body")
		// otherwise hardly any bytes would be valid
		for i := range rapid.IntRange(0, 8).Draw(t, "zero") {
			b[len(b)-1-i] = 0
		}
		var a Atomic
		if DecodeAtomic(b, &a) && string(atomicBytes(a)) != string(b) {
			t.Fatalf("%x is %+v, which is %x", b, a, atomicBytes(a))
		}
		var g Get
		if DecodeGet(b[:GetBytes], &g) && string(getBytes(g)) != string(b[:GetBytes]) {
			t.Fatalf("%x is %+v, which is %x", b[:GetBytes], g, getBytes(g))
		}
	})
}

// TestAtomicValid checks that an undefined atomic operation is refused.
func TestAtomicValid(t *testing.T) {
	good := Atomic{Action: ActionAdd, WidthBytes: 4, Operand: math.MaxUint32}
	for name, change := range map[string]func(*Atomic){
		"no action":             func(a *Atomic) { a.Action = 0 },
		"beyond the actions":    func(a *Atomic) { a.Action = ActionRead + 1 },
		"odd width":             func(a *Atomic) { a.WidthBytes = 2 },
		"operand too large":     func(a *Atomic) { a.Operand++ },
		"compares for nothing":  func(a *Atomic) { a.Compare = 1 },
		"compares what is long": func(a *Atomic) { a.Action, a.Compare = ActionCompareSwap, 1<<32 },
		"reads with an operand": func(a *Atomic) { a.Action, a.Fetch = ActionRead, true },
		"reads for nobody":      func(a *Atomic) { a.Action, a.Operand = ActionRead, 0 },
	} {
		a := good
		if !a.Valid() {
			t.Fatal("the good one is not valid")
		}
		if change(&a); a.Valid() {
			t.Errorf("%s: %+v is valid", name, a)
		}
	}
	b := atomicBytes(good)
	if b[35] = 1; DecodeAtomic(b, &good) {
		t.Error("what is reserved may be anything")
	}
}

// TestAtomicApply checks the result of each action.
func TestAtomicApply(t *testing.T) {
	for _, tc := range []struct {
		a         Atomic
		old, want uint64
	}{
		{Atomic{Action: ActionAdd, WidthBytes: 8, Operand: 3}, math.MaxUint64, 2},
		{Atomic{Action: ActionAdd, WidthBytes: 4, Operand: 3}, math.MaxUint32, 2},
		{Atomic{Action: ActionSwap, WidthBytes: 8, Operand: 3}, 9, 3},
		{Atomic{Action: ActionCompareSwap, WidthBytes: 8, Operand: 3, Compare: 9}, 9, 3},
		{Atomic{Action: ActionCompareSwap, WidthBytes: 8, Operand: 3, Compare: 8}, 9, 9},
		{Atomic{Action: ActionAnd, WidthBytes: 8, Operand: 3}, 9, 1},
		{Atomic{Action: ActionOr, WidthBytes: 8, Operand: 3}, 9, 11},
		{Atomic{Action: ActionXor, WidthBytes: 8, Operand: 3}, 9, 10},
		{Atomic{Action: ActionMin, WidthBytes: 8, Operand: 3}, 9, 3},
		{Atomic{Action: ActionMax, WidthBytes: 8, Operand: 3}, 9, 9},
		{Atomic{Action: ActionRead, WidthBytes: 8}, 9, 9},
	} {
		if got := tc.a.Apply(tc.old); got != tc.want {
			t.Errorf("%+v makes %d of %d, want %d", tc.a, got, tc.old, tc.want)
		}
	}
}
