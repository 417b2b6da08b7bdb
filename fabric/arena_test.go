package fabric

import (
	"errors"
	"testing"
)

// TestArenaHold checks that the memory is released once, after the Domain has retired the memory
// and the last Hold is dropped.
func TestArenaHold(t *testing.T) {
	errFree := errors.New("not mine")
	for _, holds := range []int{0, 1, 50} {
		a, err := NewArena(make([]byte, 64), 1, 64, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		freed := 0
		view := a.Shrink(1)
		for range holds {
			view.Hold()
		}
		err = a.Retire(func() error { freed++; return errFree })
		if (freed == 1) != (holds == 0) || errors.Is(err, errFree) != (holds == 0) {
			t.Errorf("%d holds: freed %d times, %v", holds, freed, err)
		}
		for range holds - 1 {
			view.Drop()
		}
		if holds > 0 && freed != 0 {
			t.Errorf("%d holds: freed before the last is dropped", holds)
		}
		if holds > 0 {
			view.Drop()
		}
		if freed != 1 {
			t.Errorf("%d holds: freed %d times in all", holds, freed)
		}
	}
}
