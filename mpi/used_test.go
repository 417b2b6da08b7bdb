package mpi

import (
	"errors"
	"testing"
)

// Each number is accepted once, in any order within the window.
func TestUsedContexts(t *testing.T) {
	u := new(usedContexts)
	for _, step := range []struct {
		n    uint64
		want bool
	}{
		{0, false},
		{1, true},
		{1, false},
		{3, true},
		{2, true},
		{3, false},
		{2, false},
		{usedWindow, true},
		{usedWindow + 1, true},
		{1, false},
		{usedWindow - 1, true},
		{usedWindow + 3, true},
		{3, false},
		{4, true},
		{4, false},
		{usedWindow + 4, true},
		{5, true},
		{usedWindow + 2, true},
		{usedWindow + 2, false},
		{9 * usedWindow, true},
		{9 * usedWindow, false},
		{8*usedWindow + 1, true},
		{8 * usedWindow, false},
		{usedWindow + 5, false},
		{9*usedWindow - 1, true},
	} {
		if got := u.take(step.n); got != step.want {
			t.Fatalf("number %d: %t, want %t", step.n, got, step.want)
		}
	}
}

// A context names its maker and has no other bits.
func TestUseOfContexts(t *testing.T) {
	used := contextUse{}
	right := uint64(3)<<makerShift | 7<<countShift
	for _, c := range []struct {
		context uint64
		maker   int
		want    error
	}{
		{right, 3, nil},
		{right, 3, ErrWrongContext},
		{right + 1<<countShift, 4, ErrWrongContext},
		{right + 1<<countShift + 1, 3, ErrWrongContext},
		{right + 1<<countShift, 3, nil},
	} {
		if err := used.check(c.context, c.maker); !errors.Is(err, c.want) {
			t.Errorf("%#x of rank %d: %v, want %v", c.context, c.maker, err, c.want)
		}
	}
}

// A maker makes each context once, in order, and none when all numbers are used.
func TestContextMaker(t *testing.T) {
	m, used := contextMaker{rank: 3}, contextUse{}
	for range 1<<countBits - 1 {
		if err := used.check(m.next(), 3); err != nil {
			t.Fatalf("context %d: %v", m.made, err)
		}
	}
	for range 2 {
		if c := m.next(); c != 0 {
			t.Errorf("all contexts were made, and %#x is one more", c)
		}
	}
}
