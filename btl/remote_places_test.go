package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/remote"
	"gobtl/fabric/mem"
)

// An atomic operation whose old value nobody wants needs no place among those that wait for an
// answer, nor a region.
func TestAtomicWithoutValue(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax, cfg.RegionsMax = 2*remote.AsksMax, 1
	l := newRemoteLab(t, mem.Config{}, cfg, false)
	l.settle(time.Second)
	add := Atomic{Target: l.region.Handle(), Action: ActionAdd, WidthBytes: 8, Operand: 1}
	fetch := add
	fetch.Fetch = true
	var held []*Fragment
	for range remote.AsksMax {
		f, err := l.ep.PrepareAtomic(fetch)
		if err != nil {
			t.Fatalf("operation %d: %v", len(held), err)
		}
		held = append(held, f)
	}
	if _, err := l.ep.PrepareAtomic(fetch); !errors.Is(err, ErrAgain) {
		t.Errorf("one more that wants a value: %v", err)
	}
	if _, err := l.ep.PrepareGet(make([]byte, 8), l.region.Handle(), 0); !errors.Is(err, ErrAgain) {
		t.Errorf("a get: %v", err)
	}
	if _, err := l.do(l.ep.PrepareAtomic(add)); err != nil {
		t.Errorf("without a value: %v", err)
	}
	for _, f := range held {
		if err := l.ep.Free(f); err != nil {
			t.Fatal(err)
		}
	}
}
